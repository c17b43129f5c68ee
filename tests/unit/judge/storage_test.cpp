// Storage preconditions: one broken fact at a time makes exactly its own finding unmet and leaves
// the others alone.
#include "judge/storage.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <stdexcept>
#include <string>

#include "judge/file_systems.hpp"

namespace nobounce {
namespace {

core::Fact fact(bool value, std::string observed) {
  return core::Fact{value, std::move(observed), "a file"};
}

core::Fact unread(std::string observed) {
  return core::Fact{std::nullopt, std::move(observed), "a file"};
}

/// Everything a question borrows, all preconditions met: two sockets, a switch each, GPU 0 and the
/// drive below one.
struct World {
  Machine machine;
  core::HostFacts host;
  core::StorageFileFacts file;
  std::uint32_t gpu = 0;
  bool writing = false;
  AllocationKind allocation = AllocationKind::device;

  World() {
    machine.numa_nodes = {NumaNode{0, 1u << 30}, NumaNode{1, 1u << 30}};
    machine.host_bridges = {HostBridge{0, PeerForwarding::refused, AcsMode::off},
                            HostBridge{1, PeerForwarding::refused, AcsMode::off}};
    const PcieLink link{4, 16, 4, 16};
    machine.switches.resize(2);
    machine.switches[0].parent = Parent{Parent::Kind::host_bridge, 0};
    machine.switches[1].parent = Parent{Parent::Kind::host_bridge, 1};
    for (std::uint32_t i = 0; i < 3; ++i) {
      Gpu gpu_at;
      gpu_at.parent = Parent{Parent::Kind::pci_switch, i == 1 ? 1u : 0u};
      if (i == 2) gpu_at.parent = Parent{Parent::Kind::host_bridge, 0};
      gpu_at.memory_bytes = 1u << 30;
      gpu_at.bar1_bytes = 2u << 30;
      gpu_at.link = link;
      gpu_at.bdf = "0000:0" + std::to_string(i + 1) + ":00.0";
      machine.gpus.push_back(gpu_at);
      host.gpus.push_back(core::GpuFacts{i, fact(true, "attribute 116 is 1"), 2u << 30, 2u << 30});
    }
    Nic nic;
    nic.parent = Parent{Parent::Kind::pci_switch, 0};
    nic.link = link;
    machine.nics = {nic};
    Drive drive;
    drive.parent = Parent{Parent::Kind::pci_switch, 0};
    drive.link = PcieLink{4, 4, 4, 4};
    Drive remote = drive;
    remote.parent = Parent{Parent::Kind::nic, 0};
    remote.name = "nvme1n1";
    remote.driver = "nvme_rdma";
    machine.drives = {drive, remote};
    Mount mount;
    mount.drive = "nvme0n1";
    mount.options = "rw,relatime,data=ordered";
    machine.mounts = {mount};

    core::StorageHostFacts& storage = host.storage;
    storage.cufile_library = fact(true, "libcufile.so.0 loaded");
    storage.cufile_version = {"1.15", "cuFileGetVersion"};
    storage.cufile_config_ours = fact(true, "our configuration is in force");
    storage.nvidia_fs_loaded = fact(true, "nvidia_fs is in /proc/modules");
    storage.p2pdma_kernel = fact(false, "no CONFIG_PCI_P2PDMA");
    storage.udev_database = fact(true, "/run/udev/data exists");
    storage.compat_forced = fact(false, "not forced");
    storage.iommu = {"off", "/sys"};

    file.path = "/data/a.bin";
    file.mount = mount;
    file.mount_source = "/proc/self/mountinfo";
    file.drive = 0;
    file.block_driver = "nvme";
    file.direct_io = fact(true, "opened with O_DIRECT");
    file.driver_registered = fact(true, "nvme is in /proc/driver/nvidia-fs/modules");
    file.udev_record = fact(true, "/run/udev/data/b259:0 exists");
    file.regular_file = fact(true, "a regular file");
  }

