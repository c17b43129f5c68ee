// The file view and NVML of a software machine, read back: the reader must find the machine that
// was described.
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
  for (Drive& drive : machine.drives) drive.nvidia_fs_registered &= machine.modules.nvidia_fs;
  return machine;
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
  ASSERT_TRUE(validate(machine).ok());
  EXPECT_EQ(text_of(read_back(machine)), text_of(as_readable(machine)));
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
