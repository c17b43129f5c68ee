// For every precondition of RDMA a machine on which exactly that one is broken, at the near end or
// the far one: preferred stages with its cause, required refuses with it before a byte moves, the
// plan says unmet with a remedy, both ends tell the same, and the bus ledger equals the receipt.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "support/around_host.hpp"
#include "support/around_verbs.hpp"
#include "support/remote_rig.hpp"
#include "system/verbs.hpp"

namespace nobounce {
namespace {

using test::machine_with;
using test::random_bytes;
using test::RemoteRig;
namespace verbs = system::verbs;

constexpr std::uint64_t length = 3000001;

struct Broken {
  const char* name;
  Cause cause;
  void (*breakage)(Machine&);  ///< on `workstation`; GPU 0 serves, GPU 1 uses
};

void PrintTo(const Broken& broken, std::ostream* stream) {
  *stream << broken.name;
}

void second_below_a_bridge_of_its_own(Machine& machine, std::uint32_t numa) {
  machine.host_bridges.push_back({numa, PeerForwarding::refused, AcsMode::off, {}});
  machine.gpus[1].parent = {Parent::Kind::host_bridge, 1};
  machine.switches[0].ports.clear();  // made again without it
}

const Broken all_broken[] = {
    {"NoAdapter", Cause::rdma_no_rdma_device,
     [](Machine& machine) {
       machine.nics.clear();
       machine.switches[0].ports.clear();
     }},
    {"PortDown", Cause::rdma_port_down, [](Machine& machine) { machine.nics[0].active = false; }},
    {"NoReliableConnections", Cause::rdma_no_reliable_connection,
     [](Machine& machine) { machine.nics[0].reliable_connections = false; }},
    {"NeitherDmaBufNorPeermem", Cause::rdma_dmabuf_not_supported,
     [](Machine& machine) {
       machine.kernel.dmabuf = false;
       machine.modules.nvidia_peermem = false;
     }},
    {"NeitherPeermemNorDmaBuf", Cause::rdma_peermem_not_loaded,
     [](Machine& machine) {
       machine.kernel.dmabuf = false;
       machine.modules.nvidia_peermem = false;
     }},
    {"ProductHere", Cause::rdma_dmabuf_not_supported,
     [](Machine& machine) { machine.gpus[1].gpudirect_rdma = false; }},
    {"ProductThere", Cause::rdma_export_failed,
     [](Machine& machine) { machine.gpus[0].gpudirect_rdma = false; }},
    {"WindowThere", Cause::machine_bar1_too_small,
     [](Machine& machine) { machine.gpus[0].bar1_bytes = 1u << 20; }},
    {"AcsRedirect", Cause::machine_acs_redirect,
     [](Machine& machine) { machine.switches[0].acs = AcsMode::redirect; }},
    {"Iommu", Cause::machine_iommu_translated,
     [](Machine& machine) { machine.kernel.iommu = IommuMode::translated; }},
    {"HostBridges", Cause::machine_cross_host_bridge,
     [](Machine& machine) { second_below_a_bridge_of_its_own(machine, 0); }},
    {"Sockets", Cause::machine_cross_socket,
     [](Machine& machine) {
       machine.numa_nodes.push_back({1, machine.numa_nodes[0].memory_bytes});
       second_below_a_bridge_of_its_own(machine, 1);
     }},
};

fabric::SoftOptions seeded() {
  fabric::SoftOptions options;
  options.deterministic = true;
  return options;
}

bool says(const Receipt& receipt, Cause cause) {
  return std::find(receipt.causes.begin(), receipt.causes.begin() + receipt.cause_count, cause) !=
         receipt.causes.begin() + receipt.cause_count;
}

struct Pair {
  explicit Pair(const Machine& machine)
      : rig(machine, seeded()),
        served(test::must(rig.serving().allocate(0, length))),
        own(test::must(rig.client().allocate(1, length))),
        offered(test::must(rig.server().serve(served, "weights", RemoteAccess::write))),
        peer(rig.connect()),
        remote(test::must(peer.open("weights", RemoteAccess::write))) {}
  RemoteRig rig;
  Region served;
  Region own;
  Export offered;
  Peer peer;
  RemoteRegion remote;
};

/// What the server says of a transfer is what its client does: carriage and causes, each of them.
void expect_told(const Receipt& receipt, const ServerEvent& event) {
  ASSERT_TRUE(event.receipt.has_value());
  const Receipt& told = *event.receipt;
  EXPECT_EQ(told.bytes, receipt.bytes);
  EXPECT_EQ(told.state, receipt.state);
  EXPECT_EQ(told.known, Known::claimed);
  EXPECT_EQ(
      std::vector<Cause>(told.causes.begin(), told.causes.begin() + told.cause_count),
      std::vector<Cause>(receipt.causes.begin(), receipt.causes.begin() + receipt.cause_count));
}

class RdmaBroken : public testing::TestWithParam<Broken> {};

TEST_P(RdmaBroken, StagesWithItsCauseOrIsRefusedWithIt) {
  Machine machine = machine_with("workstation");
  GetParam().breakage(machine);
  Pair pair(machine);
  const std::vector<std::byte> bytes = random_bytes(length, 5);
  pair.rig.soft().plant(pair.served.place(), bytes);

  const Result<Route> plan =
      pair.rig.client().plan(pair.remote.place(), pair.own.place(), Policy::direct_preferred);
  ASSERT_TRUE(plan.ok()) << to_string(plan.error());
  bool unmet = false;
  for (const Candidate& candidate : plan->candidates) {
    for (const Finding& finding : candidate.assessment.findings) {
      if (finding.cause != GetParam().cause || finding.state != FindingState::unmet) continue;
      unmet = true;
      EXPECT_FALSE(finding.remedy.empty());
      EXPECT_FALSE(finding.observed.empty());
    }
  }
  EXPECT_TRUE(unmet);

  pair.rig.soft().begin_account();
  const Outcome refused = pair.rig.client().transfer(pair.remote.place(), pair.own.place(),
                                                     {.policy = Policy::direct_required});
  EXPECT_EQ(refused.receipt.state, TransferState::refused);
  EXPECT_EQ(refused.receipt.bytes.total(), 0u);
  EXPECT_TRUE(says(refused.receipt, GetParam().cause));

  const ServerEvent why = pair.rig.event(ServerEvent::Kind::ended);
  EXPECT_EQ(why.receipt->state, TransferState::refused);
  EXPECT_TRUE(says(*why.receipt, GetParam().cause)) << "the far side learns why";

  const Outcome read = pair.rig.client().transfer(pair.remote.place(), pair.own.place());
  ASSERT_TRUE(read.ok()) << to_string(*read.error);
  EXPECT_EQ(read.receipt.bytes[Carriage::staged], length) << test::show(read.receipt.bytes);
  EXPECT_TRUE(says(read.receipt, GetParam().cause));
  EXPECT_EQ(pair.rig.soft().look_at(pair.own.place()), bytes);
  EXPECT_TRUE(test::claims_no_more(read.receipt, pair.rig.soft().arrived(pair.own.place())));
  expect_told(read.receipt, pair.rig.event(ServerEvent::Kind::ended));

  const std::vector<std::byte> others = random_bytes(length, 6);
  pair.rig.soft().plant(pair.own.place(), others);
  const Outcome written = pair.rig.client().transfer(pair.own.place(), pair.remote.place());
  ASSERT_TRUE(written.ok()) << to_string(*written.error);
  EXPECT_EQ(written.receipt.bytes[Carriage::staged], length);
  EXPECT_TRUE(says(written.receipt, GetParam().cause));
  EXPECT_EQ(pair.rig.soft().look_at(pair.served.place()), others);
  expect_told(written.receipt, pair.rig.event(ServerEvent::Kind::ended));
}

INSTANTIATE_TEST_SUITE_P(Each, RdmaBroken, testing::ValuesIn(all_broken),
                         [](const auto& each) { return std::string(each.param.name); });

// --- the same at one end alone ---

/// An adapter's library that one thing is wrong with.
class BrokenVerbs : public support::AroundVerbs {
 public:
  enum class Fault : std::uint8_t {
    no_adapter,
    no_such_pairs,  ///< of another transport
    no_pairs_made,  ///< the call says that there are none of that kind
    no_registration,
    probe_lost,         ///< a probe's bytes do not arrive
    no_pairs_for_long,  ///< the call fails, and not for what the adapter is
  };
  BrokenVerbs(system::Verbs& inner, Fault fault) : AroundVerbs(inner), fault_(fault) {}

