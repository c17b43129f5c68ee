// Peer preconditions: one broken fact at a time makes exactly its own finding unmet (or unknown)
// and leaves the others alone.
#include "judge/peer.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <utility>

namespace nobounce {
namespace {

core::Fact fact(bool value, std::string observed) {
  return core::Fact{value, std::move(observed), "cuDeviceCanAccessPeer"};
}

/// Five GPUs, all preconditions met between 0 and 1: both below one switch. GPU 2 hangs below the
/// same host bridge without a switch, GPU 3 on the other socket, GPU 4 beside 0 with NVLink to it
/// although it sits on the other socket.
struct World {
  Machine machine;
  core::HostFacts host;
  std::uint32_t source = 0;
  std::uint32_t target = 1;
  AllocationKind source_kind = AllocationKind::device;
  AllocationKind target_kind = AllocationKind::device;

  World() {
    machine.numa_nodes = {NumaNode{0, 1u << 30}, NumaNode{1, 1u << 30}};
    machine.host_bridges = {HostBridge{0, PeerForwarding::refused, AcsMode::off},
                            HostBridge{1, PeerForwarding::refused, AcsMode::off}};
    machine.switches.resize(1);
    machine.switches[0].parent = Parent{Parent::Kind::host_bridge, 0};
    for (std::uint32_t i = 0; i < 5; ++i) {
      Gpu gpu;
      gpu.parent = i < 2 ? Parent{Parent::Kind::pci_switch, 0}
                         : Parent{Parent::Kind::host_bridge, i == 2 ? 0u : 1u};
      gpu.memory_bytes = 1u << 30;
      gpu.bar1_bytes = 2u << 30;
      gpu.link = PcieLink{4, 16, 4, 16};
      machine.gpus.push_back(gpu);
    }
    machine.nvlinks = {NvLink{0, 4, 12}};
    host.storage.iommu = {"off", "/sys"};
    for (std::uint32_t a = 0; a < 5; ++a) {
      for (std::uint32_t b = 0; b < 5; ++b) {
        if (a == b) continue;
        host.peers.push_back({a, b, fact(true, "it answers 1"), PeerStatus::ok, PeerStatus::ok});
      }
    }
  }

  [[nodiscard]] core::PeerFacts& facts(std::uint32_t a, std::uint32_t b) {
    for (core::PeerFacts& each : host.peers) {
      if (each.source == a && each.target == b) return each;
    }
    return host.peers.at(host.peers.size());
  }