  [[nodiscard]] judge::StorageJudgement judge() const {
    return judge::judge_storage({machine, host, file, gpu, writing, allocation});
  }
};

std::string describe(const Finding& finding) {
  return std::string(to_string(finding.cause)) + " " + finding.subject + " " +
         std::string(to_string(finding.state)) + ": " + finding.observed;
}

std::map<Cause, FindingState> states(const std::vector<Finding>& findings) {
  std::map<Cause, FindingState> result;
  for (const Finding& finding : findings) {
    const auto at = result.find(finding.cause);
    // Links have one finding per device: the worse counts.
    if (at == result.end() || at->second == FindingState::met)
      result[finding.cause] = finding.state;
  }
  return result;
}

const Finding* find(const judge::StorageJudgement& judgement, Cause cause) {
  for (const Finding& finding : judgement.findings) {
    if (finding.cause == cause) return &finding;
  }
  return nullptr;
}

TEST(StorageJudgement, OfAWholeMachineIsMetThroughout) {
  for (const bool writing : {false, true}) {
    World world;
    world.writing = writing;
    const judge::StorageJudgement judgement = world.judge();
    EXPECT_TRUE(judgement.possible);
    EXPECT_FALSE(judgement.degraded);
    EXPECT_GE(judgement.findings.size(), 18u);
    for (const Finding& finding : judgement.findings) {
      EXPECT_EQ(finding.state, FindingState::met) << describe(finding);
      EXPECT_FALSE(finding.subject.empty()) << describe(finding);
      EXPECT_FALSE(finding.observed.empty()) << describe(finding);
      EXPECT_FALSE(finding.needed.empty()) << describe(finding);
      EXPECT_FALSE(finding.source.empty()) << describe(finding);
      EXPECT_TRUE(finding.remedy.empty()) << describe(finding);
    }
  }
}

TEST(StorageJudgement, RunsFromTheHostToTheGpu) {
  const judge::StorageJudgement judgement = World().judge();
  const std::vector<Cause> order = {Cause::storage_cufile_absent, Cause::storage_not_a_regular_file,
                                    Cause::storage_block_device_unsupported,
                                    Cause::machine_iommu_translated,
                                    Cause::storage_gpu_not_supported};
  std::size_t next = 0;
  for (const Finding& finding : judgement.findings) {
    if (next < order.size() && finding.cause == order[next]) ++next;
  }
  EXPECT_EQ(next, order.size());
}

// --- exactly one broken ------------------------------------------------------------------------

struct Broken {
  const char* name;
  Cause cause;
  std::function<void(World&)> change;
};

void PrintTo(const Broken& broken, std::ostream* out) {
  *out << broken.name;
}

class OneBrokenPrecondition : public ::testing::TestWithParam<Broken> {};

void expect_only_changed(const World& before, const World& after, Cause cause, FindingState state) {
  const judge::StorageJudgement judgement = after.judge();
  const auto old_states = states(before.judge().findings);
  int seen = 0;
  for (const auto& [each, each_state] : states(judgement.findings)) {
    if (each == cause) {
      ++seen;
      EXPECT_EQ(each_state, state) << to_string(each);
      continue;
    }
    const auto old = old_states.find(each);
    ASSERT_NE(old, old_states.end()) << to_string(each) << " is new";
    EXPECT_EQ(each_state, old->second) << to_string(each);
  }
  EXPECT_EQ(seen, 1);
}

TEST_P(OneBrokenPrecondition, MakesItsFindingUnmetAndLeavesTheOthersAlone) {
  World before;
  before.writing = GetParam().cause == Cause::storage_writes_unsupported;
  World after = before;
  GetParam().change(after);
  expect_only_changed(before, after, GetParam().cause, FindingState::unmet);
  const judge::StorageJudgement judgement = after.judge();
  EXPECT_FALSE(judgement.possible);
  EXPECT_FALSE(judgement.degraded);
  EXPECT_EQ(first_unmet(judgement.findings), GetParam().cause);
  const Finding* finding = find(judgement, GetParam().cause);
  ASSERT_NE(finding, nullptr);
  EXPECT_FALSE(finding->observed.empty());
  EXPECT_EQ(finding->remedy, cause_row(finding->cause).remedy);
}

INSTANTIATE_TEST_SUITE_P(
    Storage, OneBrokenPrecondition,
    ::testing::Values(
        Broken{"cufile_absent", Cause::storage_cufile_absent,
               [](World& w) { w.host.storage.cufile_library = fact(false, "not found"); }},
        Broken{"nvidia_fs_absent", Cause::storage_nvidia_fs_absent,
               [](World& w) {
                 w.host.storage.nvidia_fs_loaded = fact(false, "not in /proc/modules");
               }},
        Broken{"compat_forced", Cause::storage_compat_forced,
               [](World& w) {
                 w.host.storage.compat_forced = fact(true, "CUFILE_FORCE_COMPAT_MODE=true");
               }},
        Broken{
            "config_not_ours", Cause::storage_cufile_config_not_ours,
            [](World& w) { w.host.storage.cufile_config_ours = fact(false, "opened before us"); }},
        Broken{"not_a_regular_file", Cause::storage_not_a_regular_file,
               [](World& w) { w.file.regular_file = fact(false, "a FIFO"); }},
        Broken{"file_system", Cause::storage_filesystem_unsupported,
               [](World& w) { w.file.mount->type = "btrfs"; }},
        Broken{"ordered_hidden", Cause::storage_mount_options,
               [](World& w) { w.file.mount->options = "rw,relatime"; }},
        Broken{"ordered_not_chosen", Cause::storage_mount_options,
               [](World& w) { w.file.mount->options = "rw,relatime,data=writeback"; }},
        Broken{"reads_only", Cause::storage_writes_unsupported,
               [](World& w) {
                 w.file.mount->type = "nfs";
                 w.file.mount->options = "rw,proto=rdma";
                 w.file.block_driver = "nfs";
                 w.file.drive = 1;
               }},
        Broken{"direct_io", Cause::storage_direct_io_refused,
               [](World& w) { w.file.direct_io = fact(false, "EINVAL"); }},
        Broken{"virtio", Cause::storage_block_device_unsupported,
               [](World& w) { w.file.block_driver = "virtio_blk"; }},
        Broken{"not_registered", Cause::storage_driver_not_registered,
               [](World& w) { w.file.driver_registered = fact(false, "nvme is not listed"); }},
        Broken{"no_udev_record", Cause::storage_udev_missing,
               [](World& w) { w.file.udev_record = fact(false, "no record"); }},
        Broken{"no_udev_database", Cause::storage_udev_missing,
               [](World& w) {
                 w.file.udev_record = unread("no database");
                 w.host.storage.udev_database = fact(false, "/run/udev/data is missing");
               }},
        Broken{"iommu", Cause::machine_iommu_translated,
               [](World& w) { w.host.storage.iommu.value = "translated"; }},
        Broken{"acs", Cause::machine_acs_redirect,
               [](World& w) { w.machine.switches[0].acs = AcsMode::redirect; }},
        Broken{"acs_port", Cause::machine_acs_redirect,
               [](World& w) {
                 w.machine.switches[0].ports = {SwitchPort{"gpu:0", AcsMode::redirect}};
               }},
        Broken{"gpu", Cause::storage_gpu_not_supported,
               [](World& w) { w.host.gpus[0].gpudirect_rdma = fact(false, "attribute 116 is 0"); }},
        Broken{"bar1", Cause::machine_bar1_too_small,
               [](World& w) { w.host.gpus[0].bar1_total_bytes = 0; }},
        Broken{"managed", Cause::memory_kind_managed,
               [](World& w) { w.allocation = AllocationKind::managed; }}),
    [](const auto& instance) { return std::string(instance.param.name); });

// --- layers ------------------------------------------------------------------------------------

/// The file lies on a drive that md or dm puts together from two.
struct Layered : World {
  Layered(const char* driver, const char* layer) {
    Drive second = machine.drives[0];
    second.name = "nvme2n1";
    Drive whole = machine.drives[0];
    whole.name = "md0";
    whole.driver = driver;
    whole.layer = layer;
    whole.parts = {"nvme0n1", "nvme2n1"};
    machine.drives.push_back(second);
    machine.drives.push_back(whole);
    file.drive = 3;
    file.block_driver = driver;
  }
  [[nodiscard]] FindingState state() const {
    const judge::StorageJudgement judgement = judge();
    const Finding* finding = find(judgement, Cause::storage_mount_is_layered);
    if (finding == nullptr) throw std::runtime_error("nothing is said of the layer");
    return finding->state;
  }
};

TEST(StorageLayers, StripesArePassedThroughMirrorsSince119AllOthersNever) {
  EXPECT_EQ(Layered("md", "raid0").state(), FindingState::met);
  EXPECT_TRUE(Layered("md", "raid0").judge().possible);
  for (const char* layer : {"raid5", "raid6", "linear"}) {
    EXPECT_EQ(Layered("md", layer).state(), FindingState::unmet) << layer;
  }
  for (const char* layer : {"lvm", "crypt", "multipath", ""}) {
    EXPECT_EQ(Layered("dm", layer).state(), FindingState::unmet) << layer;
  }
  EXPECT_EQ(Layered("loop", "").state(), FindingState::unmet);
  EXPECT_EQ(Layered("md", "").state(), FindingState::unknown);
  for (const char* layer : {"raid1", "raid10"}) {
    Layered world("md", layer);
    EXPECT_EQ(world.state(), FindingState::unmet) << layer;
    world.host.storage.cufile_version.value = "1.19";
    EXPECT_EQ(world.state(), FindingState::met) << layer;
    world.host.storage.cufile_version.value = "2.0";
    EXPECT_EQ(world.state(), FindingState::met) << layer;
    world.host.storage.cufile_version.value = std::nullopt;
    EXPECT_EQ(world.state(), FindingState::unknown) << layer;
  }
}

TEST(StorageLayers, AreNoBetterThanWhatLiesBelow) {
  Layered world("md", "raid0");
  world.machine.drives[2].driver = "dm";
  EXPECT_EQ(world.state(), FindingState::unmet);
  world.machine.drives[2].driver = "virtio_blk";
  EXPECT_EQ(world.state(), FindingState::unmet);
  world.machine.drives[3].parts.clear();
  EXPECT_EQ(world.state(), FindingState::unknown);
}

TEST(StorageLayers, HaveThePathOfTheirWorstPart) {
  Layered world("md", "raid0");
  world.machine.drives[2].parent = Parent{Parent::Kind::pci_switch, 1};  // the other socket
  const judge::StorageJudgement judgement = world.judge();
  EXPECT_FALSE(judgement.possible);
  EXPECT_EQ(first_unmet(judgement.findings), Cause::machine_cross_socket);
  const Finding* finding = find(judgement, Cause::machine_cross_socket);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->subject, "drive:nvme2n1 -> gpu:0");
}

// --- not readable ------------------------------------------------------------------------------

class OneUnreadableFact : public ::testing::TestWithParam<Broken> {};

TEST_P(OneUnreadableFact, IsUnknownAndForbidsNothing) {
  const World before;
  World after;
  GetParam().change(after);
  expect_only_changed(before, after, GetParam().cause, FindingState::unknown);
  EXPECT_TRUE(after.judge().possible);
  EXPECT_FALSE(find(after.judge(), GetParam().cause)->observed.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Storage, OneUnreadableFact,
    ::testing::Values(
        Broken{"cufile", Cause::storage_cufile_absent,
               [](World& w) { w.host.storage.cufile_library = {}; }},
        Broken{"nvidia_fs", Cause::storage_nvidia_fs_absent,
               [](World& w) { w.host.storage.nvidia_fs_loaded = unread("no /proc/modules"); }},
        Broken{"configuration", Cause::storage_cufile_config_not_ours,
               [](World& w) { w.host.storage.cufile_config_ours = unread("cannot be asked"); }},
        Broken{"direct_io", Cause::storage_direct_io_refused,
               [](World& w) { w.file.direct_io = unread("EACCES"); }},
        Broken{"registered", Cause::storage_driver_not_registered,
               [](World& w) { w.file.driver_registered = unread("no /proc/driver/nvidia-fs"); }},
        Broken{"udev", Cause::storage_udev_missing,
               [](World& w) { w.file.udev_record = unread("EACCES"); }},
        Broken{"block_driver", Cause::storage_block_device_unsupported,
               [](World& w) { w.file.block_driver.clear(); }},
        Broken{"iommu", Cause::machine_iommu_translated,
               [](World& w) { w.host.storage.iommu.value.reset(); }},
        Broken{"acs", Cause::machine_acs_redirect,
               [](World& w) { w.machine.switches[0].acs = AcsMode::unknown; }},
        Broken{"link", Cause::machine_link_downtrained,
               [](World& w) { w.machine.drives[0].link = PcieLink{}; }},
        Broken{"gpu", Cause::storage_gpu_not_supported,
               [](World& w) { w.host.gpus[0].gpudirect_rdma = unread("CUDA not initialised"); }},
        Broken{"bar1", Cause::machine_bar1_too_small,
               [](World& w) { w.host.gpus[0].bar1_total_bytes.reset(); }}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(StorageJudgement, WithoutFactsIsUnknownRatherThanWrong) {
  Machine machine = World().machine;
  const core::HostFacts host;
  core::StorageFileFacts file;
  file.path = "/data/a.bin";
  const judge::StorageJudgement judgement =
      judge::judge_storage({machine, host, file, 0, false, AllocationKind::device});
  EXPECT_TRUE(judgement.possible);
  for (const Finding& finding : judgement.findings) {
    // The machine and the caller say these.
    if (finding.cause == Cause::memory_kind_managed ||
        finding.cause == Cause::machine_integrated_gpu ||
        finding.cause == Cause::machine_confidential_computing) {
      continue;
    }
    EXPECT_EQ(finding.state, FindingState::unknown) << describe(finding);
    EXPECT_FALSE(finding.observed.empty()) << describe(finding);
  }
}

TEST(StorageJudgement, BeforeAnybodyTriedSaysNothingOfTheConfiguration) {
  World world;
  world.host.storage.cufile_config_ours = {};
  EXPECT_EQ(find(world.judge(), Cause::storage_cufile_config_not_ours), nullptr);
}

// --- the bus -----------------------------------------------------------------------------------

struct Forwarding {
  const char* name;
  PeerForwarding forwarding;
  FindingState state;
  bool degraded;
};

class HostBridgeDecides : public ::testing::TestWithParam<Forwarding> {};

void expect_forwarding(World world, const Forwarding& parameter, Cause cause) {
  for (HostBridge& bridge : world.machine.host_bridges)
    bridge.peer_forwarding = parameter.forwarding;
  const judge::StorageJudgement judgement = world.judge();
  const Finding* finding = find(judgement, cause);
  ASSERT_NE(finding, nullptr) << to_string(cause);
  EXPECT_EQ(finding->state, parameter.state) << describe(*finding);
  EXPECT_EQ(judgement.possible, parameter.state != FindingState::unmet);
  EXPECT_EQ(judgement.degraded, parameter.degraded);
  EXPECT_EQ(judgement.degraded_causes,
            parameter.degraded ? std::vector<Cause>{cause} : std::vector<Cause>{});
}

TEST_P(HostBridgeDecides, WhetherRedirectedRequestsArrive) {
  World world;
  world.machine.switches[0].acs = AcsMode::redirect;
  expect_forwarding(world, GetParam(), Cause::machine_acs_redirect);
}

TEST_P(HostBridgeDecides, WhetherRequestsCrossTheSockets) {
  World world;
  world.gpu = 1;
  expect_forwarding(world, GetParam(), Cause::machine_cross_socket);
}

TEST_P(HostBridgeDecides, WhetherRequestsPassTheRootComplex) {
  World world;
  world.gpu = 2;
  expect_forwarding(world, GetParam(), Cause::machine_cross_host_bridge);
}

INSTANTIATE_TEST_SUITE_P(
    Storage, HostBridgeDecides,
    ::testing::Values(Forwarding{"refused", PeerForwarding::refused, FindingState::unmet, false},
                      Forwarding{"allowed", PeerForwarding::allowed, FindingState::met, true},
                      Forwarding{"unknown", PeerForwarding::unknown, FindingState::unknown, false}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(StorageBus, SourceValidationAloneIsANote) {
  World world;
  world.machine.switches[0].acs = AcsMode::source_validation;
  const judge::StorageJudgement judgement = world.judge();
  EXPECT_TRUE(judgement.possible);
  EXPECT_FALSE(judgement.degraded);
  const Finding* finding = find(judgement, Cause::machine_acs_redirect);
  EXPECT_EQ(finding->state, FindingState::met);
  EXPECT_NE(finding->observed.find("harmless"), std::string::npos) << finding->observed;
}

TEST(StorageBus, PassThroughIommuIsMet) {
  World world;
  world.host.storage.iommu.value = "identity";
  EXPECT_EQ(find(world.judge(), Cause::machine_iommu_translated)->state, FindingState::met);
}

TEST(StorageBus, AGuestSeesNeitherTopologyNorAcs) {
  World world;
  world.machine.guest = true;
  world.machine.switches[0].acs = AcsMode::redirect;
  const judge::StorageJudgement judgement = world.judge();
  EXPECT_TRUE(judgement.possible);
  for (const Cause cause : {Cause::machine_guest_topology_hidden, Cause::machine_acs_redirect,
                            Cause::machine_cross_host_bridge}) {
    ASSERT_NE(find(judgement, cause), nullptr) << to_string(cause);
    EXPECT_EQ(find(judgement, cause)->state, FindingState::unknown) << to_string(cause);
  }
}

TEST(StorageBus, ANarrowLinkDegrades) {
  World world;
  world.machine.drives[0].link.width = 2;
  const judge::StorageJudgement judgement = world.judge();
  EXPECT_TRUE(judgement.possible);
  EXPECT_EQ(judgement.degraded_causes, std::vector<Cause>{Cause::machine_link_downtrained});
}

TEST(StorageBus, ASlowDriveLinkDegradesButAnIdleGpuDoesNot) {
  World world;
  world.machine.gpus[0].link.generation = 1;
  EXPECT_FALSE(world.judge().degraded);
  world.machine.drives[0].link.generation = 3;
  EXPECT_TRUE(world.judge().degraded);
}

TEST(StorageBus, RemoteDrivesTravelOverTheirAdapter) {
  World world;
  world.file.drive = 1;
  world.file.block_driver = "nvme_rdma";
  EXPECT_TRUE(world.judge().possible);
  EXPECT_EQ(find(world.judge(), Cause::machine_cross_host_bridge)->state, FindingState::met);
  world.machine.drives[1].parent = Parent{Parent::Kind::host_bridge, 0};
  const judge::StorageJudgement lost = world.judge();
  ASSERT_NE(find(lost, Cause::machine_link_unknown), nullptr);
  EXPECT_EQ(find(lost, Cause::machine_link_unknown)->state, FindingState::unknown);
  EXPECT_EQ(find(lost, Cause::machine_acs_redirect), nullptr);
}

// --- file systems, GPUs, memory ----------------------------------------------------------------

TEST(StorageFileSystems, NfsNeedsRdma) {
  World world;
  world.file.mount->type = "nfs4";
  world.file.mount->options = "rw,vers=4.2,proto=tcp";
  world.file.block_driver = "nfs4";
  world.file.drive = 1;
  EXPECT_EQ(first_unmet(world.judge().findings), Cause::storage_mount_options);
  world.file.mount->options = "rw,vers=4.2,proto=rdma";
  EXPECT_EQ(first_unmet(world.judge().findings), Cause::none);
  world.writing = true;
  EXPECT_EQ(first_unmet(world.judge().findings), Cause::storage_writes_unsupported);
}

TEST(StorageFileSystems, XfsNeedsNoOption) {
  World world;
  world.file.mount->type = "xfs";
  world.file.mount->options = "rw";
  world.writing = true;
  EXPECT_TRUE(world.judge().possible);
}

TEST(StorageFileSystems, MemoryFileSystemsHaveNoDrive) {
  World world;
  world.file.mount->type = "tmpfs";
  world.file.mount->drive.clear();
  world.file.drive.reset();
  world.file.block_driver.clear();
  const judge::StorageJudgement judgement = world.judge();
  EXPECT_EQ(first_unmet(judgement.findings), Cause::storage_filesystem_unsupported);
  EXPECT_EQ(find(judgement, Cause::storage_block_device_unsupported)->state, FindingState::unmet);
  EXPECT_EQ(find(judgement, Cause::machine_link_unknown)->state, FindingState::unknown);
}

TEST(StorageFileSystems, OptionsAreWholeWords) {
  EXPECT_TRUE(judge::has_option("data=ordered", "data=ordered"));
  EXPECT_TRUE(judge::has_option("rw,data=ordered,relatime", "data=ordered"));
  EXPECT_FALSE(judge::has_option("rw,xdata=ordered", "data=ordered"));
  EXPECT_FALSE(judge::has_option("rw,data=ordered_not", "data=ordered"));
  EXPECT_FALSE(judge::has_option("", "data=ordered"));
}

TEST(StorageFileSystems, TheListNamesEveryRow) {
  const std::string list(judge::file_system_list());
  for (const char* type :
       {"ext4", "xfs", "nfs", "nfs4", "lustre", "gpfs", "wekafs", "beegfs", "scatefs"}) {
    ASSERT_NE(judge::file_system_row(type), nullptr) << type;
    EXPECT_NE(list.find(type), std::string::npos) << type;
  }
  for (const char* type : {"btrfs", "zfs", "overlay", "tmpfs", "ext3", ""}) {
    EXPECT_EQ(judge::file_system_row(type), nullptr) << type;
  }
}

TEST(StorageModule, TellsThatP2pdmaIsLeftOff) {
  World world;
  world.host.storage.nvidia_fs_loaded = fact(false, "nvidia_fs is not loaded");
  world.host.storage.p2pdma_kernel = fact(true, "CONFIG_PCI_P2PDMA=y");
  const judge::StorageJudgement judgement = world.judge();
  const Finding* finding = find(judgement, Cause::storage_nvidia_fs_absent);
  EXPECT_EQ(finding->state, FindingState::unmet);
  EXPECT_NE(finding->observed.find("leaves it off"), std::string::npos) << finding->observed;
}

TEST(StorageGpu, ThatDoesNotExistIsSaid) {
  World world;
  world.gpu = 7;
  const judge::StorageJudgement judgement = world.judge();
  EXPECT_FALSE(judgement.possible);
  EXPECT_EQ(first_unmet(judgement.findings), Cause::machine_no_gpu);
}

TEST(StorageGpu, AWindowSmallerThanItsMemoryIsANote) {
  World world;
  world.host.gpus[0].bar1_total_bytes = 256u << 20;
  const judge::StorageJudgement judgement = world.judge();
  const Finding* finding = find(judgement, Cause::machine_bar1_too_small);
  EXPECT_EQ(finding->state, FindingState::met);
  EXPECT_NE(finding->observed.find("smaller than"), std::string::npos) << finding->observed;
  EXPECT_TRUE(judgement.possible);
}

TEST(StorageMemory, KindsAreJudgedOneByOne) {
  const std::map<AllocationKind, std::pair<Cause, FindingState>> expected = {
      {AllocationKind::device, {Cause::memory_kind_managed, FindingState::met}},
      {AllocationKind::vmm, {Cause::memory_kind_managed, FindingState::met}},
      {AllocationKind::managed, {Cause::memory_kind_managed, FindingState::unmet}},
      {AllocationKind::ipc_import, {Cause::memory_kind_ipc_import, FindingState::unmet}},
      {AllocationKind::pool, {Cause::memory_kind_pool, FindingState::unknown}},
      {AllocationKind::host_pinned, {Cause::memory_kind_unknown, FindingState::unmet}},
      {AllocationKind::host_pageable, {Cause::memory_kind_pageable, FindingState::unmet}},
      {AllocationKind::unknown, {Cause::memory_kind_unknown, FindingState::unknown}},
  };
  for (const auto& [kind, outcome] : expected) {
    World world;
    world.allocation = kind;
    const judge::StorageJudgement judgement = world.judge();
    ASSERT_NE(find(judgement, outcome.first), nullptr) << to_string(kind);
    EXPECT_EQ(find(judgement, outcome.first)->state, outcome.second) << to_string(kind);
  }
}

}  // namespace
}  // namespace nobounce
