// For every precondition of a peer copy a machine on which exactly that one is broken, crossed with
// the kinds of memory that have access of their own: preferred stages with its cause, required
// refuses with it, the plan says unmet with a remedy, and the bus ledger equals the receipt.
#include <gtest/gtest.h>

#include "support/around_host.hpp"
#include "support/gpu_kinds.hpp"

namespace nobounce {
namespace {

using test::GpuKinds;
using test::machine_with;
using test::random_bytes;
using test::SoftSession;
namespace cuda = system::cuda;

struct Broken {
  const char* name;
  Cause cause;
  void (*breakage)(Machine&);  ///< on `workstation`
  bool by_probe = false;       ///< no file tells: the probe's owner finds out
};

void PrintTo(const Broken& broken, std::ostream* stream) {
  *stream << broken.name;
}

void second_below_a_bridge_of_its_own(Machine& machine, std::uint32_t numa) {
  machine.host_bridges.push_back({numa, PeerForwarding::refused, AcsMode::off, {}});
  machine.gpus[1].parent = {Parent::Kind::host_bridge, 1};
  machine.switches[0].ports.clear();  // made again without it
}

constexpr Broken all_broken[] = {
    {"Product", Cause::p2p_product_not_supported,
     [](Machine& machine) { machine.gpus[0].peer_status = PeerStatus::gns; }},
    {"ProductOfTheTarget", Cause::p2p_product_not_supported,
     [](Machine& machine) { machine.gpus[1].peer_status = PeerStatus::gns; }},
    {"NotSupported", Cause::p2p_product_not_supported,
     [](Machine& machine) { machine.gpus[1].peer_status = PeerStatus::ns; }},
    {"Chipset", Cause::p2p_chipset_not_supported,
     [](Machine& machine) { machine.gpus[0].peer_status = PeerStatus::cns; }},
    {"Topology", Cause::p2p_chipset_not_supported,
     [](Machine& machine) { machine.gpus[0].peer_status = PeerStatus::tns; }},
    {"Setting", Cause::p2p_disabled_by_setting,
     [](Machine& machine) { machine.gpus[1].peer_status = PeerStatus::dr; }},
    {"AcsRedirect", Cause::machine_acs_redirect,
     [](Machine& machine) { machine.switches[0].acs = AcsMode::redirect; }, true},
    {"Iommu", Cause::machine_iommu_translated,
     [](Machine& machine) { machine.kernel.iommu = IommuMode::translated; }, true},
    {"HostBridges", Cause::machine_cross_host_bridge,
     [](Machine& machine) { second_below_a_bridge_of_its_own(machine, 0); }, true},
    {"Sockets", Cause::machine_cross_socket,
     [](Machine& machine) {
       machine.numa_nodes.push_back({1, machine.numa_nodes[0].memory_bytes});
       second_below_a_bridge_of_its_own(machine, 1);
     },
     true},
};

class PeerPreconditions : public ::testing::TestWithParam<std::tuple<Broken, AllocationKind>> {};

TEST_P(PeerPreconditions, StageWithTheCauseRefuseWithItAndAreUnmetWithARemedy) {
  const auto& [broken, kind] = GetParam();
  Machine machine = machine_with("workstation");
  broken.breakage(machine);
  SoftSession soft(machine);
  GpuKinds kinds(soft.host());
  constexpr std::uint64_t length = 300001;
  const DevicePointer memory = kinds.allocate(kind, 1, length);
  Result<Region> source = soft->allocate(0, length);
  Result<Region> target = soft->adopt(memory, length);
  ASSERT_TRUE(source.ok() && target.ok());
  const auto bytes = random_bytes(length, 11);
  const auto old = random_bytes(length, 12);
  soft.plant(source->place(), bytes);
  kinds.plant(memory, old);

  Result<Route> planned = soft->plan(source->place(), target->place(), Policy::direct_preferred);
  ASSERT_TRUE(planned.ok()) << to_string(planned.error());
  std::vector<Cause> unmet;
  for (const Finding& finding : planned->candidates.front().assessment.findings) {
    if (finding.state != FindingState::unmet) continue;
    unmet.push_back(finding.cause);
    EXPECT_FALSE(finding.remedy.empty()) << to_string(finding.cause);
    EXPECT_FALSE(finding.observed.empty()) << to_string(finding.cause);
    EXPECT_FALSE(finding.source.empty()) << to_string(finding.cause);
  }
  EXPECT_EQ(unmet, broken.by_probe ? std::vector<Cause>{} : std::vector<Cause>{broken.cause})
      << (unmet.empty() ? "none" : to_string(unmet.back()));

  if (broken.by_probe) {
    // Its bytes are in no receipt, and what it overwrote is put back.
    EXPECT_FALSE(
        soft->transfer(source->place(), target->place(), {.policy = Policy::direct_required}).ok());
    EXPECT_EQ(kinds.look_at(memory, length), old);
  }
  for (const Policy policy : {Policy::direct_required, Policy::direct_preferred}) {
    SCOPED_TRACE(to_string(policy));
    soft.begin_account();
    const Outcome outcome = soft->transfer(source->place(), target->place(), {.policy = policy});
    const CarriageBytes truth = kinds.arrived(memory, length);
    EXPECT_TRUE(test::equals_ledger(outcome.receipt, truth));
    EXPECT_EQ(outcome.receipt.causes[0], broken.cause) << to_string(outcome.receipt.causes[0]);
    if (policy == Policy::direct_required) {
      ASSERT_FALSE(outcome.ok());
      EXPECT_EQ(outcome.error->origin, ErrorOrigin::policy);
      EXPECT_EQ(outcome.error->cause, broken.cause);
      EXPECT_EQ(kinds.look_at(memory, length), old);
    } else {
      ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
      EXPECT_EQ(outcome.receipt.bytes[Carriage::staged], length);
      EXPECT_EQ(kinds.look_at(memory, length), bytes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, PeerPreconditions,
                         ::testing::Combine(::testing::ValuesIn(all_broken),
                                            ::testing::Values(AllocationKind::device,
                                                              AllocationKind::vmm,
                                                              AllocationKind::pool)),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param).name) + "_" +
                                  std::string(to_string(std::get<1>(tested.param)));
                         });

/// A host whose driver refuses what it promised: enabling, or setting access for mappings or pools.
class RefusingCuda : public support::AroundCuda {
 public:
  using AroundCuda::AroundCuda;
  bool enabling = false;
  bool mappings = false;
  bool pools = false;
  CUresult ctx_enable_peer_access(CUcontext peer, unsigned flags) override {
    if (enabling) return cuda::error_peer_access_unsupported;
    return AroundCuda::ctx_enable_peer_access(peer, flags);
  }
  CUresult mem_set_access(CUdeviceptr pointer, std::size_t bytes,
                          const CUmemAccessDesc* descriptions, std::size_t count) override {
    if (mappings) return cuda::error_not_permitted;
    return AroundCuda::mem_set_access(pointer, bytes, descriptions, count);
  }
  CUresult mem_pool_set_access(CUmemoryPool pool, const CUmemAccessDesc* descriptions,
                               std::size_t count) override {
    if (pools) return cuda::error_not_permitted;
    return AroundCuda::mem_pool_set_access(pool, descriptions, count);
  }
};

struct Refusal {
  const char* name;
  bool RefusingCuda::*refuses;
  AllocationKind kind;
  Cause cause;
};

void PrintTo(const Refusal& refusal, std::ostream* stream) {
  *stream << refusal.name;
}

class RefusedAccess : public ::testing::TestWithParam<Refusal> {};

/// What only trying tells: the plan before it cannot know.
TEST_P(RefusedAccess, IsFoundByTheProbeAndStagedOrRefusedWithTheCause) {
  const Refusal& refusal = GetParam();
  auto made = fabric::SoftHost::create(machine_with("workstation"), {});
  ASSERT_TRUE(made.ok());
  GpuKinds kinds(**made);
  RefusingCuda driver(*(*made)->cuda().value());
  support::AroundHost host(**made);
  host.cuda_table = &driver;
  constexpr std::uint64_t length = 300001;
  const DevicePointer memory = kinds.allocate(refusal.kind, 1, length);
  const auto bytes = random_bytes(length, 13);
  const auto old = random_bytes(length, 14);
  for (const Policy policy : {Policy::direct_required, Policy::direct_preferred}) {
    SCOPED_TRACE(to_string(policy));
    Result<Session> session = Session::open(host, SoftSession::quiet());
    ASSERT_TRUE(session.ok());
    driver.*refusal.refuses = true;
    Result<Region> source = session->allocate(0, length);
    Result<Region> target = session->adopt(memory, length);
    ASSERT_TRUE(source.ok() && target.ok());
    kinds.plant(std::get<GpuMemory>(source->place()).address, bytes);
    kinds.plant(memory, old);
    (*made)->bus().ledger().clear_requests();
    const Outcome outcome = session->transfer(source->place(), target->place(), {.policy = policy});
    const CarriageBytes truth = kinds.arrived(memory, length);
    EXPECT_TRUE(test::equals_ledger(outcome.receipt, truth));
    EXPECT_TRUE(test::has_cause(outcome.receipt, refusal.cause))
        << to_string(outcome.receipt.causes[0]);
    if (policy == Policy::direct_required) {
      ASSERT_FALSE(outcome.ok());
      EXPECT_EQ(outcome.error->cause, refusal.cause) << to_string(*outcome.error);
      EXPECT_EQ(kinds.look_at(memory, length), old);
    } else {
      ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
      EXPECT_EQ(outcome.receipt.bytes[Carriage::staged], length);
      EXPECT_EQ(kinds.look_at(memory, length), bytes);
    }
    Result<Route> after = session->plan(source->place(), target->place(), policy);
    ASSERT_TRUE(after.ok());
    const std::vector<Finding>& findings = after->candidates.front().assessment.findings;
    EXPECT_EQ(first_unmet(findings), refusal.cause) << to_string(first_unmet(findings));
    driver.*refusal.refuses = false;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, RefusedAccess,
                         ::testing::Values(Refusal{"Contexts", &RefusingCuda::enabling,
                                                   AllocationKind::device,
                                                   Cause::p2p_peer_access_not_enabled},
                                           Refusal{"Mappings", &RefusingCuda::mappings,
                                                   AllocationKind::vmm, Cause::memory_kind_vmm},
                                           Refusal{"Pools", &RefusingCuda::pools,
                                                   AllocationKind::pool, Cause::memory_kind_pool}),
                         [](const auto& tested) { return std::string(tested.param.name); });

struct Forwarded {
  const char* name;
  void (*shape)(Machine&);
  Cause cause;
  Link link;
};

void PrintTo(const Forwarded& forwarded, std::ostream* stream) {
  *stream << forwarded.name;
}

class ForwardedPairs : public ::testing::TestWithParam<std::tuple<Forwarded, AllocationKind>> {};

TEST_P(ForwardedPairs, AreDirectAndDegradedWithTheCause) {
  const auto& [forwarded, kind] = GetParam();
  Machine machine = machine_with("workstation");
  forwarded.shape(machine);
  for (HostBridge& bridge : machine.host_bridges) {
    bridge.peer_forwarding = PeerForwarding::allowed;
  }
  SoftSession soft(machine);
  GpuKinds kinds(soft.host());
  constexpr std::uint64_t length = 300001;
  const DevicePointer memory = kinds.allocate(kind, 0, length);
  Result<Region> source = soft->adopt(memory, length);
  Result<Region> target = soft->allocate(1, length);
  ASSERT_TRUE(source.ok() && target.ok());
  const auto bytes = random_bytes(length, 15);
  kinds.plant(memory, bytes);
  soft.begin_account();
  const Outcome outcome =
      soft->transfer(source->place(), target->place(), {.policy = Policy::direct_required});
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_TRUE(test::equals_ledger(outcome.receipt, soft.arrived(target->place())));
  EXPECT_EQ(outcome.receipt.bytes[Carriage::direct], length);
  EXPECT_TRUE(outcome.receipt.degraded);
  EXPECT_EQ(outcome.receipt.causes[0], forwarded.cause) << to_string(outcome.receipt.causes[0]);
  EXPECT_EQ(outcome.receipt.link, forwarded.link);
  EXPECT_EQ(soft.look_at(target->place()), bytes);
}

constexpr Forwarded all_forwarded[] = {
    {"AcsRedirect", [](Machine& machine) { machine.switches[0].acs = AcsMode::redirect; },
     Cause::machine_acs_redirect, Link::host_bridge},
    {"HostBridges", [](Machine& machine) { second_below_a_bridge_of_its_own(machine, 0); },
     Cause::machine_cross_host_bridge, Link::host_bridge},
    {"Sockets",
     [](Machine& machine) {
       machine.numa_nodes.push_back({1, machine.numa_nodes[0].memory_bytes});
       second_below_a_bridge_of_its_own(machine, 1);
     },
     Cause::machine_cross_socket, Link::inter_socket},
};

INSTANTIATE_TEST_SUITE_P(Each, ForwardedPairs,
                         ::testing::Combine(::testing::ValuesIn(all_forwarded),
                                            ::testing::Values(AllocationKind::device,
                                                              AllocationKind::vmm,
                                                              AllocationKind::ipc_import)),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param).name) + "_" +
                                  std::string(to_string(std::get<1>(tested.param)));
                         });

}  // namespace
}  // namespace nobounce
