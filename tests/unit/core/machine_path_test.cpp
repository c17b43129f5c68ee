// Paths between devices: the levels of nvidia-smi, the ports on the way and what ACS does to them.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/machine_json.hpp"
#include "unit/core/random_machine.hpp"

namespace nobounce::core {
namespace {

constexpr DeviceRef gpu(std::uint16_t i) {
  return {DeviceRef::Kind::gpu, i};
}
constexpr DeviceRef nic(std::uint16_t i) {
  return {DeviceRef::Kind::nic, i};
}
constexpr DeviceRef drive(std::uint16_t i) {
  return {DeviceRef::Kind::drive, i};
}
constexpr DeviceRef memory(std::uint16_t i) {
  return {DeviceRef::Kind::host, i};
}

// Two sockets, three NUMA nodes. Socket 0: host bridge 0 (node 0) with switch 0 (gpu:0, nic:0,
// drive:0) and, below it, switch 1 (gpu:1); also gpu:2 straight on bridge 0 and switch 3 (gpu:5);
// host bridge 1 (node 1) with gpu:3. Socket 1: host bridge 2 (node 2) with switch 2 (gpu:4,
// drive:1). drive:2 is behind nic:0.
Machine house() {
  return machine_from_text(R"({
    "numa_nodes": [{"socket": 0}, {"socket": 0}, {"socket": 1}],
    "host_bridges": [{"numa": 0, "peer_forwarding": "allowed"}, {"numa": 1, "peer_forwarding": "unknown"},
                     {"numa": 2, "peer_forwarding": "refused"}],
    "switches": [{"host_bridge": 0}, {"parent": "switch:0"}, {"host_bridge": 2}, {"host_bridge": 0}],
    "gpus": [{"parent": "switch:0"}, {"parent": "switch:1"}, {"parent": "host_bridge:0"}, {"parent": "host_bridge:1"},
             {"parent": "switch:2"}, {"parent": "switch:3"}],
    "nics": [{"parent": "switch:0"}],
    "drives": [{"parent": "switch:0"}, {"parent": "switch:2"}, {"parent": "nic:0", "driver": "nvme_rdma"}],
    "nvlinks": [{"source_gpu": 0, "target_gpu": 4, "count": 18}]})",
                           "house")
      .value();
}

Machine house(std::vector<MachineSetting> settings) {
  return apply_settings(house(), settings).value();
}

std::vector<std::string> names(const Path& path) {
  std::vector<std::string> result;
  for (const PathPort& port : path.ports) result.push_back(port.name);
  return result;
}

struct Expected {
  DeviceRef source;
  DeviceRef target;
  const char* level;
  PathLevel pcie_level;
  Link link;
  bool crosses_host_bridge;
  bool crosses_socket;
  PeerForwarding forwarding;
};

class PathBetween : public testing::TestWithParam<Expected> {};

TEST_P(PathBetween, HasTheLevelLinkAndBridges) {
  const Machine machine = house();
  const Expected& e = GetParam();
  const Path path = path_between(machine, e.source, e.target);
  EXPECT_EQ(level_text(path), e.level);
  EXPECT_EQ(path.pcie_level, e.pcie_level);
  EXPECT_EQ(path.link, e.link);
  EXPECT_EQ(path.crosses_host_bridge, e.crosses_host_bridge);
  EXPECT_EQ(path.crosses_socket, e.crosses_socket);
  EXPECT_EQ(path.forwarding, e.forwarding);
  EXPECT_FALSE(path.redirected);
}

constexpr auto allowed = PeerForwarding::allowed;
constexpr auto refused = PeerForwarding::refused;

