// A recording keeps what was read and drops whose machine it is.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "core/mount_table.hpp"
#include "recording/anonymise.hpp"
#include "recording/recorded_host.hpp"
#include "recording/recording.hpp"
#include "recording/recording_host.hpp"
#include "support/memory_host.hpp"

namespace nobounce::recording {
namespace {

/// A machine that says in many places whose it is.
struct Planted {
  support::MemoryHost host;
  std::vector<std::string> secrets = {
      "node17.cluster.example.org",
      "node17",
      "cluster.example.org",
      "alice.miller",
      "filer3.example.org",
      "10.20.30.40",
      "fe80::a00:27ff:fe4e:66a1",
      "b8:59:9f:d9:11:2c",
      "b859:9f03:00d9:112c",
      "S4EVNX0M123456",
      "3f0c9a6e-1b7d-4c9e-8a2f-5d1e6b7c8d9f",
      "GPU-1d0b14e4-db01-8fed-6e73-e372e2338aca",
      "7f3a9c1e5b2d4f6a8c0e1d3b5f7a9c2e",
      "eui.0025385b21404321",
      "4c4c4544-0051-3010-8052-b7c04f4c3533",
      "hunter2-token",
      "install.example.net",
      "b8-59-9f-d9-11-2d",
      "carol",
      "sshbox",
      "mdsone",
      "mdstwo",
      "dave",
      "CORPNET",
      "erin",
      "frank",
      "grace",
      "heidi",
      "ivan",
      "judy",
      "builder-of-ours",
      "secret-project",
      "unannounced",
      "ceph-mon-1",
      "ceph-mon-2",
      "weka-one",
      "acme-settings",
      "nvmetoken",
      "acme-corp-secret",
      "blue",
      "whale",
      "orca",
      "narwhal",
      "beluga",
      "walrus",
      "porpoise",
      "seacow",
      "otter",
      "seal",
      "dolphin",
      "manatee",
      "dugong",
      "sunfish",
      "k8sclaim",
      "4c0ffee4c0ffee4c0ffee4c0ffee4c0ffee4c0ffee4c0ffee4c0ffee4c0ffee0",
      "1b2c3d4e"};

