// The way between a device and a GPU: IOMMU by device, redirects that ATS passes, coherent GPUs.
#include <gtest/gtest.h>

#include "core/machine_json.hpp"
#include "judge/path.hpp"

namespace nobounce::judge {
namespace {

struct Way {
  Machine machine;
  core::TextFact iommu{"off", "iommu_group/type"};

  Way() {
    machine.switches.emplace_back();
    machine.gpus.emplace_back();
    machine.nics.emplace_back();
    machine.gpus[0].parent = machine.nics[0].parent = {Parent::Kind::pci_switch, 0};
    core::complete_machine(machine);
  }
  [[nodiscard]] FindingState state(Cause cause) const {
    const PathJudgement path = judge_path(machine, {DeviceRef::Kind::nic, 0}, 0, iommu);
    for (const Finding& finding : path.findings) {
      if (finding.cause == cause) return finding.state;
    }
    ADD_FAILURE() << to_string(cause) << " was not judged";
    return FindingState::unknown;
  }
};

TEST(Way, IsJudgedByTheIommuOfItsOwnEnds) {
  Way way;
  way.machine.kernel.iommu = IommuMode::translated;
  way.iommu.value = "translated";
  EXPECT_EQ(way.state(Cause::machine_iommu_translated), FindingState::unmet);
  way.machine.gpus[0].iommu = way.machine.nics[0].iommu = IommuMode::identity;
  EXPECT_EQ(way.state(Cause::machine_iommu_translated), FindingState::met);
  way.machine.nics[0].iommu = IommuMode::unknown;
  EXPECT_EQ(way.state(Cause::machine_iommu_translated), FindingState::unknown);
}

struct Redirect {
  const char* control;
  Answer ats;
  FindingState state;
};

class Redirects : public ::testing::TestWithParam<Redirect> {};

TEST_P(Redirects, AreHarmlessOnlyWhereTranslatedRequestsPass) {
  Way way;
  way.machine.switches[0].acs = AcsMode::redirect;
  for (SwitchPort& port : way.machine.switches[0].ports) port.acs_control = GetParam().control;
  way.machine.nics[0].ats = GetParam().ats;
  EXPECT_EQ(way.state(Cause::machine_acs_redirect), GetParam().state);
}

INSTANTIATE_TEST_SUITE_P(Words, Redirects,
                         ::testing::Values(Redirect{"0x001d", Answer::yes, FindingState::unmet},
                                           Redirect{"0x005d", Answer::yes, FindingState::met},
                                           Redirect{"0x005f", Answer::yes, FindingState::unmet},
                                           Redirect{"0x005d", Answer::no, FindingState::unmet},
                                           Redirect{"0x005d", Answer::unknown,
                                                    FindingState::unmet}));

TEST(Way, ToACoherentGpuIsNotJudgedByDistance) {
  Way way;
  way.machine.host_bridges.emplace_back();
  way.machine.nics[0].parent = {Parent::Kind::host_bridge, 1};
  way.machine.switches[0].ports.clear();
  core::complete_machine(way.machine);
  EXPECT_EQ(way.state(Cause::machine_cross_host_bridge), FindingState::unmet);
  way.machine.gpus[0].coherent = true;
  EXPECT_EQ(way.state(Cause::machine_coherent_link), FindingState::met);
}

TEST(Way, ToACoherentGpuOfAnotherSocketIsUnknown) {
  for (const PeerForwarding forwarding :
       {PeerForwarding::allowed, PeerForwarding::refused, PeerForwarding::unknown}) {
    Way way;
    way.machine.switches[0].ports.clear();
    way.machine.numa_nodes.resize(2);
    way.machine.numa_nodes[1].socket = 1;
    way.machine.host_bridges.resize(2);
    way.machine.host_bridges[1].numa = 1;
    for (HostBridge& bridge : way.machine.host_bridges) bridge.peer_forwarding = forwarding;
    way.machine.nics[0].parent = {Parent::Kind::host_bridge, 1};
    way.machine.gpus[0].coherent = true;
    core::complete_machine(way.machine);
    EXPECT_EQ(way.state(Cause::machine_cross_socket), FindingState::unknown);
    way.machine.switches[0].acs = AcsMode::redirect;
    for (SwitchPort& port : way.machine.switches[0].ports) port.acs = AcsMode::redirect;
    EXPECT_EQ(way.state(Cause::machine_acs_redirect), FindingState::unknown);
  }
}

}  // namespace
}  // namespace nobounce::judge