INSTANTIATE_TEST_SUITE_P(
    House, PathBetween,
    testing::Values(
        Expected{gpu(0), gpu(0), "X", PathLevel::self, Link::none, false, false, allowed},
        Expected{gpu(0), drive(0), "PIX", PathLevel::pix, Link::pcie_switch, false, false, allowed},
        Expected{nic(0), gpu(0), "PIX", PathLevel::pix, Link::pcie_switch, false, false, allowed},
        Expected{gpu(0), gpu(1), "PXB", PathLevel::pxb, Link::pcie_switch, false, false, allowed},
        Expected{gpu(0), gpu(2), "PHB", PathLevel::phb, Link::host_bridge, true, false, allowed},
        Expected{gpu(0), gpu(5), "PHB", PathLevel::phb, Link::host_bridge, true, false, allowed},
        Expected{gpu(0), gpu(3), "NODE", PathLevel::node, Link::host_bridge, true, false,
                 PeerForwarding::unknown},
        Expected{gpu(3), gpu(4), "SYS", PathLevel::sys, Link::inter_socket, true, true, refused},
        Expected{gpu(0), drive(1), "SYS", PathLevel::sys, Link::inter_socket, true, true, refused},
        Expected{gpu(4), gpu(0), "NV18", PathLevel::sys, Link::nvlink, true, true, refused},
        Expected{drive(2), gpu(0), "PIX", PathLevel::pix, Link::pcie_switch, false, false, allowed},
        Expected{drive(2), nic(0), "X", PathLevel::self, Link::none, false, false, allowed},
        Expected{gpu(0), memory(0), "PHB", PathLevel::phb, Link::host_bridge, true, false, allowed},
        Expected{memory(1), gpu(0), "NODE", PathLevel::node, Link::host_bridge, true, false,
                 allowed},
        Expected{gpu(0), memory(2), "SYS", PathLevel::sys, Link::inter_socket, true, true, allowed},
        Expected{memory(0), memory(0), "X", PathLevel::self, Link::none, false, false, allowed},
        Expected{memory(0), memory(2), "SYS", PathLevel::sys, Link::inter_socket, false, true,
                 allowed}));

TEST(Path, ListsThePortsInOrder) {
  const Machine machine = house();
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(path_between(machine, gpu(0), drive(0))),
            (Names{"switch:0/gpu:0", "switch:0/drive:0"}));
  EXPECT_EQ(names(path_between(machine, gpu(1), nic(0))),
            (Names{"switch:1/gpu:1", "switch:0/switch:1", "switch:0/nic:0"}));
  EXPECT_EQ(names(path_between(machine, gpu(2), gpu(1))),
            (Names{"host_bridge:0/gpu:2", "host_bridge:0/switch:0", "switch:0/switch:1",
                   "switch:1/gpu:1"}));
  EXPECT_EQ(names(path_between(machine, drive(2), gpu(0))),
            (Names{"switch:0/nic:0", "switch:0/gpu:0"}));
  EXPECT_EQ(names(path_between(machine, gpu(0), memory(0))),
            (Names{"switch:0/gpu:0", "host_bridge:0/switch:0"}));
  EXPECT_EQ(names(path_between(machine, memory(0), gpu(0))),
            (Names{"host_bridge:0/switch:0", "switch:0/gpu:0"}));
  EXPECT_TRUE(path_between(machine, gpu(0), gpu(0)).ports.empty());
}

TEST(Path, NamesTheSwitchWhereTheDevicesMeet) {
  EXPECT_EQ(path_between(house(), gpu(1), nic(0)).common_switch, 0u);
  EXPECT_EQ(path_between(house(), drive(1), gpu(4)).common_switch, 2u);
  EXPECT_EQ(path_between(house(), gpu(0), gpu(2)).common_switch, std::nullopt);
}