  int get_device_list(verbs::ibv_device*** devices, int* count) override {
    const int code = AroundVerbs::get_device_list(devices, count);
    if (fault_ == Fault::no_adapter) *count = 0;
    return code;
  }
  int get_device_types(int* node_type, int* transport_type, verbs::ibv_device* device) override {
    const int code = AroundVerbs::get_device_types(node_type, transport_type, device);
    if (fault_ == Fault::no_such_pairs) *transport_type = 1;  // iWARP
    return code;
  }
  int create_qp(verbs::ibv_qp** pair, verbs::ibv_pd* domain,
                verbs::ibv_qp_init_attr* attributes) override {
    if (fault_ == Fault::no_pairs_made) return EOPNOTSUPP;
    if (fault_ == Fault::no_pairs_for_long) return ENOMEM;
    return AroundVerbs::create_qp(pair, domain, attributes);
  }
  int reg_mr(verbs::ibv_mr** region, verbs::ibv_pd* domain, void* address, std::size_t bytes,
             int access) override {
    if (fault_ == Fault::no_registration) return EFAULT;
    return AroundVerbs::reg_mr(region, domain, address, bytes, access);
  }
  int reg_dmabuf_mr(verbs::ibv_mr** region, verbs::ibv_pd* domain, std::uint64_t offset,
                    std::size_t bytes, std::uint64_t iova, int descriptor, int access) override {
    if (fault_ == Fault::no_registration) return EFAULT;
    return AroundVerbs::reg_dmabuf_mr(region, domain, offset, bytes, iova, descriptor, access);
  }
  int post_send(verbs::ibv_qp* pair, verbs::ibv_send_wr* requests,
                verbs::ibv_send_wr** refused) override {
    if (fault_ == Fault::probe_lost && requests->sg_list[0].length == 4096)
      requests->wr.rdma.rkey ^= 0x5a5a;
    return AroundVerbs::post_send(pair, requests, refused);
  }

