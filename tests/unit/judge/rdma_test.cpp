// Every precondition of RDMA with GPU memory, one at a time: the finding that says it, and what
// becomes of the pair.
#include "judge/rdma.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace nobounce::judge {
namespace {

/// Two sockets with a switch each; a GPU and two adapters below the first, an adapter below the
/// second, one straight below the first host bridge.
Machine two_sockets() {
  Machine machine;
  machine.numa_nodes = {NumaNode{0, 64ull << 30}, NumaNode{1, 64ull << 30}};
  machine.host_bridges = {HostBridge{}, HostBridge{}};
  machine.host_bridges[1].numa = 1;
  machine.switches.resize(2);
  machine.switches[1].parent.index = 1;
  Gpu gpu;
  gpu.parent = {Parent::Kind::pci_switch, 0};
  gpu.memory_bytes = 32ull << 30;
  gpu.bar1_bytes = 32ull << 30;
  gpu.link = {5, 16, 5, 16};
  machine.gpus = {gpu};
  for (int i = 0; i < 4; ++i) {
    Nic nic;
    nic.name = "mlx5_" + std::to_string(i);
    nic.link = {5, 16, 5, 16};
    nic.parent = {Parent::Kind::pci_switch, i == 2 ? 1u : 0u};
    if (i == 3) nic.parent = {Parent::Kind::host_bridge, 0};
    machine.nics.push_back(nic);
  }
  machine.modules.nvidia_peermem = true;
  return machine;
}

core::HostFacts facts_of(const Machine& machine) {
  core::HostFacts facts;
  facts.rdma.verbs_library = {true, "libibverbs is loaded", "dlopen"};
  facts.storage.iommu.value = std::string(to_string(machine.kernel.iommu));
  facts.storage.iommu.source = "/sys/bus/pci/devices/*/iommu_group/type";
  core::GpuFacts gpu;
  gpu.gpudirect_rdma = {machine.gpus[0].gpudirect_rdma, "the attribute", "cuDeviceGetAttribute"};
  gpu.bar1_total_bytes = machine.gpus[0].bar1_bytes;
  facts.gpus = {gpu};
  return facts;
}

struct Case {
  std::string name;
  void (*spoil)(Machine&, core::HostFacts&);
  FindingState state = FindingState::unmet;
  Cause cause = Cause::none;
  std::uint32_t nic = 0;
  AllocationKind kind = AllocationKind::device;
  bool named = false;
};

void nothing(Machine&, core::HostFacts&) {}

class RdmaPreconditions : public testing::TestWithParam<Case> {};

TEST_P(RdmaPreconditions, AreEachSaidWithTheirCauseAndRemedy) {
  const Case& given = GetParam();
  Machine machine = two_sockets();
  core::HostFacts facts = facts_of(machine);
  given.spoil(machine, facts);
  const RdmaJudgement judged = judge_rdma({.machine = machine,
                                           .host = facts,
                                           .gpu = 0,
                                           .nic = given.nic,
                                           .kind = given.kind,
                                           .named = given.named});
  const auto found =
      std::find_if(judged.findings.begin(), judged.findings.end(), [&given](const Finding& each) {
        return each.cause == given.cause && each.state == given.state;
      });
  ASSERT_NE(found, judged.findings.end());
  EXPECT_FALSE(found->subject.empty());
  EXPECT_FALSE(found->observed.empty());
  EXPECT_FALSE(found->needed.empty());
  EXPECT_FALSE(found->source.empty());
  EXPECT_EQ(judged.possible, given.state != FindingState::unmet);
  if (given.state == FindingState::unmet) {
    EXPECT_FALSE(found->remedy.empty());
    EXPECT_FALSE(judged.degraded);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, RdmaPreconditions,
    testing::Values(
        Case{"AllWell", nothing, FindingState::met, Cause::rdma_verbs_absent},
        Case{"NoLibrary",
             [](Machine&, core::HostFacts& facts) { facts.rdma.verbs_library.value = false; },
             FindingState::unmet, Cause::rdma_verbs_absent},
        Case{"LibraryUnknown",
             [](Machine&, core::HostFacts& facts) { facts.rdma.verbs_library.value.reset(); },
             FindingState::unknown, Cause::rdma_verbs_absent},
        Case{"HiddenInAContainer",
             [](Machine& machine, core::HostFacts&) {
               machine.container.inside = true;
               machine.container.infiniband_hidden = true;
             },
             FindingState::unmet, Cause::container_no_infiniband},
        Case{"VisibleInAContainer",
             [](Machine& machine, core::HostFacts&) { machine.container.inside = true; },
             FindingState::met, Cause::container_no_infiniband},
        Case{"NoReliableConnections",
             [](Machine& machine, core::HostFacts&) {
               machine.nics[0].reliable_connections = false;
             },
             FindingState::unmet, Cause::rdma_no_reliable_connection},
        Case{"PortDown",
             [](Machine& machine, core::HostFacts&) { machine.nics[0].active = false; },
             FindingState::unmet, Cause::rdma_port_down},
        Case{"LockedMemoryLimited",
             [](Machine& machine, core::HostFacts&) { machine.process.memlock = "65536"; },
             FindingState::unmet, Cause::rdma_memlock_limit},
        Case{"LockedMemoryLimitedInAContainer",
             [](Machine& machine, core::HostFacts&) {
               machine.container.inside = true;
               machine.process.memlock = "65536";
             },
             FindingState::unmet, Cause::container_memlock},
        Case{"LockedMemoryEnough",
             [](Machine& machine, core::HostFacts&) { machine.process.memlock = "1073741824"; },
             FindingState::met, Cause::rdma_memlock_limit},
        Case{"LockedMemoryUnreadable",
             [](Machine& machine, core::HostFacts&) { machine.process.memlock = ""; },
             FindingState::unknown, Cause::rdma_memlock_limit},
        Case{"NoDmaBufButPeermem",
             [](Machine& machine, core::HostFacts&) { machine.kernel.dmabuf = false; },
             FindingState::met, Cause::rdma_dmabuf_not_supported},
        Case{"NoPeermemButDmaBuf",
             [](Machine& machine, core::HostFacts&) { machine.modules.nvidia_peermem = false; },
             FindingState::met, Cause::rdma_peermem_not_loaded},
        Case{"NeitherWayDmaBuf",
             [](Machine& machine, core::HostFacts&) {
               machine.kernel.dmabuf = false;
               machine.modules.nvidia_peermem = false;
             },
             FindingState::unmet, Cause::rdma_dmabuf_not_supported},
        Case{"NeitherWayPeermem",
             [](Machine& machine, core::HostFacts&) {
               machine.kernel.dmabuf = false;
               machine.modules.nvidia_peermem = false;
             },
             FindingState::unmet, Cause::rdma_peermem_not_loaded},
        Case{"ProductWithout",
             [](Machine&, core::HostFacts& facts) { facts.gpus[0].gpudirect_rdma.value = false; },
             FindingState::unmet, Cause::rdma_peermem_not_loaded},
        Case{"NoWindow",
             [](Machine&, core::HostFacts& facts) { facts.gpus[0].bar1_total_bytes = 4096; },
             FindingState::unmet, Cause::machine_bar1_too_small},
        Case{"WindowUnknown",
             [](Machine& machine, core::HostFacts& facts) {
               machine.gpus[0].bar1_bytes = 0;
               facts.gpus[0].bar1_total_bytes.reset();
             },
             FindingState::unknown, Cause::machine_bar1_too_small},
        Case{"IntegratedGpu",
             [](Machine& machine, core::HostFacts&) {
               machine.gpus[0].mode = GpuMode::integrated;
             },
             FindingState::unmet, Cause::machine_integrated_gpu},
        Case{"Confidential", [](Machine& machine, core::HostFacts&) { machine.confidential = true; },
             FindingState::unmet, Cause::machine_confidential_computing},
        Case{"Pool", nothing, FindingState::unmet, Cause::memory_kind_pool, 0,
             AllocationKind::pool},
        Case{"Managed", nothing, FindingState::unmet, Cause::memory_kind_managed, 0,
             AllocationKind::managed},
        Case{"Import", nothing, FindingState::unmet, Cause::memory_kind_ipc_import, 0,
             AllocationKind::ipc_import},
        Case{"Mapping", nothing, FindingState::unknown, Cause::memory_kind_vmm, 0,
             AllocationKind::vmm},
        Case{"NearestAdapter", nothing, FindingState::met, Cause::rdma_wrong_nic},
        Case{"NamedAndFar",
             [](Machine& machine, core::HostFacts&) {
               machine.host_bridges[0].peer_forwarding = PeerForwarding::allowed;
               machine.host_bridges[1].peer_forwarding = PeerForwarding::allowed;
             },
             FindingState::unmet, Cause::rdma_wrong_nic, 2, AllocationKind::device, true},
        Case{"AcrossSockets", nothing, FindingState::unmet, Cause::machine_cross_socket, 2},
        Case{"AboveTheHostBridge", nothing, FindingState::unmet, Cause::machine_cross_host_bridge,
             3},
        Case{"Redirected",
             [](Machine& machine, core::HostFacts&) {
               machine.switches[0].acs = AcsMode::redirect;
             },
             FindingState::unmet, Cause::machine_acs_redirect},
        Case{"AcsUnreadable",
             [](Machine& machine, core::HostFacts&) {
               machine.switches[0].acs = AcsMode::unknown;
             },
             FindingState::unknown, Cause::machine_acs_redirect},
        Case{"Translated",
             [](Machine&, core::HostFacts& facts) { facts.storage.iommu.value = "translated"; },
             FindingState::unmet, Cause::machine_iommu_translated},
        Case{"TranslatedAndForwarded",
             [](Machine& machine, core::HostFacts& facts) {
               facts.storage.iommu.value = "translated";
               machine.host_bridges[0].peer_forwarding = PeerForwarding::allowed;
             },
             FindingState::unknown, Cause::machine_iommu_translated},
        Case{"Guest", [](Machine& machine, core::HostFacts&) { machine.guest = true; },
             FindingState::unknown, Cause::machine_guest_topology_hidden}),
    [](const auto& each) { return each.param.name; });

TEST(Rdma, AnAdapterThatIsFartherIsDegradedWhereItWasNotAskedFor) {
  Machine machine = two_sockets();
  machine.host_bridges[0].peer_forwarding = PeerForwarding::allowed;
  const core::HostFacts facts = facts_of(machine);
  const RdmaJudgement judged = judge_rdma({.machine = machine, .host = facts, .gpu = 0, .nic = 3});
  EXPECT_TRUE(judged.possible);
  EXPECT_TRUE(judged.degraded);
  EXPECT_EQ(judged.degraded_causes,
            (std::vector<Cause>{Cause::rdma_wrong_nic, Cause::machine_cross_host_bridge}));
  EXPECT_EQ(judged.link, Link::host_bridge);
}

TEST(Rdma, TheRemedyForAWrongAdapterNamesTheNearerOne) {
  const Machine machine = two_sockets();
  const core::HostFacts facts = facts_of(machine);
  const RdmaJudgement judged =
      judge_rdma({.machine = machine, .host = facts, .gpu = 0, .nic = 2, .named = true});
  const auto found =
      std::find_if(judged.findings.begin(), judged.findings.end(),
                   [](const Finding& each) { return each.cause == Cause::rdma_wrong_nic; });
  ASSERT_NE(found, judged.findings.end());
  EXPECT_EQ(found->remedy, "use nic:mlx5_0");
}

}  // namespace
}  // namespace nobounce::judge