TEST(PathAcs, APortInheritsFromItsSwitchUnlessItHasItsOwn) {
  const Machine machine =
      house({{"/switches/0/acs", "redirect"}, {"/switches/0/ports/1/acs", "source_validation"}});
  ASSERT_EQ(machine.switches[0].ports[1].device, "gpu:0");
  const Path path = path_between(machine, gpu(0), drive(0));
  EXPECT_EQ(path.ports[0].acs, AcsMode::source_validation);
  EXPECT_EQ(path.ports[1].acs, AcsMode::redirect);
  EXPECT_TRUE(path.redirected) << "the completions of the other side go up";
  EXPECT_EQ(path.link, Link::host_bridge);
  EXPECT_EQ(path.pcie_level, PathLevel::pix) << "redirecting changes the way, not the distance";
  EXPECT_FALSE(path.crosses_host_bridge);
}

TEST(PathAcs, SourceValidationAloneAndUnknownRedirectNothing) {
  for (const char* mode : {"source_validation", "unknown", "off"}) {
    const Path path = path_between(house({{"/switches/0/acs", mode}}), gpu(0), drive(0));
    EXPECT_FALSE(path.redirected) << mode;
    EXPECT_EQ(path.link, Link::pcie_switch) << mode;
  }
}

TEST(PathAcs, RootPortsCountOnlyWhereTheDevicesMeetAboveThem) {
  const Machine machine = house({{"/host_bridges/0/acs", "redirect"}});
  EXPECT_FALSE(path_between(machine, gpu(0), drive(0)).redirected);
  EXPECT_TRUE(path_between(machine, gpu(0), gpu(2)).redirected);
  EXPECT_TRUE(path_between(machine, gpu(0), gpu(3)).redirected);
}

TEST(PathAcs, APortAboveTheCommonSwitchDoesNotCount) {
  // gpu:1 sits below switch 1; what joins switch 1 to switch 0 is not on the way between its own
  // devices.
  Machine machine = house({{"/drives/0/parent", "switch:1"}});
  for (SwitchPort& port : machine.switches[0].ports) {
    if (port.device == "switch:1") port.acs = AcsMode::redirect;
  }
  EXPECT_FALSE(path_between(machine, gpu(1), drive(0)).redirected);
  EXPECT_TRUE(path_between(machine, gpu(1), gpu(0)).redirected);
}

TEST(PathAcs, MemoryIsUpstreamAnyway) {
  const Path path = path_between(house({{"/switches/0/acs", "redirect"}}), gpu(0), memory(0));
  EXPECT_FALSE(path.redirected);
  EXPECT_EQ(path.ports[0].acs, AcsMode::redirect);
}

TEST(Path, ForwardingIsTheWeakestOfBothBridges) {
  const auto forwarding = [](const char* one, const char* other) {
    return path_between(house({{"/host_bridges/0/peer_forwarding", one},
                               {"/host_bridges/1/peer_forwarding", other}}),
                        gpu(0), gpu(3))
        .forwarding;
  };
  EXPECT_EQ(forwarding("allowed", "allowed"), PeerForwarding::allowed);
  EXPECT_EQ(forwarding("allowed", "unknown"), PeerForwarding::unknown);
  EXPECT_EQ(forwarding("refused", "unknown"), PeerForwarding::refused);
  EXPECT_EQ(forwarding("allowed", "refused"), PeerForwarding::refused);
}

TEST(Path, NvlinksOfAPairCountInBothDirections) {
  const Machine machine = house({{"/nvlinks", R"([{"source_gpu":1,"target_gpu":0,"count":2}])"}});
  EXPECT_EQ(level_text(path_between(machine, gpu(0), gpu(1))), "NV2");
  EXPECT_EQ(level_text(path_between(machine, gpu(1), gpu(0))), "NV2");
  EXPECT_EQ(path_between(machine, gpu(0), gpu(1)).pcie_level, PathLevel::pxb);
  EXPECT_EQ(level_text(path_between(machine, gpu(0), gpu(2))), "PHB");
}