 private:
  const Fault fault_;
};

struct OneEnd {
  const char* name;
  BrokenVerbs::Fault fault;
  Cause cause;
};

class RdmaBrokenAtOneEnd : public testing::TestWithParam<std::tuple<OneEnd, bool>> {};

TEST_P(RdmaBrokenAtOneEnd, BothEndsSayWhyBothWays) {
  const auto& [broken, far] = GetParam();
  auto soft = test::must(fabric::SoftHost::create(machine_with("workstation"), seeded()));
  support::AroundHost around(*soft);
  BrokenVerbs table(*test::must(soft->verbs()), broken.fault);
  around.verbs_table = &table;
  system::Host& whole = *soft;
  Session serving = test::must(Session::open(far ? around : whole, test::SoftSession::quiet()));
  Session client = test::must(Session::open(far ? whole : around, test::SoftSession::quiet()));
  Server server = test::must(serving.listen(RemoteRig::secret_listening()));
  const Region served = test::must(serving.allocate(0, length));
  const Region own = test::must(client.allocate(1, length));
  const Export offered = test::must(server.serve(served, "weights", RemoteAccess::write));
  Peer peer = test::must(client.connect(server.address(), RemoteRig::secret()));
  const RemoteRegion remote = test::must(peer.open("weights", RemoteAccess::write));
  ASSERT_TRUE(serving.fill_pattern(served.place(), 3).ok());
  for (const bool writing : {false, true}) {
    SCOPED_TRACE(writing ? "write" : "read");
    const Place source = writing ? own.place() : remote.place();
    const Place target = writing ? remote.place() : own.place();
    for (const Policy policy : {Policy::direct_preferred, Policy::direct_required}) {
      const Outcome outcome = client.transfer(source, target, {.policy = policy});
      const bool staged = policy == Policy::direct_preferred;
      EXPECT_EQ(outcome.ok(), staged);
      EXPECT_EQ(outcome.receipt.bytes[Carriage::staged], staged ? length : 0U);
      EXPECT_EQ(outcome.receipt.bytes.total(), staged ? length : 0U);
      EXPECT_TRUE(says(outcome.receipt, broken.cause));
      std::optional<ServerEvent> event;
      while ((event = server.next_event(test::patience_ns)).has_value() &&
             event->kind != ServerEvent::Kind::ended) {
      }
      ASSERT_TRUE(event.has_value());
      expect_told(outcome.receipt, *event);
    }
  }
  EXPECT_EQ(test::must(serving.checksum(served.place())), test::must(client.checksum(own.place())));
}

INSTANTIATE_TEST_SUITE_P(
    Each, RdmaBrokenAtOneEnd,
    testing::Combine(testing::Values(OneEnd{"NoAdapter", BrokenVerbs::Fault::no_adapter,
                                            Cause::rdma_no_rdma_device},
                                     OneEnd{"AnotherTransport", BrokenVerbs::Fault::no_such_pairs,
                                            Cause::rdma_no_reliable_connection},
                                     OneEnd{"NoPairsOfThatKind", BrokenVerbs::Fault::no_pairs_made,
                                            Cause::rdma_no_reliable_connection},
                                     OneEnd{"NoPairs", BrokenVerbs::Fault::no_pairs_for_long,
                                            Cause::rdma_completion_error},
                                     OneEnd{"NoRegistration", BrokenVerbs::Fault::no_registration,
                                            Cause::rdma_registration_failed},
                                     OneEnd{"ProbeLost", BrokenVerbs::Fault::probe_lost,
                                            Cause::rdma_probe_failed}),
                     testing::Bool()),
    [](const auto& each) {
      return std::string(std::get<0>(each.param).name) +
             (std::get<1>(each.param) ? "There" : "Here");
    });

struct Whole {
  const char* name;
  void (*change)(Machine&);
  bool degraded = false;
};

void PrintTo(const Whole& whole, std::ostream* stream) {
  *stream << whole.name;
}

class RdmaWhole : public testing::TestWithParam<Whole> {};

TEST_P(RdmaWhole, MovesDirectlyBothWaysAndTouchesNoHostMemory) {
  Machine machine = machine_with("workstation");
  GetParam().change(machine);
  Pair pair(machine);
  const std::vector<std::byte> bytes = random_bytes(length, 6);
  pair.rig.soft().plant(pair.served.place(), bytes);
  pair.rig.soft().begin_account();
  // The first transfer joins adapters, registers and probes; those bytes are nobody's payload.
  const Outcome read = pair.rig.client().transfer(pair.remote.place(), pair.own.place(),
                                                  {.policy = Policy::direct_required});
  ASSERT_TRUE(read.ok()) << to_string(*read.error);
  EXPECT_EQ(read.receipt.bytes[Carriage::direct], length) << test::show(read.receipt.bytes);
  EXPECT_EQ(read.receipt.member, Member::rdma);
  EXPECT_EQ(read.receipt.link, GetParam().degraded ? Link::host_bridge : Link::pcie_switch);
  EXPECT_EQ(read.receipt.degraded, GetParam().degraded);
  EXPECT_EQ(pair.rig.soft().look_at(pair.own.place()), bytes);
  EXPECT_TRUE(test::claims_no_more(read.receipt, pair.rig.soft().arrived(pair.own.place())));

  const std::vector<std::byte> others = random_bytes(length, 7);
  pair.rig.soft().plant(pair.own.place(), others);
  const std::uint64_t dram_before = pair.rig.soft().host().ledger().dram_bytes();
  const Outcome written = pair.rig.client().transfer(pair.own.place(), pair.remote.place(),
                                                     {.policy = Policy::direct_required});
  ASSERT_TRUE(written.ok()) << to_string(*written.error);
  EXPECT_EQ(written.receipt.bytes[Carriage::direct], length);
  EXPECT_EQ(pair.rig.soft().look_at(pair.served.place()), others);
  EXPECT_LT(pair.rig.soft().host().ledger().dram_bytes() - dram_before, length / 100);
  const ServerEvent told = pair.rig.event(ServerEvent::Kind::ended);
  EXPECT_EQ(told.receipt->bytes[Carriage::direct], length);
}

INSTANTIATE_TEST_SUITE_P(
    Each, RdmaWhole,
    testing::Values(
        Whole{"AsItIs", [](Machine&) {}},
        Whole{"Ethernet",
              [](Machine& machine) { machine.nics[0].link_layer = LinkLayer::ethernet; }},
        Whole{"PeermemAlone", [](Machine& machine) { machine.kernel.dmabuf = false; }},
        Whole{"DmaBufAlone", [](Machine& machine) { machine.modules.nvidia_peermem = false; }},
        Whole{"RedirectedAndForwarded",
              [](Machine& machine) {
                machine.switches[0].acs = AcsMode::redirect;
                machine.host_bridges[0].peer_forwarding = PeerForwarding::allowed;
              },
              true},
        Whole{"TranslatedAndForwarded",
              [](Machine& machine) {
                machine.kernel.iommu = IommuMode::translated;
                machine.host_bridges[0].peer_forwarding = PeerForwarding::allowed;
              },
              true}),
    [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace nobounce