  Planted() {
    const auto file = [this](const std::string& path, const std::string& text) {
      host.tree.text(path, text);
    };
    file("/proc/sys/kernel/hostname", "node17.cluster.example.org\n");
    file("/etc/passwd", "root:x:0:0::/root:/bin/sh\nalice.miller:x:1001:1001::/home/a:/bin/sh\n");
    file("/etc/machine-id", "7f3a9c1e5b2d4f6a8c0e1d3b5f7a9c2e\n");
    file("/sys/class/net/ens1/address", "b8:59:9f:d9:11:2c\n");
    file("/sys/class/infiniband/mlx5_0/node_guid", "b859:9f03:00d9:112c\n");
    file("/sys/class/nvme/nvme0/serial", "S4EVNX0M123456\n");
    file("/proc/cmdline",
         "root=UUID=3f0c9a6e-1b7d-4c9e-8a2f-5d1e6b7c8d9f nfsroot=10.20.30.40:/x "
         "hostname=node17 disk=nvme-S4EVNX0M123456 iommu=pt intel_iommu=on pci=noacs "
         "pcie_aspm=off nvidia.NVreg_EnableResizableBar=1 nvme_core.multipath=N hugepagesz=1G "
         "mitigations=off nvme_key=nvmetoken join=hunter2-token url=\"http://install.example.net/a "
         "b pci=no\" "
         "BOOTIF=01-b8-59-9f-d9-11-2d\n");
    file("/proc/version",
         "Linux version 6.8.0-45-generic (carol@builder-of-ours (x)) (gcc-13 (Ubuntu 13.2.0)) "
         "#45\n");
    file("/etc/dhcp", "hardware b8-59-9f-d9-11-2d\n");
    file("/proc/self/mountinfo",
         "21 1 259:0 / / rw - ext4 /dev/nvme0n1 rw\n"
         "22 1 0:60 / /home/alice.miller rw - nfs4 filer3.example.org:/export/alice.miller "
         "rw,addr=10.20.30.40,clientaddr=fe80::a00:27ff:fe4e:66a1\n"
         "23 1 0:61 / /var/lib/x/7f3a9c1e5b2d4f6a8c0e1d3b5f7a9c2e rw - tmpfs none rw\n"
         "24 1 0:62 / /mnt/a rw - fuse.sshfs carol@sshbox:/x rw,user_id=1000\n"
         "25 1 0:63 / /mnt/b rw - lustre mdsone@o2ib:mdstwo@o2ib:/fs rw\n"
         "26 1 0:64 / /mnt/c rw - cifs //sshbox/share rw,username=dave,domain=CORPNET\n"
         "27 1 0:65 / /mnt/d rw - ceph erin@b7c04f4c-1b7d-4c9e-8a2f-5d1e6b7c8d9f.fs=/ "
         "rw,name=frank\n"
         "28 1 0:66 / /mnt/e rw - 9p share rw,user=grace\n"
         "29 1 0:67 / /scratch/heidi rw - xfs /dev/nvme1n1 rw\n"
         "30 1 0:68 / /export/ivan rw - xfs /dev/nvme2n1 rw\n"
         "31 1 0:69 / /projects/judy/x rw - xfs /dev/nvme3n1 rw\n"
         "33 1 0:71 / /mnt/f rw - ceph ceph-mon-1:6789,ceph-mon-2:6789:/ rw\n"
         "34 1 0:72 / /mnt/g rw - wekafs weka-one/default rw\n"
         "35 1 253:1 / /mnt/acme-corp-secret rw - xfs /dev/mapper/vg_narwhal-lv_beluga rw\n"
         "36 35 9:127 / /mnt/acme-corp-secret/blue\\040whale rw - ext4 /dev/md/porpoise rw\n"
         "37 1 0:73 /orca /data/orca rw shared:3 - ceph ceph-mon-1:6789:/orca "
         "rw,mds_namespace=seacow,acl\n"
         "38 1 0:74 / /srv/data1 rw - zfs otter/seal rw\n"
         "39 1 0:75 / /var/lib/kubelet/pods/3f0c9a6e-1b7d-4c9e-8a2f-5d1e6b7c8d9f/volumes/"
         "k8sclaim rw - tmpfs tmpfs rw,size=8192k\n"
         "40 1 0:76 / / rw - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/walrus:"
         "/var/lib/docker/overlay2/l/b\n"
         "32 1 0:70 / /sys/fs/cgroup rw - cgroup cgroup rw,name=systemd\n");
    file("/proc/self/cgroup",
         "1:name=systemd:/docker/"
         "4c0ffee4c0ffee4c0ffee4c0ffee4c0ffee4c0ffee4c0ffee4c0ffee4c0ffee0\n"
         "0::/kubepods.slice/kubepods-burstable-pod1b2c3d4e_1b7d_4c9e_8a2f_5d1e6b7c8d9f.slice/"
         "dolphin.service\n");
    file("/sys/devices/virtual/block/dm-1/dm/uuid",
         "CRYPT-LUKS2-7f3a9c1e5b2d4f6a8c0e1d3b5f7a9c2e-luks-walrus\n");
    file(
        "/etc/cufile.json",
        "{ // ask dugong\n  \"logging\": { \"dir\": \"/var/log/manatee\", \"level\": \"ERROR\" },\n"
        "  /* or\n sunfish */ \"properties\": { \"use_poll_mode\": false, \"io_priority\": "
        "\"sunfish\" },\n  \"fs\": { \"lustre\": { \"mount_table\": { "
        "\"/mnt/acme-corp-secret\": { \"posix_gds_min_kb\": 4 } } } }\n}\n");
    file("/proc/driver/nvidia/gpus/0000:01:00.0/information",
         "Model: H100\nGPU UUID: GPU-1d0b14e4-db01-8fed-6e73-e372e2338aca\n");
    file("/run/udev/data/b259:0", "S:disk/by-id/nvme-eui.0025385b21404321\n");
    file("/sys/class/dmi/id/product_uuid", "4c4c4544-0051-3010-8052-b7c04f4c3533\n");
    host.variables.variables["USER"] = "alice.miller";
    host.variables.variables["NCCL_TOPO_FILE"] = "/home/alice.miller/topo-node17.xml";
    host.variables.variables["CUFILE_ENV_PATH_JSON"] = "/opt/secret-project/unannounced/my.json";
    host.variables.variables["NCCL_GRAPH_FILE"] = "/etc/acme-settings/topo.xml";
    file("/opt/secret-project/unannounced/my.json", "{}\n");
  }
};

TEST(Anonymiser, LeavesNoneOfThePlantedSecrets) {
  Planted planted;
  Recording recording;
  const auto taking = make_recording_host(planted.host, recording);
  for (const char* path :
       {"/proc/sys/kernel/hostname", "/etc/passwd", "/etc/machine-id", "/proc/cmdline",
        "/sys/class/net/ens1/address", "/sys/class/infiniband/mlx5_0/node_guid",
        "/sys/class/nvme/nvme0/serial", "/proc/self/mountinfo", "/run/udev/data/b259:0",
        "/proc/driver/nvidia/gpus/0000:01:00.0/information", "/sys/class/dmi/id/product_uuid",
        "/proc/version", "/etc/dhcp", "/opt/secret-project/unannounced/my.json",
        "/proc/self/cgroup", "/sys/devices/virtual/block/dm-1/dm/uuid", "/etc/cufile.json"}) {
    ASSERT_TRUE(taking->files().read(path)) << path;
  }
  ASSERT_TRUE(taking->files().list("/sys/class/net"));
  (void)taking->environment().get("USER");
  (void)taking->environment().get("NCCL_TOPO_FILE");
  (void)taking->environment().get("NCCL_GRAPH_FILE");
  (void)taking->environment().get("CUFILE_ENV_PATH_JSON");
  recording.files.links["/dev/mapper/vg_narwhal-lv_beluga"] = "/dev/dm-1";
  recording.places["/mnt/acme-corp-secret"] = "/mnt/acme-corp-secret";
  recording.places["/mnt/acme-corp-secret/blue whale"] = "/mnt/acme-corp-secret/blue whale";
  recording.missing_places["/data/orca"] = EACCES;
  note_place(planted.host, "/home/alice.miller", recording);
  recording.nvml = core::JsonObject{{"uuid", "GPU-1d0b14e4-db01-8fed-6e73-e372e2338aca"}};
  recording.name = "node17";
  const std::string before = core::dump_json(to_json(recording));
  Anonymiser(find_secrets(planted.host)).apply(recording);
  const std::string after = core::dump_json(to_json(recording));
  for (const std::string& secret : planted.secrets) {
    EXPECT_NE(before.find(secret), std::string::npos) << secret << " was not planted";
    EXPECT_EQ(after.find(secret), std::string::npos) << secret;
  }
  EXPECT_NE(after.find("0000:01:00.0"), std::string::npos) << "bus addresses are no secret";
  EXPECT_EQ(recording.files.texts.at("/proc/cmdline"),
            "iommu=pt intel_iommu=on pci=noacs pcie_aspm=off nvidia.NVreg_EnableResizableBar=1 "
            "nvme_core.multipath=N hugepagesz=1G mitigations=off\n");
  EXPECT_EQ(recording.files.texts.at("/proc/version"),
            "Linux version 6.8.0-45-generic (gcc-13 (Ubuntu 13.2.0)) #45\n");
  EXPECT_NE(recording.files.texts.at("/proc/self/mountinfo").find("name=systemd"),
            std::string::npos);
  const std::string moved = recording.environment.at("CUFILE_ENV_PATH_JSON");
  EXPECT_NE(moved.find("/my.json"), std::string::npos) << moved;
  EXPECT_EQ(recording.files.texts.at(moved), "{}\n") << "the file moves with its variable";
}

std::vector<core::MountLine> mounts_of(const Recording& recording) {
  return core::parse_mount_table(recording.files.texts.at("/proc/self/mountinfo"));
}

/// What a mount table says about which file lies on which drive is still there.
TEST(Anonymiser, KeepsHowMountsLieInOneAnother) {
  support::MemoryHost host;
  Recording recording;
  recording.files.texts["/proc/self/mountinfo"] =
      "21 1 259:0 / / rw,relatime - ext4 /dev/nvme0n1p2 rw,data=ordered\n"
      "22 1 253:1 / /mnt/acme rw - xfs /dev/mapper/vg-data rw,logbsize=32k,nouuid\n"
      "23 22 0:50 / /mnt/acme/new\\040runs rw master:4 - nfs4 filer:/new\\040runs "
      "rw,vers=4.2,proto=rdma\n"
      "24 1 0:51 / /dev/shm rw - tmpfs tmpfs rw,size=1024k\n"
      "25 1 8:1 / /home rw - ext4 /dev/sda1 rw\n"
      "26 1 9:0 / /raid/data3 rw - ext4 /dev/md0 rw\n"
      "27 1 0:52 / /acme rw - overlay overlay rw,xino=off\n";
  recording.files.links["/dev/mapper/vg-data"] = "/dev/dm-1";
  recording.places["/mnt/acme/new runs"] = "/mnt/acme/new runs";
  Anonymiser({{"filer"}, {}, {}}).apply(recording);
  const std::vector<core::MountLine> mounts = mounts_of(recording);
  ASSERT_EQ(mounts.size(), 7U);
  EXPECT_EQ(mounts[0].point, "/");
  EXPECT_EQ(mounts[0].source, "/dev/nvme0n1p2");
  EXPECT_NE(mounts[0].options.find("data=ordered"), std::string::npos);
  const std::string acme = mounts[1].point.substr(4);
  EXPECT_EQ(mounts[1].point.substr(0, 5), "/mnt/");
  EXPECT_EQ(mounts[2].point.substr(0, mounts[1].point.size() + 1), mounts[1].point + "/");
  EXPECT_EQ(mounts[6].point, acme) << "the same word is the same everywhere";
  EXPECT_EQ(recording.files.links.at(mounts[1].source), "/dev/dm-1");
  EXPECT_NE(mounts[1].options.find("logbsize=32k,nouuid"), std::string::npos);
  EXPECT_EQ(mounts[2].source.substr(0, 8), "host-1:/");
  EXPECT_NE(mounts[2].options.find("proto=rdma"), std::string::npos);
  EXPECT_EQ(recording.places.count(mounts[2].point), 1U);
  EXPECT_EQ(mounts[3].point, "/dev/shm");
  EXPECT_EQ(mounts[4].point + mounts[4].source, "/home/dev/sda1");
  EXPECT_EQ(mounts[5].point + mounts[5].source, "/raid/data3/dev/md0");
}

TEST(Anonymiser, KeepsTheSettingsOfCufile) {
  Recording recording;
  recording.files.texts["/etc/cufile.json"] =
      "{ // why\n \"properties\": { \"allow_compat_mode\": true, \"rdma_dev_addr_list\": "
      "[\"10.1.2.3\"] },\n \"logging\": { \"level\": \"WARN\", \"dir\": \"/x\\\"y\" } }";
  recording.files.texts["/usr/local/cuda/gds/cufile.json"] = "{ nonsense: \"a";
  Anonymiser({}).apply(recording);
  EXPECT_EQ(recording.files.texts.at("/etc/cufile.json"),
            "{ \n \"properties\": { \"allow_compat_mode\": true, \"rdma_dev_addr_list\": "
            "[\"192.0.2.1\"] },\n \"logging\": { \"level\": \"WARN\", \"dir\": \"/folder-1\" } }");
  EXPECT_EQ(recording.files.texts.at("/usr/local/cuda/gds/cufile.json"), "{ xxxxxxxx: \"value-1");
}

TEST(Anonymiser, TakesOwnersOutOfPathsAndLeavesTheRest) {
  Anonymiser anonymiser({});
  EXPECT_EQ(anonymiser.text("/scratch/al/x /scratch/al,/scratch/bo"),
            "/scratch/user-1/x /scratch/user-1,/scratch/user-2");
  EXPECT_EQ(anonymiser.text("/export/home/al:/data"), "/export/home/user-1:/data");
  EXPECT_EQ(anonymiser.text("/home/user-7 /scratch/ /scratch"), "/home/user-7 /scratch/ /scratch");
  EXPECT_EQ(anonymiser.text("b8-59-9f-d9-11-2c"), "02:00:00:00:00:01");
  EXPECT_EQ(anonymiser.text("BOOTIF=01-b8-59-9f-d9-11-2c"), "BOOTIF=02:00:00:00:00:02");
  EXPECT_EQ(anonymiser.text("2026-01-02-03-04-05"), "2026-01-02-03-04-05");
}

TEST(Anonymiser, ReplacesTheSameByTheSame) {
  Anonymiser anonymiser({{"node17"}, {"alice"}, {}});
  const std::string once = anonymiser.text("10.0.0.7 and 10.0.0.8, again 10.0.0.7");
  EXPECT_EQ(once, "192.0.2.1 and 192.0.2.2, again 192.0.2.1");
  EXPECT_EQ(anonymiser.text("node17 /home/alice"), "host-1 /home/user-1");
  EXPECT_EQ(anonymiser.text("/home/alice"), "/home/user-1");
}

TEST(Anonymiser, LeavesWhatIsNoSecret) {
  Anonymiser anonymiser({});
  for (const char* text :
       {"0000:c1:00.0", "00000000:C1:00.0", "pci0000:00", "580.95.05", "6.8.0-45-generic",
        "libnccl.so.2.21.5", "1.15.1.6.9", "127.0.0.1", "0::/", "259:0",
        "0x0000010000000000 0x00000100ffffffff 0x000000000014220c", "nvme0n1", "10de:2330",
        "GDS Version: 1.15", "0000000000000000 d p2pdma_pgmap_ops"}) {
    EXPECT_EQ(anonymiser.text(text), text);
  }
}

TEST(Anonymiser, HidesTheSerialNumberInConfigurationSpace) {
  std::string config(4096, '\0');
  config[0x100] = 3;  // device serial number
  config[0x102] = 1;
  for (std::size_t i = 0x104; i < 0x10c; ++i) config[i] = 'S';
  Recording recording;
  recording.files.texts["/sys/devices/pci0000:00/0000:00:01.0/config"] = config;
  Anonymiser({}).apply(recording);
  EXPECT_EQ(recording.files.texts.begin()->second.find('S'), std::string::npos);
}

TEST(Recording, IsTheSameAfterItsDocument) {
  Recording recording;
  recording.name = "a";
  recording.files.texts["/a"] = "text\n";
  recording.files.texts["/b"] = std::string("\x86\x80\xff\0\0", 5);
  recording.files.folders["/c"] = {"x", "y"};
  recording.files.links["/d"] = "/c";
  recording.files.unreadable["/e"] = EACCES;
  recording.environment["V"] = "1";
  recording.places["/"] = "/";
  recording.missing_places["/gone"] = ENOENT;
  recording.nvml = core::JsonObject{{"driver", "580.95.05"}};
  const Result<Recording> read = recording_from_json(to_json(recording), "r.json");
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(core::dump_json(to_json(*read)), core::dump_json(to_json(recording)));
  EXPECT_EQ(read->files.texts.at("/b"), recording.files.texts.at("/b"));
}

TEST(Recording, RefusesWhatIsNone) {
  const auto detail = [](const char* text) {
    const Result<core::Json> document = core::parse_json(text, "r.json");
    const Result<Recording> read = recording_from_json(*document, "r.json");
    return read ? std::string("read") : read.error().detail;
  };
  EXPECT_EQ(detail("{}"), "/schema: needs \"nobounce.recording/1\"");
  EXPECT_EQ(detail(R"({"schema":"nobounce.recording/1","x":1})"), "/x: unknown field");
  EXPECT_EQ(detail(R"({"schema":"nobounce.recording/1","files":{"/a":{"hex":"1"}}})"),
            "/files/~1a: needs a text, or hex and length");
  EXPECT_EQ(detail(R"({"schema":"nobounce.recording/1","unreadable":{"/a":99999}})"),
            "/unreadable/~1a: needs a number of at most 4095");
}

struct WrongType {
  const char* member;
  const char* detail;
};

class Answers : public testing::TestWithParam<WrongType> {};

TEST_P(Answers, OfAWrongTypeAreNamed) {
  const std::string text =
      std::string(R"({"schema":"nobounce.recording/1",)") + GetParam().member + "}";
  const Result<core::Json> document = core::parse_json(text, "r.json");
  ASSERT_TRUE(document) << text;
  const Result<Recording> read = recording_from_json(*document, "r.json");
  ASSERT_FALSE(read) << text;
  EXPECT_EQ(read.error().detail, GetParam().detail);
}

constexpr WrongType wrong_types[] = {
    {R"("nvml":1)", "/nvml: needs an object or null"},
    {R"("cuda":[])", "/cuda: needs an object or null"},
    {R"("cufile":"x")", "/cufile: needs an object or null"},
    {R"("verbs":true)", "/verbs: needs an object or null"},
    {R"("nvml":{"error":1})", "/nvml/error: needs an object"},
    {R"("cuda":{"error":{"code":"2"}})", "/cuda/error/code: needs a whole number"},
    {R"("verbs":{"error":{"detail":2}})", "/verbs/error/detail: needs a text"},
    {R"("nvml":{"count":2})", "/nvml/count: needs an object with a code"},
    {R"("nvml":{"driver":580})", "/nvml/driver: needs a text, or an object with a code"},
    {R"("nvml":{"gpus":{}})", "/nvml/gpus: needs an array"},
    {R"("nvml":{"gpus":[{},3]})", "/nvml/gpus/1: needs an object"},
    {R"("nvml":{"gpus":[{"memory_bytes":"80G"}]})",
     "/nvml/gpus/0/memory_bytes: needs a whole number, or an object with a code"},
    {R"("nvml":{"gpus":[{"peer_read":[null,{"code":"x"}]}]})",
     "/nvml/gpus/0/peer_read/1: needs a whole number, or an object with a code"},
    {R"("nvml":{"gpus":[{"nvlinks":[1]}]})",
     "/nvml/gpus/0/nvlinks/0: needs a text, or an object with a code"},
    {R"("cuda":{"devices":[{"attributes":[]}]})", "/cuda/devices/0/attributes: needs an object"},
    {R"("cuda":{"devices":[{"attributes":{"116":true}}]})",
     "/cuda/devices/0/attributes/116: needs a whole number, or an object with a code"},
    {R"("cufile":{"version":"1.15"})",
     "/cufile/version: needs a whole number, or an object with a code"},
    {R"("verbs":{"library":1})", "/verbs/library: needs true or false"},
};

INSTANTIATE_TEST_SUITE_P(Members, Answers, testing::ValuesIn(wrong_types));

TEST(Answers, OfAllLibrariesAreReadBackAsTheyWereWritten) {
  const Result<core::Json> document = core::parse_json(
      R"({"schema":"nobounce.recording/1",
          "nvml":{"driver":{"code":3},"confidential":0,"gpus":[{},{"bdf":"0000:01:00.0","mig":
            {"code":3},"peer_read":[null,0,{"code":3}],"nvlinks":["inactive",{"code":2}]}]},
          "cuda":{"devices":[{"bdf":"0000:01:00.0","attributes":{"18":-1},"can_access":[null,1]}]},
          "cufile":{"code":5011},"verbs":{"library":true}})",
      "r.json");
  ASSERT_TRUE(document) << to_string(document.error());
  const Result<Recording> read = recording_from_json(*document, "r.json");
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(read->cuda, *document->find("cuda"));
}

