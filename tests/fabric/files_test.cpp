// The file view of a software machine: what a Linux host of that description would show.
#include <algorithm>

#include "fabric/soft_files_tree.hpp"
#include "machine_rig.hpp"

namespace nobounce::fabric {
namespace {

constexpr const char* pci = "/sys/bus/pci/devices/";

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string folder_name(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

unsigned word_at(const std::string& bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes.at(at)) |
         (static_cast<unsigned>(static_cast<unsigned char>(bytes.at(at + 1))) << 8);
}

struct View {
  explicit View(const Machine& described) : rig(described) {}
  std::string read(const std::string& path) {
    Result<std::string> text = rig.files->read(path);
    EXPECT_TRUE(text.ok()) << path;
    return text.ok() ? *text : "";
  }
  std::string real(const std::string& path) {
    Result<std::string> text = rig.files->real_path(path);
    EXPECT_TRUE(text.ok()) << path;
    return text.ok() ? *text : "";
  }
  bool lists(const std::string& folder, const std::string& name) {
    const auto names = rig.files->list(folder);
    return names.ok() && std::find(names->begin(), names->end(), name) != names->end();
  }
  MachineRig rig;
};

TEST(FileTree, ResolvesLinksOnTheWayAndAtTheEnd) {
  FileTree tree;
  tree.add_text("/sys/devices/a/b/value", "7\n");
  tree.add_link("/sys/class/x/one", "/sys/devices/a");
  tree.add_link("/sys/class/x/two", "/sys/class/x/one");
  EXPECT_EQ(*tree.read("/sys/class/x/two/b/value"), "7\n");
  EXPECT_EQ(*tree.real_path("/sys/class/x/two/b/../b"), "/sys/devices/a/b");
  EXPECT_EQ(*tree.read_link("/sys/class/x/one"), "../../devices/a");
  EXPECT_EQ(*tree.list("/sys/class/x"), (std::vector<std::string>{"one", "two"}));
}

TEST(FileTree, AnswersTheKernelsErrors) {
  FileTree tree;
  tree.add_text("/a/file", "x");
  tree.add_link("/a/loop", "/a/loop");
  EXPECT_EQ(tree.read("/a/none").error().code, ENOENT);
  EXPECT_EQ(tree.read("/a").error().code, EISDIR);
  EXPECT_EQ(tree.list("/a/file").error().code, ENOTDIR);
  EXPECT_EQ(tree.read("/a/file/x").error().code, ENOTDIR);
  EXPECT_EQ(tree.read("/a/loop").error().code, ELOOP);
  EXPECT_EQ(tree.read_link("/a/file").error().code, EINVAL);
  EXPECT_EQ(tree.read("relative").error().code, ENOENT);
}

TEST(FileTree, HidesWhatIsNotThereAtTheMoment) {
  FileTree tree;
  bool there = true;
  tree.add_made_text("/proc/x/value", [] { return std::string("made"); });
  tree.add_text("/proc/xy", "stays");
  tree.show_while("/proc/x", [&] { return there; });
  EXPECT_EQ(*tree.read("/proc/x/value"), "made");
  there = false;
  EXPECT_FALSE(tree.exists("/proc/x/value"));
  EXPECT_FALSE(tree.exists("/proc/x"));
  EXPECT_EQ(*tree.list("/proc"), (std::vector<std::string>{"xy"}));
}

TEST(PciFiles, ShowEveryEndpointWithItsLinkAndDriver) {
  for (const EmbeddedMachine& embedded : embedded_machines()) {
    View view(built_in(embedded.name));
    for (const Gpu& gpu : view.rig.machine.gpus) {
      const std::string path = pci + gpu.bdf;
      EXPECT_EQ(view.read(path + "/vendor"), "0x10de\n");
      EXPECT_EQ(view.read(path + "/class"), "0x030200\n");
      EXPECT_EQ(base_name(view.real(path + "/driver")), "nvidia");
      EXPECT_EQ(view.read(path + "/current_link_width"), "16\n");
      EXPECT_NE(view.read("/proc/driver/nvidia/gpus/" + gpu.bdf + "/information").find(gpu.uuid),
                std::string::npos);
      EXPECT_EQ(base_name(view.real(path)), gpu.bdf);
    }
    for (const Nic& nic : view.rig.machine.nics) {
      EXPECT_EQ(view.real("/sys/class/infiniband/" + nic.name + "/device"),
                view.real(pci + nic.bdf));
      EXPECT_EQ(view.real("/sys/class/net/" + nic.name + "_net/device"), view.real(pci + nic.bdf));
    }
  }
}

TEST(PciFiles, NestDevicesOfOneSwitchUnderItsUpstreamPort) {
  View view(built_in("dgx"));
  for (std::size_t i = 0; i < 8; ++i) {
    const std::string gpu = view.real(pci + view.rig.machine.gpus[i].bdf);
    const std::string drive = view.real("/sys/block/" + view.rig.machine.drives[i].name);
    const std::string upstream = folder_name(folder_name(gpu));
    EXPECT_EQ(drive.compare(0, upstream.size() + 1, upstream + '/'), 0) << drive;
    const std::string root_port = folder_name(upstream);
    // PCI Express capability: downstream 6, upstream 5, root port 4, endpoint 0.
    EXPECT_EQ(word_at(view.read(gpu + "/config"), 0x42) >> 4, 0u);
    EXPECT_EQ(word_at(view.read(folder_name(gpu) + "/config"), 0x42) >> 4, 6u);
    EXPECT_EQ(word_at(view.read(upstream + "/config"), 0x42) >> 4, 5u);
    EXPECT_EQ(word_at(view.read(root_port + "/config"), 0x42) >> 4, 4u);
    EXPECT_EQ(view.read(gpu + "/numa_node"), i < 4 ? "0\n" : "1\n");
  }
}

TEST(PciFiles, PutDevicesOfAFlatGuestOnTheRootBus) {
  View view(built_in("cloud-guest"));
  EXPECT_EQ(view.real(std::string(pci) + "0000:00:06.0"), "/sys/devices/pci0000:00/0000:00:06.0");
  EXPECT_EQ(view.read(std::string(pci) + "0000:00:06.0/numa_node"), "-1\n");
  EXPECT_FALSE(view.rig.files->exists(std::string(pci) + "0000:00:00.0"));
}

TEST(PciFiles, ShowAcsControlOfEveryMode) {
  const struct {
    AcsMode mode;
    unsigned word;
  } cases[] = {{AcsMode::redirect, 0x1d}, {AcsMode::source_validation, 1}, {AcsMode::off, 0}};
  for (const auto& each : cases) {
    Machine machine = built_in("workstation");
    machine.switches[0].acs = each.mode;
    machine.host_bridges[0].acs = each.mode;
    View view(machine);
    const std::string port = folder_name(view.real(pci + machine.gpus[0].bdf));
    const std::string config = view.read(port + "/config");
    ASSERT_EQ(config.size(), 4096u);
    EXPECT_EQ(word_at(config, 0x100), 0x0du);
    EXPECT_EQ(word_at(config, 0x106), each.word);
    const std::string root_port = folder_name(folder_name(port));
    EXPECT_EQ(word_at(view.read(root_port + "/config"), 0x106), each.word);
  }
}

TEST(PciFiles, CutConfigurationSpaceWhereAcsIsUnknownAndHonourASinglePort) {
  Machine machine = built_in("workstation");
  for (SwitchPort& port : machine.switches[0].ports) {
    if (port.device == "gpu:1") port.acs = AcsMode::redirect;
    if (port.device == "gpu:0") port.acs = AcsMode::unknown;
  }
  View view(machine);
  const auto port_config = [&](const std::string& bdf) {
    return view.read(folder_name(view.real(pci + bdf)) + "/config");
  };
  EXPECT_EQ(port_config(machine.gpus[0].bdf).size(), 64u);
  EXPECT_EQ(word_at(port_config(machine.gpus[1].bdf), 0x106), 0x1du);
  EXPECT_EQ(word_at(port_config(machine.nics[0].bdf), 0x106), 0u);
}

TEST(PciFiles, ShowForwardingByTheIdsOfTheHostBridge) {
  const struct {
    PeerForwarding forwarding;
    const char* device;
  } cases[] = {{PeerForwarding::allowed, "0x09a2\n"}, {PeerForwarding::refused, "0x3ec2\n"}};
  for (const auto& each : cases) {
    Machine machine = built_in("workstation");
    machine.host_bridges[0].peer_forwarding = each.forwarding;
    View view(machine);
    EXPECT_EQ(view.read("/sys/devices/pci0000:00/0000:00:00.0/device"), each.device);
    EXPECT_EQ(view.read("/sys/devices/pci0000:00/0000:00:00.0/class"), "0x060000\n");
  }
}

TEST(PciFiles, ShowTheIommuMode) {
  const struct {
    IommuMode mode;
    const char* type;
  } cases[] = {{IommuMode::identity, "identity\n"}, {IommuMode::translated, "DMA-FQ\n"}};
  for (const auto& each : cases) {
    Machine machine = built_in("workstation");
    machine.kernel.iommu = each.mode;
    View view(machine);
    EXPECT_EQ(view.read(pci + machine.gpus[0].bdf + "/iommu_group/type"), each.type);
  }
  View off(built_in("workstation"));
  EXPECT_FALSE(off.rig.files->exists(pci + off.rig.machine.gpus[0].bdf + "/iommu_group"));
  Machine machine = built_in("workstation");
  machine.kernel.iommu = IommuMode::unknown;
  View unknown(machine);
  EXPECT_TRUE(unknown.rig.files->exists(pci + machine.gpus[0].bdf + "/iommu_group"));
  EXPECT_FALSE(unknown.rig.files->exists(pci + machine.gpus[0].bdf + "/iommu_group/type"));
}

TEST(PciFiles, SayUnknownForLinksThatAreNotKnown) {
  Machine machine = built_in("workstation");
  machine.gpus[0].link = {3, 8, 4, 16};
  View view(machine);
  const std::string path = pci + machine.gpus[0].bdf;
  EXPECT_EQ(view.read(path + "/current_link_speed"), "8.0 GT/s PCIe\n");
  EXPECT_EQ(view.read(path + "/max_link_speed"), "16.0 GT/s PCIe\n");
  EXPECT_EQ(view.read(path + "/current_link_width"), "8\n");
  EXPECT_EQ(view.read(path + "/max_link_width"), "16\n");
}

TEST(DriveFiles, LeadFromBlockDeviceToDriver) {
  View local(built_in("workstation"));
  EXPECT_EQ(local.read("/sys/block/nvme0n1/device/transport"), "pcie\n");
  EXPECT_EQ(base_name(local.real("/sys/block/nvme0n1/device/device/driver")), "nvme");
  EXPECT_EQ(local.read("/sys/block/nvme0n1/dev"), "259:0\n");
  EXPECT_EQ(local.real("/sys/dev/block/259:0"), local.real("/sys/block/nvme0n1"));
  EXPECT_EQ(local.read("/sys/block/nvme0n1/integrity/device_is_integrity_capable"), "0\n");
  View guest(built_in("cloud-guest"));
  EXPECT_EQ(base_name(guest.real("/sys/block/vda/device/driver")), "virtio_blk");
}

TEST(DriveFiles, NameTheNicOfARemoteDrive) {
  View view(built_in("nvmeof"));
  EXPECT_EQ(view.read("/sys/block/nvme1n1/device/transport"), "rdma\n");
  const std::string address = view.read("/sys/class/nvme/nvme1/address");
  EXPECT_NE(address.find("host_iface=mlx5_0_net"), std::string::npos);
  View nfs(built_in("nfs-rdma"));
  EXPECT_FALSE(nfs.lists("/sys/block", "nfs0"));
  EXPECT_NE(nfs.read("/proc/mounts").find("nfs0:/export /nfs nfs "), std::string::npos);
}

TEST(DriveFiles, ShowMappedDrivesAsVirtualOnes) {
  Machine machine = built_in("workstation");
  machine.drives[0].driver = "dm";
  View view(machine);
  EXPECT_TRUE(view.rig.files->exists("/sys/block/nvme0n1/dm/uuid"));
  EXPECT_FALSE(view.rig.files->exists("/sys/block/nvme0n1/device"));
}

TEST(UdevFiles, HoldTheFileSystemOfEachDrive) {
  View view(built_in("workstation"));
  const std::string record = view.read("/run/udev/data/b259:0");
  EXPECT_NE(record.find("E:ID_FS_TYPE=ext4\n"), std::string::npos);
  EXPECT_NE(record.find("E:ID_FS_USAGE=filesystem\n"), std::string::npos);
  View guest(built_in("cloud-guest"));
  EXPECT_FALSE(guest.rig.files->exists("/run/udev"));
}

TEST(MountFiles, SplitOptionsAndEscapeBlanks) {
  Machine machine = built_in("workstation");
  machine.mounts.push_back({"/my data", "nvme0n1", "ext4", "ro,noatime,data=ordered", true});
  machine.mounts.push_back({"/tmp", "", "tmpfs", "rw,nosuid,size=1g", false});
  View view(machine);
  EXPECT_EQ(view.read("/proc/self/mountinfo"),
            "21 1 259:0 / / rw,relatime - ext4 /dev/nvme0n1 rw,data=ordered\n"
            "22 21 259:0 / /my\\040data ro,noatime - ext4 /dev/nvme0n1 ro,data=ordered\n"
            "23 21 0:22 / /tmp rw,nosuid - tmpfs tmpfs rw,size=1g\n");
  EXPECT_NE(view.read("/proc/mounts").find("/dev/nvme0n1 / ext4 rw,relatime,data=ordered 0 0\n"),
            std::string::npos);
}

TEST(KernelFiles, SayWhatTheDescriptionSays) {
  Machine machine = built_in("dgx");
  machine.kernel.pci_p2pdma = true;
  View view(machine);
  EXPECT_EQ(view.read("/proc/sys/kernel/osrelease"), machine.kernel.release + "\n");
  EXPECT_NE(view.read("/proc/kallsyms").find("p2pdma_pgmap_ops"), std::string::npos);
  EXPECT_EQ(view.read("/sys/devices/system/node/node1/cpulist"), "8-15\n");
  EXPECT_EQ(view.read("/sys/devices/system/cpu/cpu15/topology/physical_package_id"), "1\n");
  EXPECT_NE(view.read("/sys/devices/system/node/node1/meminfo").find("1073741824 kB"),
            std::string::npos);
  EXPECT_EQ(view.read("/proc/cpuinfo").find("hypervisor"), std::string::npos);
  View guest(built_in("cloud-guest"));
  EXPECT_NE(guest.read("/proc/cpuinfo").find("hypervisor"), std::string::npos);
  EXPECT_EQ(guest.read("/proc/kallsyms").find("p2pdma_pgmap_ops"), std::string::npos);
  EXPECT_EQ(guest.read("/proc/modules").find("nvme"), std::string::npos);
  EXPECT_NE(guest.read("/proc/modules").find("virtio_blk"), std::string::npos);
}

TEST(NvidiaFsFiles, AreThereOnlyWithTheModule) {
  View with(built_in("workstation"));
  EXPECT_NE(with.read("/proc/modules").find("nvidia_fs "), std::string::npos);
  EXPECT_EQ(with.read("/proc/driver/nvidia-fs/modules"), "nvme\n");
  EXPECT_NE(with.read("/proc/driver/nvidia-fs/stats").find("IO stats: Enabled"), std::string::npos);
  Machine machine = built_in("workstation");
  machine.modules.nvidia_fs = false;
  View without(machine);
  EXPECT_EQ(without.read("/proc/modules").find("nvidia_fs"), std::string::npos);
  EXPECT_FALSE(without.rig.files->exists("/proc/driver/nvidia-fs"));
}

TEST(NvidiaFsFiles, ListRegisteredDriversOnly) {
  Machine machine = built_in("nvmeof");
  machine.drives[0].nvidia_fs_registered = false;
  View view(machine);
  EXPECT_EQ(view.read("/proc/driver/nvidia-fs/modules"), "nvme_rdma\n");
  EXPECT_EQ(View(built_in("nfs-rdma")).read("/proc/driver/nvidia-fs/modules"), "nvme\nnfs\n");
}

TEST(NvidiaFsFiles, VanishWithTheModule) {
  View view(built_in("workstation"));
  view.rig.faults.module_unloaded_after_requests = 1;
  EXPECT_TRUE(view.rig.files->exists("/proc/driver/nvidia-fs/stats"));
  ASSERT_TRUE(view.rig.module->begin_request());
  view.rig.module->end_request(false, true);
  EXPECT_FALSE(view.rig.files->exists("/proc/driver/nvidia-fs/stats"));
  EXPECT_FALSE(view.lists("/proc/driver", "nvidia-fs"));
  EXPECT_EQ(view.read("/proc/modules").find("nvidia_fs"), std::string::npos);
  EXPECT_FALSE(view.rig.module->begin_request());
}

TEST(SoftEnvironment, KnowsTheMachinesVariablesAndTakesNewOnes) {
  Machine machine = built_in("workstation");
  machine.environment["CUFILE_LOGGING_LEVEL"] = "TRACE";
  MachineRig rig(machine);
  EXPECT_EQ(rig.environment->get("CUFILE_LOGGING_LEVEL"), "TRACE");
  EXPECT_FALSE(rig.environment->get("PATH").has_value());
  EXPECT_TRUE(rig.environment->set("PATH", "/x").ok());
  EXPECT_EQ(rig.environment->get("PATH"), "/x");
}

}  // namespace
}  // namespace nobounce::fabric