  [[nodiscard]] judge::PeerJudgement judge() const {
    return judge::judge_peer({machine, host, source, target, source_kind, target_kind});
  }
};

using Key = std::pair<Cause, std::string>;

std::map<Key, FindingState> states(const judge::PeerJudgement& judgement) {
  std::map<Key, FindingState> result;
  for (const Finding& finding : judgement.findings) {
    const auto [at, fresh] = result.emplace(Key{finding.cause, finding.subject}, finding.state);
    EXPECT_TRUE(fresh) << to_string(finding.cause) << " twice for " << at->first.second;
  }
  return result;
}

const Finding* find(const judge::PeerJudgement& judgement, Cause cause) {
  for (const Finding& finding : judgement.findings) {
    if (finding.cause == cause) return &finding;
  }
  return nullptr;
}

FindingState state_of(const judge::PeerJudgement& judgement, Cause cause) {
  const Finding* finding = find(judgement, cause);
  EXPECT_NE(finding, nullptr) << to_string(cause);
  return finding == nullptr ? FindingState::met : finding->state;
}

TEST(PeerJudgement, OfAWholePairIsMetExceptForAccessWhichIsOnlyTried) {
  const judge::PeerJudgement judgement = World().judge();
  EXPECT_TRUE(judgement.possible);
  EXPECT_FALSE(judgement.degraded);
  EXPECT_EQ(judgement.link, Link::pcie_switch);
  EXPECT_EQ(judgement.suspect, Cause::p2p_wrong_data);
  EXPECT_GE(judgement.findings.size(), 12u);
  for (const Finding& finding : judgement.findings) {
    const bool access = finding.cause == Cause::p2p_peer_access_not_enabled;
    EXPECT_EQ(finding.state, access ? FindingState::unknown : FindingState::met)
        << to_string(finding.cause) << ": " << finding.observed;
    EXPECT_FALSE(finding.subject.empty());
    EXPECT_FALSE(finding.observed.empty());
    EXPECT_FALSE(finding.needed.empty());
    EXPECT_FALSE(finding.source.empty());
  }
  (void)states(judgement);
}

// --- exactly one broken ------------------------------------------------------------------------

struct Broken {
  const char* name;
  Cause cause;
  std::string subject;
  FindingState state;
  std::function<void(World&)> change;
};

void PrintTo(const Broken& broken, std::ostream* out) {
  *out << broken.name;
}

class OneBrokenPeerPrecondition : public ::testing::TestWithParam<Broken> {};

TEST_P(OneBrokenPeerPrecondition, ChangesItsFindingAndLeavesTheOthersAlone) {
  const Broken& broken = GetParam();
  const World before;
  World after = before;
  broken.change(after);
  const judge::PeerJudgement judgement = after.judge();
  // Allocation kinds other than cuMemAlloc change which cause the row of that memory has.
  const auto is_memory = [](Cause cause) {
    return to_string(cause).substr(0, 12) == "memory.kind_";
  };
  auto expected = states(before.judge());
  if (is_memory(broken.cause)) expected.erase(Key{Cause::memory_kind_managed, broken.subject});
  expected[Key{broken.cause, broken.subject}] = broken.state;
  EXPECT_EQ(states(judgement), expected);
  const bool unmet = broken.state == FindingState::unmet;
  EXPECT_EQ(judgement.possible, !unmet);
  EXPECT_EQ(first_unmet(judgement.findings), unmet ? broken.cause : Cause::none);
  EXPECT_FALSE(judgement.degraded);
  for (const Finding& finding : judgement.findings) {
    if (finding.state != FindingState::unmet) continue;
    EXPECT_EQ(finding.remedy, cause_row(finding.cause).remedy);
  }
}

void say(World& world, PeerStatus status) {
  world.facts(0, 1).read = status;
}

void say_of_gpu(World& world, std::uint32_t gpu, PeerStatus status) {
  world.facts(0, 1).read.reset();
  world.facts(0, 1).write.reset();
  world.machine.gpus[gpu].peer_status = status;
}

const std::string pair = "gpu:0 -> gpu:1";

INSTANTIATE_TEST_SUITE_P(
    Peer, OneBrokenPeerPrecondition,
    ::testing::Values(
        Broken{"product_gns", Cause::p2p_product_not_supported, pair, FindingState::unmet,
               [](World& w) { say(w, PeerStatus::gns); }},
        Broken{"product_ns", Cause::p2p_product_not_supported, pair, FindingState::unmet,
               [](World& w) { say(w, PeerStatus::ns); }},
        Broken{"product_of_the_source", Cause::p2p_product_not_supported, pair, FindingState::unmet,
               [](World& w) { say_of_gpu(w, 0, PeerStatus::gns); }},
        Broken{"product_of_the_target", Cause::p2p_product_not_supported, pair, FindingState::unmet,
               [](World& w) { say_of_gpu(w, 1, PeerStatus::ns); }},
        Broken{"refused_without_a_reason", Cause::p2p_product_not_supported, pair,
               FindingState::unmet,
               [](World& w) { w.facts(0, 1).can_access = fact(false, "it answers 0"); }},
        Broken{"refused_the_other_way", Cause::p2p_product_not_supported, pair, FindingState::unmet,
               [](World& w) { w.facts(1, 0).can_access = fact(false, "it answers 0"); }},
        Broken{"generations", Cause::p2p_different_generations, pair, FindingState::unmet,
               [](World& w) {
                 w.machine.gpus[1].product = "another GPU";
                 w.facts(0, 1).can_access = fact(false, "it answers 0");
               }},
        Broken{"generations_not_asked", Cause::p2p_different_generations, pair,
               FindingState::unknown,
               [](World& w) {
                 w.machine.gpus[1].product = "another GPU";
                 w.host.peers.clear();
               }},
        Broken{"chipset_cns", Cause::p2p_chipset_not_supported, pair, FindingState::unmet,
               [](World& w) { say(w, PeerStatus::cns); }},
        Broken{"chipset_tns", Cause::p2p_chipset_not_supported, pair, FindingState::unmet,
               [](World& w) { say(w, PeerStatus::tns); }},
        Broken{"chipset_for_writes_only", Cause::p2p_chipset_not_supported, pair,
               FindingState::unmet, [](World& w) { w.facts(0, 1).write = PeerStatus::cns; }},
        Broken{"setting", Cause::p2p_disabled_by_setting, pair, FindingState::unmet,
               [](World& w) { say(w, PeerStatus::dr); }},
        Broken{"acs", Cause::machine_acs_redirect, pair, FindingState::unknown,
               [](World& w) { w.machine.switches[0].acs = AcsMode::redirect; }},
        Broken{"acs_of_a_port", Cause::machine_acs_redirect, pair, FindingState::unknown,
               [](World& w) {
                 w.machine.switches[0].ports = {SwitchPort{"gpu:1", AcsMode::redirect}};
               }},
        Broken{"acs_unreadable", Cause::machine_acs_redirect, pair, FindingState::unknown,
               [](World& w) { w.machine.switches[0].acs = AcsMode::unknown; }},
        Broken{"iommu", Cause::machine_iommu_translated, pair, FindingState::unknown,
               [](World& w) { w.host.storage.iommu.value = "translated"; }},
        Broken{"iommu_unreadable", Cause::machine_iommu_translated, pair, FindingState::unknown,
               [](World& w) { w.host.storage.iommu.value.reset(); }},
        Broken{"modified_driver", Cause::p2p_advertised_unproven, pair, FindingState::unknown,
               [](World& w) {
                 w.machine.gpus[0].product = "NVIDIA GeForce RTX 4090";
                 w.machine.gpus[1].product = "NVIDIA GeForce RTX 4090";
               }},
        Broken{"link_unreadable", Cause::machine_link_downtrained, "gpu:0", FindingState::unknown,
               [](World& w) { w.machine.gpus[0].link = PcieLink{}; }},
        Broken{"managed_source", Cause::memory_kind_managed, "gpu:0", FindingState::unmet,
               [](World& w) { w.source_kind = AllocationKind::managed; }},
        Broken{"managed_target", Cause::memory_kind_managed, "gpu:1", FindingState::unmet,
               [](World& w) { w.target_kind = AllocationKind::managed; }},
        Broken{"pageable", Cause::memory_kind_pageable, "gpu:0", FindingState::unmet,
               [](World& w) { w.source_kind = AllocationKind::host_pageable; }},
        Broken{"pinned_host", Cause::memory_kind_unknown, "gpu:1", FindingState::unmet,
               [](World& w) { w.target_kind = AllocationKind::host_pinned; }},
        Broken{"vmm", Cause::memory_kind_vmm, "gpu:0", FindingState::unknown,
               [](World& w) { w.source_kind = AllocationKind::vmm; }},
        Broken{"pool", Cause::memory_kind_pool, "gpu:1", FindingState::unknown,
               [](World& w) { w.target_kind = AllocationKind::pool; }},
        Broken{"ipc_import", Cause::memory_kind_ipc_import, "gpu:0", FindingState::unknown,
               [](World& w) { w.source_kind = AllocationKind::ipc_import; }},
        Broken{"kind_not_known", Cause::memory_kind_unknown, "gpu:0", FindingState::unknown,
               [](World& w) { w.source_kind = AllocationKind::unknown; }}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(PeerImports, AreOutOfEachOthersReachAndImpossibleOnBothEnds) {
  World world;
  world.source_kind = AllocationKind::ipc_import;
  EXPECT_TRUE(world.judge().possible);
  world.target_kind = AllocationKind::ipc_import;
  const judge::PeerJudgement judgement = world.judge();
  EXPECT_FALSE(judgement.possible);
  EXPECT_EQ(first_unmet(judgement.findings), Cause::memory_kind_ipc_import);
}

// --- the driver's word -------------------------------------------------------------------------

TEST(PeerStatusWords, ThePairsOwnOutweighsThatOfAGpu) {
  World world;
  world.machine.gpus[0].peer_status = PeerStatus::gns;
  EXPECT_TRUE(world.judge().possible);
  world.host.peers.clear();
  EXPECT_EQ(first_unmet(world.judge().findings), Cause::p2p_product_not_supported);
}

TEST(PeerStatusWords, WithoutAnyAreUnknownAndForbidNothing) {
  World world;
  world.host.peers.clear();
  world.machine.gpus[1].peer_status = PeerStatus::unknown;
  const judge::PeerJudgement judgement = world.judge();
  EXPECT_TRUE(judgement.possible);
  for (const Cause cause : {Cause::p2p_product_not_supported, Cause::p2p_chipset_not_supported,
                            Cause::p2p_disabled_by_setting}) {
    EXPECT_EQ(state_of(judgement, cause), FindingState::unknown) << to_string(cause);
  }
}

TEST(PeerStatusWords, MayBeMissingWhereTheDriverSaysYes) {
  World world;
  for (core::PeerFacts& each : world.host.peers) {
    each.read.reset();
    each.write.reset();
  }
  world.machine.gpus[0].peer_status = PeerStatus::unknown;
  EXPECT_EQ(state_of(world.judge(), Cause::p2p_product_not_supported), FindingState::met);
}

// --- the bus -----------------------------------------------------------------------------------

struct Forwarding {
  const char* name;
  PeerForwarding forwarding;
  FindingState state;
  bool degraded;
};

class HostBridgeOfPeers : public ::testing::TestWithParam<Forwarding> {};

void expect_forwarding(World world, const Forwarding& parameter, Cause cause, Link link) {
  for (HostBridge& bridge : world.machine.host_bridges)
    bridge.peer_forwarding = parameter.forwarding;
  const judge::PeerJudgement judgement = world.judge();
  EXPECT_EQ(state_of(judgement, cause), parameter.state);
  EXPECT_EQ(judgement.possible, parameter.state != FindingState::unmet);
  EXPECT_EQ(judgement.degraded, parameter.degraded);
  EXPECT_EQ(judgement.degraded_causes,
            parameter.degraded ? std::vector<Cause>{cause} : std::vector<Cause>{});
  EXPECT_EQ(judgement.link, link);
  if (judgement.possible) {
    EXPECT_EQ(judgement.suspect, cause);
  }
}

TEST_P(HostBridgeOfPeers, DecidesWhetherRedirectedRequestsArrive) {
  World world;
  world.machine.switches[0].acs = AcsMode::redirect;
  expect_forwarding(world, GetParam(), Cause::machine_acs_redirect, Link::host_bridge);
}

TEST_P(HostBridgeOfPeers, DecidesWhetherRequestsPassTheRootComplex) {
  World world;
  world.target = 2;
  expect_forwarding(world, GetParam(), Cause::machine_cross_host_bridge, Link::host_bridge);
}

TEST_P(HostBridgeOfPeers, DecidesWhetherRequestsCrossTheSockets) {
  World world;
  world.target = 3;
  expect_forwarding(world, GetParam(), Cause::machine_cross_socket, Link::inter_socket);
}

TEST_P(HostBridgeOfPeers, DoesNotMatterToNvlink) {
  World world;
  world.target = 4;
  for (HostBridge& bridge : world.machine.host_bridges) {
    bridge.peer_forwarding = GetParam().forwarding;
    bridge.acs = AcsMode::redirect;
  }
  world.machine.guest = true;
  world.host.storage.iommu.value = "translated";
  world.machine.gpus[4].link.width = 1;
  const judge::PeerJudgement judgement = world.judge();
  EXPECT_TRUE(judgement.possible);
  EXPECT_FALSE(judgement.degraded);
  EXPECT_EQ(judgement.link, Link::nvlink);
  EXPECT_EQ(find(judgement, Cause::machine_acs_redirect), nullptr);
  EXPECT_EQ(find(judgement, Cause::machine_guest_topology_hidden), nullptr);
  EXPECT_EQ(state_of(judgement, Cause::machine_cross_socket), FindingState::met);
  EXPECT_EQ(judgement.suspect, Cause::p2p_wrong_data);
}

INSTANTIATE_TEST_SUITE_P(
    Peer, HostBridgeOfPeers,
    ::testing::Values(Forwarding{"refused", PeerForwarding::refused, FindingState::unknown, false},
                      Forwarding{"allowed", PeerForwarding::allowed, FindingState::met, true},
                      Forwarding{"unknown", PeerForwarding::unknown, FindingState::unknown, false}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(PeerBus, ProductAndChipsetAreOutweighedByNvlinkOnlyWhereTheDriverSaysYes) {
  for (const auto& [status, cause] :
       {std::pair{PeerStatus::cns, Cause::p2p_chipset_not_supported},
        std::pair{PeerStatus::gns, Cause::p2p_product_not_supported}}) {
    World world;
    world.target = 4;
    world.facts(0, 4).read = status;
    EXPECT_TRUE(world.judge().possible);
    EXPECT_EQ(state_of(world.judge(), cause), FindingState::met);
    world.facts(0, 4).can_access = fact(false, "it answers 0");
    EXPECT_EQ(first_unmet(world.judge().findings), cause);
    world.facts(0, 4).can_access = {};
    EXPECT_EQ(first_unmet(world.judge().findings), cause);
  }
}

TEST(PeerBus, AGuestHidesTopologyAndItsWordIsUnproven) {
  World world;
  world.machine.guest = true;
  const judge::PeerJudgement judgement = world.judge();
  EXPECT_TRUE(judgement.possible);
  EXPECT_EQ(state_of(judgement, Cause::machine_guest_topology_hidden), FindingState::unknown);
  EXPECT_EQ(state_of(judgement, Cause::machine_acs_redirect), FindingState::unknown);
  EXPECT_EQ(state_of(judgement, Cause::p2p_advertised_unproven), FindingState::unknown);
}

TEST(PeerBus, ANarrowLinkOfEitherGpuDegrades) {
  for (const std::uint32_t gpu : {0u, 1u}) {
    World world;
    world.machine.gpus[gpu].link.width = 8;
    const judge::PeerJudgement judgement = world.judge();
    EXPECT_TRUE(judgement.possible);
    EXPECT_EQ(judgement.degraded_causes, std::vector<Cause>{Cause::machine_link_downtrained});
    EXPECT_EQ(judgement.suspect, Cause::p2p_wrong_data);
  }
}

// --- what is no pair ---------------------------------------------------------------------------

TEST(PeerJudgement, OfOneGpuTwiceIsNoPair) {
  World world;
  world.target = 0;
  const judge::PeerJudgement judgement = world.judge();
  EXPECT_FALSE(judgement.possible);
  EXPECT_TRUE(judgement.findings.empty());
  EXPECT_EQ(judgement.link, Link::none);
}

TEST(PeerJudgement, OfAGpuThatIsNotThereSaysSo) {
  World world;
  world.target = 9;
  const judge::PeerJudgement judgement = world.judge();
  EXPECT_FALSE(judgement.possible);
  ASSERT_EQ(judgement.findings.size(), 1u);
  EXPECT_EQ(judgement.findings[0].cause, Cause::machine_no_gpu);
  EXPECT_EQ(judgement.findings[0].subject, "gpu:9");
}

// --- settled by trying -------------------------------------------------------------------------

Finding tried(Cause cause, std::string subject, FindingState state) {
  return Finding{.cause = cause,
                 .subject = std::move(subject),
                 .state = state,
                 .observed = "tried",
                 .needed = "n",
                 .remedy = {},
                 .source = "s"};
}

TEST(PeerFindings, AreSettledByWhatWasTried) {
  judge::PeerJudgement judgement = World().judge();
  const std::size_t before = judgement.findings.size();
  judge::settle(judgement.findings,
                {tried(Cause::p2p_peer_access_not_enabled, pair, FindingState::unmet)});
  EXPECT_EQ(judgement.findings.size(), before);
  EXPECT_EQ(find(judgement, Cause::p2p_peer_access_not_enabled)->observed, "tried");
  EXPECT_EQ(first_unmet(judgement.findings), Cause::p2p_peer_access_not_enabled);
}

TEST(PeerFindings, AreNotSettledByWhatIsUnknownOrSpeaksOfSomethingElse) {
  judge::PeerJudgement judgement = World().judge();
  const std::size_t before = judgement.findings.size();
  judge::settle(judgement.findings,
                {tried(Cause::p2p_peer_access_not_enabled, pair, FindingState::unknown),
                 tried(Cause::p2p_peer_access_not_enabled, "gpu:1 -> gpu:0", FindingState::met)});
  EXPECT_EQ(judgement.findings.size(), before + 1);
  EXPECT_NE(find(judgement, Cause::p2p_peer_access_not_enabled)->observed, "tried");
}

}  // namespace
}  // namespace nobounce