TEST(RecordedHost, AnswersAsTheFilesDid) {
  support::MemoryHost host;
  Recording recording;
  recording.files.texts["/sys/devices/x/vendor"] = "0x10de\n";
  recording.files.links["/sys/bus/devices/x"] = "/sys/devices/x";
  recording.files.folders["/empty"] = {};
  recording.files.unreadable["/secret"] = EACCES;
  const auto recorded = make_recorded_host(recording, host);
  system::Files& files = recorded->files();
  EXPECT_EQ(*files.read("/sys/bus/devices/x/vendor"), "0x10de\n");
  EXPECT_EQ(*files.real_path("/sys/bus/devices/x"), "/sys/devices/x");
  EXPECT_EQ(*files.list("/sys/bus/devices"), std::vector<std::string>{"x"});
  EXPECT_TRUE(files.list("/empty")->empty());
  EXPECT_TRUE(files.exists("/sys/devices"));
  EXPECT_FALSE(files.exists("/sys/devices/y"));
  EXPECT_EQ(files.read("/secret").error().code, EACCES);
  EXPECT_EQ(files.read("/nothing").error().code, ENOENT);
}

TEST(RecordedHost, RefusesToMoveBytes) {
  support::MemoryHost host;
  const auto recorded = make_recorded_host({}, host);
  const auto opened = recorded->storage().open("/x", {});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().cause, Cause::evidence_recording_only);
  EXPECT_EQ(recorded->memory().allocate_plain(4096, 0).error().cause,
            Cause::evidence_recording_only);
  EXPECT_FALSE(recorded->cuda());
  EXPECT_EQ(recorded->kind(), HostKind::recorded);
}

}  // namespace
}  // namespace nobounce::recording