TEST(Path, KnowsNumaNodesAndSockets) {
  const Machine machine = house();
  EXPECT_EQ(numa_of(machine, gpu(1)), 0u);
  EXPECT_EQ(numa_of(machine, gpu(3)), 1u);
  EXPECT_EQ(numa_of(machine, drive(2)), 0u);
  EXPECT_EQ(numa_of(machine, memory(2)), 2u);
  EXPECT_EQ(socket_of(machine, gpu(3)), 0u);
  EXPECT_EQ(socket_of(machine, gpu(4)), 1u);
  EXPECT_EQ(numa_of(machine, DeviceRef{DeviceRef::Kind::file, 3}), 0u);
}

TEST(PathDeathTest, RefusesADeviceThatDoesNotExist) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const Machine machine = house();
  EXPECT_DEATH((void)path_between(machine, gpu(6), gpu(0)), "exists");
  EXPECT_DEATH((void)path_between(machine, gpu(0), DeviceRef{}), "exists");
}

std::vector<DeviceRef> all_devices(const Machine& machine) {
  std::vector<DeviceRef> devices;
  for (std::uint16_t i = 0; i < machine.gpus.size(); ++i) devices.push_back(gpu(i));
  for (std::uint16_t i = 0; i < machine.nics.size(); ++i) devices.push_back(nic(i));
  for (std::uint16_t i = 0; i < machine.drives.size(); ++i) devices.push_back(drive(i));
  for (std::uint16_t i = 0; i < machine.numa_nodes.size(); ++i) devices.push_back(memory(i));
  return devices;
}

TEST(Path, SaysTheControlWordOfEachPort) {
  Machine machine = house();
  for (Switch& each : machine.switches) each.acs = AcsMode::redirect;
  for (SwitchPort& port : machine.switches[0].ports) port.acs_control = "0x005d";
  const Path path = path_between(machine, gpu(0), memory(0));
  ASSERT_FALSE(path.ports.empty());
  EXPECT_EQ(path.ports[0].control, 0x5du);
  for (Switch& each : machine.switches) each.acs = AcsMode::off;
  EXPECT_EQ(path_between(machine, gpu(0), memory(0)).ports[0].control, 0u)
      << "a word counts only while it agrees with the mode";
}

TEST(Path, OfACoherentGpuToMemoryIsTheChipLink) {
  Machine machine = house();
  machine.gpus[0].coherent = true;
  EXPECT_EQ(path_between(machine, gpu(0), memory(0)).link, Link::c2c);
  EXPECT_NE(path_between(machine, gpu(1), memory(0)).link, Link::c2c);
}

TEST(Iommu, IsTheDevicesOwnOrTheKernels) {
  Machine machine = house();
  machine.kernel.iommu = IommuMode::translated;
  machine.gpus[0].iommu = IommuMode::identity;
  EXPECT_EQ(iommu_of(machine, gpu(0)), IommuMode::identity);
  EXPECT_EQ(iommu_of(machine, gpu(1)), IommuMode::translated);
  EXPECT_EQ(iommu_of(machine, memory(0)), IommuMode::translated);
}

TEST(PathProperty, ThereAndBackAreTheSamePath) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Machine machine = random_machine(seed);
    for (const DeviceRef source : all_devices(machine)) {
      for (const DeviceRef target : all_devices(machine)) {
        const Path there = path_between(machine, source, target);
        Path back = path_between(machine, target, source);
        std::reverse(back.ports.begin(), back.ports.end());
        ASSERT_EQ(there.level, back.level) << seed;
        ASSERT_EQ(there.pcie_level, back.pcie_level) << seed;
        ASSERT_EQ(there.ports, back.ports) << seed;
        ASSERT_EQ(there.common_switch, back.common_switch) << seed;
        ASSERT_EQ(there.redirected, back.redirected) << seed;
        ASSERT_EQ(there.forwarding, back.forwarding) << seed;
        ASSERT_EQ(there.link, back.link) << seed;
        ASSERT_EQ(there.crosses_socket, back.crosses_socket) << seed;
        ASSERT_EQ(there.crosses_host_bridge, back.crosses_host_bridge) << seed;
      }
    }
  }
}

}  // namespace
}  // namespace nobounce::core
