// The file view and NVML of a software machine, read back: the reader must find the machine that
// was described.
#include <algorithm>

#include "core/json.hpp"
#include "fabric/soft_host.hpp"
#include "machine_rig.hpp"
#include "topology/read_machine.hpp"

namespace nobounce::fabric {
namespace {

Machine read_back(const Machine& machine) {
  auto host = SoftHost::create(machine);
  EXPECT_TRUE(host.ok());
  if (!host.ok()) return {};
  Result<Machine> seen = topology::read_machine(**host);
  EXPECT_TRUE(seen.ok());
  return seen.ok() ? *seen : Machine{};
}

// What no reader can know: the third number of the library's version, the peer status of a GPU that
// has no peer, who registered with a module that is not there, dma-buf without a GPU driver.
Machine as_readable(Machine machine) {
  machine.libcufile = machine.libcufile.substr(0, machine.libcufile.rfind('.'));
  if (machine.gpus.size() == 1) machine.gpus[0].peer_status = PeerStatus::unknown;
  if (machine.gpus.empty()) machine.kernel.dmabuf = false;
  if (machine.gpus.empty()) machine.kernel.nvidia_driver = "";
  for (Drive& drive : machine.drives) drive.nvidia_fs_registered &= machine.modules.nvidia_fs;
  return machine;
}

/// Says the ACS of every port of a switch outright: two spellings of one switch compare equal, and
/// drives that share a port are listed once.
void spell_out_ports(Machine& machine) {
  for (Switch& each : machine.switches) {
    for (SwitchPort& port : each.ports) {
      if (port.acs == AcsMode::inherit) port.acs = each.acs;
    }
    each.acs = AcsMode::off;
    std::sort(each.ports.begin(), each.ports.end(),
              [](const SwitchPort& a, const SwitchPort& b) { return a.device < b.device; });
  }
}

std::string text_of(const Machine& machine) {
  return core::dump_json(core::machine_to_json(machine));
}

struct Variant {
  const char* name;
  const char* machine;
  void (*adjust)(Machine&);
};

class ReadBack : public ::testing::TestWithParam<Variant> {};

TEST_P(ReadBack, FindsTheMachineThatWasDescribed) {
  Machine machine = built_in(GetParam().machine);
  GetParam().adjust(machine);
  core::complete_machine(machine);
  ASSERT_TRUE(validate(machine).ok());
  Machine seen = read_back(machine);
  spell_out_ports(seen);
  seen.unread.clear();  // a description says what is, not what a reader may see of it
  machine = as_readable(machine);
  spell_out_ports(machine);
  EXPECT_EQ(text_of(seen), text_of(machine));
}

void as_built_in(Machine&) {}

constexpr Variant variants[] = {
    {"workstation", "workstation", as_built_in},
    {"dgx", "dgx", as_built_in},
    {"two_socket", "two-socket", as_built_in},
    {"cloud_guest", "cloud-guest", as_built_in},
    {"nvmeof", "nvmeof", as_built_in},
    {"spare_drive", "spare-drive", as_built_in},
    {"nfs_rdma", "nfs-rdma", as_built_in},
    {"no_nvidia_fs", "workstation", [](Machine& m) { m.modules.nvidia_fs = false; }},
    {"no_peermem", "workstation", [](Machine& m) { m.modules.nvidia_peermem = false; }},
    {"no_udev", "workstation", [](Machine& m) { m.udev = false; }},
    {"no_dmabuf", "workstation", [](Machine& m) { m.kernel.dmabuf = false; }},
    {"p2pdma", "workstation", [](Machine& m) { m.kernel.pci_p2pdma = true; }},
    {"identity", "workstation", [](Machine& m) { m.kernel.iommu = IommuMode::identity; }},
    {"translated", "workstation", [](Machine& m) { m.kernel.iommu = IommuMode::translated; }},
    {"forwarding", "two-socket",
     [](Machine& m) {
       for (HostBridge& bridge : m.host_bridges) bridge.peer_forwarding = PeerForwarding::allowed;
     }},
    {"switch_redirects", "workstation", [](Machine& m) { m.switches[0].acs = AcsMode::redirect; }},
    {"source_validation", "workstation",
     [](Machine& m) { m.switches[0].acs = AcsMode::source_validation; }},
    {"root_port_redirects", "dgx", [](Machine& m) { m.host_bridges[2].acs = AcsMode::redirect; }},
    {"slow_link", "workstation",
     [](Machine& m) {
       m.gpus[0].link = {1, 8, 4, 16};
     }},
    {"not_registered", "workstation", [](Machine& m) { m.drives[0].nvidia_fs_registered = false; }},
    {"no_libcufile", "workstation", [](Machine& m) { m.libcufile = ""; }},
    {"one_device_translated", "workstation",
     [](Machine& m) {
       m.nics[0].iommu = IommuMode::identity;
       m.nics[0].iommu_group = "17";
       m.kernel.iommu = IommuMode::translated;
     }},
    {"odd_control_word", "workstation",
     [](Machine& m) {
       for (SwitchPort& port : m.switches[0].ports) {
         if (port.device == "nic:0") port = {"nic:0", AcsMode::redirect, "0x005d"};
       }
       m.nics[0].ats = Answer::yes;
     }},
    {"one_root_port", "workstation",
     [](Machine& m) {
       m.gpus[1].parent = m.drives[0].parent = m.nics[0].parent = {};
       m.switches[0].ports.clear();
       m.host_bridges[0].ports.push_back({"gpu:1", AcsMode::redirect, {}});
     }},
    {"ethernet", "two-socket",
     [](Machine& m) {
       m.nics[0].name = "rocep1s0";
       m.nics[0].netdev = "ens1f0np0";
       m.nics[0].driver = "bnxt_en";
       m.nics[0].pci_id = "14e4:1750";
       m.nics[0].link_layer = LinkLayer::ethernet;
       m.nics[0].rate_gbps = 100;
       m.nics[0].active = false;
     }},
    {"no_reliable_connections", "two-socket",
     [](Machine& m) {
       m.nics[0].driver = "efa";
       m.nics[0].link_layer = LinkLayer::unknown;
       m.nics[0].reliable_connections = false;
     }},
    {"amd_processor", "two-socket",
     [](Machine& m) {
       m.processor = {"x86_64", "AuthenticAMD", 25, 17, "AMD EPYC 9004"};
       for (HostBridge& bridge : m.host_bridges) bridge.peer_forwarding = PeerForwarding::allowed;
     }},
    {"container", "workstation",
     [](Machine& m) {
       m.container = {true, "kubernetes", true};
       m.process = {false, "65536", "filter"};
       m.udev = false;
     }},
    {"coherent", "workstation",
     [](Machine& m) {
       m.gpus[0].coherent = m.gpus[1].coherent = true;
       m.processor = {"aarch64", "", 0, 0, ""};
     }},
    {"settings", "workstation",
     [](Machine& m) {
       m.modules.versions = {{"mlx5_core", "24.10-1.1.4"}, {"nvidia_fs", "2.20.6"}};
       m.modules.parameters = {{"nvidia.RegistryDwords", "PeerMappingOverride=1"},
                               {"nvidia_peermem.peerdirect_support", "1"}};
       m.libraries = {{"nccl", "2.21.5"}, {"ucx", "1.17.0"}};
       m.cufile_settings = {{"/properties/force_compat_mode", "true"},
                            {"/fs/lustre/posix_gds_min_kb", "64"}};
     }},
    {"small_window_that_could_grow", "workstation",
     [](Machine& m) {
       m.gpus[0].bar1_bytes = 256u << 20;
       m.gpus[0].bar1_bytes_max = 1ull << 36;
     }},
    {"nvswitches", "dgx",
     [](Machine& m) {
       m.nvswitches = 4;
       m.fabric_manager = FabricManager::running;
     }},
    {"other_gpus", "workstation",
     [](Machine& m) {
       OtherGpu other;
       other.driver = "amdgpu";
       m.other_gpus.push_back(other);
     }},
    {"namespaces_and_raid", "workstation",
     [](Machine& m) {
       Drive second = m.drives[0];
       second.name = "nvme0n2";
       second.namespace_id = 2;
       second.minor = 2;
       second.logical_block_bytes = 4096;
       Drive raid;
       raid.name = "md0";
       raid.driver = "md";
       raid.layer = "raid0";
       raid.parent = m.drives[0].parent;
       raid.nvidia_fs_registered = false;
       raid.parts = {"nvme0n1", "nvme0n2"};
       raid.major = 9;
       m.drives.insert(m.drives.begin(), raid);
       m.drives.push_back(second);
       for (SwitchPort& port : m.switches[0].ports) {
         if (port.device == "drive:0") port.device = "drive:1";
       }
       m.mounts[0].drive = "md0";
     }},
    {"a_programs_own_drive", "two-socket",
     [](Machine& m) {
       Drive own;
       own.driver = "vfio-pci";
       own.name = own.bdf = "0000:1f:00.0";
       own.parent = {Parent::Kind::pci_switch, 1};
       own.nvidia_fs_registered = false;
       m.drives.push_back(own);
       m.kernel.iommu = IommuMode::identity;
     }},
    {"no_gpu", "workstation",
     [](Machine& m) {
       m.gpus.clear();
       m.switches[0].ports.clear();
       m.modules.nvidia_fs = false;
       m.libcufile = "";
       core::complete_machine(m);
     }},
};

INSTANTIATE_TEST_SUITE_P(Machines, ReadBack, ::testing::ValuesIn(variants),
                         [](const auto& tested) { return std::string(tested.param.name); });

// One port that differs may be told by the port or by its switch: the paths must agree.
TEST(ReadBackPorts, RedirectOnTheSamePaths) {
  Machine machine = built_in("workstation");
  for (SwitchPort& port : machine.switches[0].ports) {
    if (port.device == "gpu:1") port.acs = AcsMode::redirect;
  }
  const Machine seen = read_back(machine);
  for (const std::uint16_t gpu : {std::uint16_t{0}, std::uint16_t{1}}) {
    const DeviceRef target{DeviceRef::Kind::gpu, gpu};
    const DeviceRef drive{DeviceRef::Kind::drive, 0};
    EXPECT_EQ(path_between(seen, drive, target).redirected, gpu == 1);
  }
}

TEST(ReadBackPorts, SwitchesBelowSwitches) {
  Machine machine = built_in("workstation");
  Switch lower;
  lower.parent = {Parent::Kind::pci_switch, 0};
  machine.switches.push_back(lower);
  machine.gpus[1].parent = {Parent::Kind::pci_switch, 1};
  machine.switches[0].ports.clear();
  core::complete_machine(machine);
  ASSERT_TRUE(validate(machine).ok());
  const Machine seen = read_back(machine);
  EXPECT_EQ(text_of(seen), text_of(as_readable(machine)));
  EXPECT_EQ(path_between(seen, {DeviceRef::Kind::drive, 0}, {DeviceRef::Kind::gpu, 1}).level,
            PathLevel::pxb);
}

}  // namespace
}  // namespace nobounce::fabric
