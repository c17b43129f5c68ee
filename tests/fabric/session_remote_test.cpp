// Memory of another process: bytes arrive, receipts of both ends say how, and what is not granted
// is refused with its cause while the server goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "session/crowd.hpp"
#include "session/remotes.hpp"
#include "support/remote_rig.hpp"
#include "system/faulty_host.hpp"
#include "system/workers.hpp"

namespace nobounce {
namespace {

using test::HandMadePeer;
using test::machine_with;
using test::random_bytes;
using test::RemoteRig;

/// Adapters do not help here: everything goes through host memory, with a cause.
Machine without_adapters() {
  Machine machine = machine_with("workstation");
  machine.nics.clear();
  for (Switch& one : machine.switches) one.ports.clear();  // made anew from what is there
  return machine;
}

struct Mode {
  const char* name;
  bool deterministic;
};
void PrintTo(const Mode& mode, std::ostream* stream) {
  *stream << mode.name;
}

class RemoteStaged : public ::testing::TestWithParam<Mode> {
 protected:
  [[nodiscard]] static fabric::SoftOptions options(std::uint64_t seed = 1) {
    fabric::SoftOptions options;
    options.deterministic = GetParam().deterministic;
    options.seed = seed;
    return options;
  }
};

TEST_P(RemoteStaged, GpuToGpuArrivesBothWaysAndBothEndsSayThatItWasStaged) {
  for (const std::uint64_t length : {1ULL, 4096ULL, 1048576ULL, 3000001ULL}) {
    SCOPED_TRACE(length);
    RemoteRig rig(without_adapters(), options());
    const std::vector<std::byte> bytes = random_bytes(length, 11);
    const Region served = test::must(rig.serving().allocate(0, length));
    const Region own = test::must(rig.client().allocate(1, length));
    const Export offered = test::must(rig.server().serve(served, "weights", RemoteAccess::write));
    const Peer peer = rig.connect();
    Peer& connection = const_cast<Peer&>(peer);
    const RemoteRegion remote = test::must(connection.open("weights", RemoteAccess::write));
    ASSERT_EQ(remote.length_bytes(), length);

    rig.soft().plant(served.place(), bytes);
    rig.soft().begin_account();
    const Outcome read = rig.client().transfer(remote.place(), own.place());
    ASSERT_TRUE(read.ok()) << to_string(*read.error);
    EXPECT_EQ(read.receipt.bytes[Carriage::staged], length) << test::show(read.receipt.bytes);
    EXPECT_EQ(read.receipt.bytes.total(), length);
    EXPECT_EQ(read.receipt.member, Member::rdma);
    EXPECT_GT(read.receipt.cause_count, 0);
    EXPECT_EQ(read.receipt.known, Known::claimed);
    EXPECT_EQ(rig.client().name_of(read.receipt.source),
              "rdma://" + rig.server().address() + "/weights");
    EXPECT_EQ(rig.soft().look_at(own.place()), bytes);
    EXPECT_TRUE(test::claims_no_more(read.receipt, rig.soft().arrived(own.place())));
    const ServerEvent told = rig.event(ServerEvent::Kind::ended);
    EXPECT_EQ(told.receipt->bytes, read.receipt.bytes);
    EXPECT_EQ(told.receipt->known, Known::claimed);
    EXPECT_EQ(told.source, "gpu:0");
    EXPECT_EQ(told.name, "weights");
    EXPECT_EQ(told.receipt->causes[0], read.receipt.causes[0]);
    EXPECT_FALSE(told.error.has_value());

    const std::vector<std::byte> others = random_bytes(length, 12);
    rig.soft().plant(own.place(), others);
    const Outcome written = rig.client().transfer(own.place(), remote.place());
    ASSERT_TRUE(written.ok()) << to_string(*written.error);
    EXPECT_EQ(written.receipt.bytes[Carriage::staged], length);
    EXPECT_EQ(rig.soft().look_at(served.place()), others);
    EXPECT_EQ(rig.event(ServerEvent::Kind::ended).target, "gpu:0");
    EXPECT_EQ(test::must(rig.client().checksum(remote.place())),
              test::must(rig.client().checksum(own.place())));
  }
}

TEST_P(RemoteStaged, PartsAtOddOffsetsArriveAndTheirNeighboursStay) {
  RemoteRig rig(without_adapters(), options());
  const std::uint64_t length = 2500000;
  std::vector<std::byte> there = random_bytes(length, 1);
  std::vector<std::byte> here = random_bytes(length, 2);
  const Region served = test::must(rig.serving().allocate(0, length));
  const Region own = test::must(rig.client().allocate(1, length));
  const Export offered = test::must(rig.server().serve(served, "w", RemoteAccess::write));
  Peer peer = rig.connect();
  const RemoteRegion remote = test::must(peer.open("w", RemoteAccess::write));
  rig.soft().plant(served.place(), there);
  rig.soft().plant(own.place(), here);
  struct Part {
    std::uint64_t remote, local, length;
  };
  for (const Part& part : {Part{1, 3, 1}, Part{4095, 1, 4098}, Part{777, 12345, 2000003}}) {
    ASSERT_TRUE(
        rig.client()
            .transfer(remote.place(part.remote, part.length), own.place(part.local, part.length))
            .ok());
    std::copy_n(there.begin() + static_cast<std::ptrdiff_t>(part.remote), part.length,
                here.begin() + static_cast<std::ptrdiff_t>(part.local));
    EXPECT_EQ(rig.soft().look_at(own.place()), here);
    ASSERT_TRUE(
        rig.client()
            .transfer(own.place(part.remote, part.length), remote.place(part.local, part.length))
            .ok());
    std::copy_n(here.begin() + static_cast<std::ptrdiff_t>(part.remote), part.length,
                there.begin() + static_cast<std::ptrdiff_t>(part.local));
    EXPECT_EQ(rig.soft().look_at(served.place()), there);
  }
}

TEST_P(RemoteStaged, NothingIsTransferredAsSuch) {
  RemoteRig rig(without_adapters(), options());
  const Region served = test::must(rig.serving().allocate(0, 100));
  const Region own = test::must(rig.client().allocate(1, 100));
  const Export offered = test::must(rig.server().serve(served, "w"));
  Peer peer = rig.connect();
  const RemoteRegion remote = test::must(peer.open("w"));
  const Outcome outcome = rig.client().transfer(remote.place(50, 0), own.place(0, 0));
  EXPECT_TRUE(outcome.ok());
  EXPECT_EQ(outcome.receipt.bytes.total(), 0U);
  EXPECT_EQ(rig.event(ServerEvent::Kind::ended).receipt->requested_bytes, 0U);
}

TEST_P(RemoteStaged, HostMemoryTravelsToo) {
  RemoteRig rig(without_adapters(), options());
  const std::uint64_t length = 1500000;
  const Region served = test::must(rig.serving().allocate_host(length));
  const Region own = test::must(rig.client().allocate_host(length));
  const std::vector<std::byte> bytes = random_bytes(length, 5);
  std::copy(bytes.begin(), bytes.end(), served.host_address());
  const Export offered = test::must(rig.server().serve(served, "host memory"));
  Peer peer = rig.connect();
  const RemoteRegion remote = test::must(peer.open("host memory"));
  const Outcome outcome = rig.client().transfer(remote.place(), own.place());
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), own.host_address()));
}

TEST_P(RemoteStaged, DirectRequiredIsRefusedAndTheServerLearnsWhy) {
  RemoteRig rig(without_adapters(), options());
  const Region served = test::must(rig.serving().allocate(0, 4096));
  const Region own = test::must(rig.client().allocate(1, 4096));
  const Export offered = test::must(rig.server().serve(served, "w"));
  Peer peer = rig.connect();
  const RemoteRegion remote = test::must(peer.open("w"));
  const Outcome outcome =
      rig.client().transfer(remote.place(), own.place(), {.policy = Policy::direct_required});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.receipt.state, TransferState::refused);
  EXPECT_EQ(outcome.receipt.bytes.total(), 0U);
  const ServerEvent told = rig.event(ServerEvent::Kind::ended);
  EXPECT_EQ(told.receipt->state, TransferState::refused);
  EXPECT_EQ(told.receipt->causes[0], outcome.receipt.causes[0]);
  ASSERT_TRUE(told.error.has_value());
}

TEST_P(RemoteStaged, AServerThatAdmitsDirectTransfersOnlyStagesNothing) {
  ListenOptions listening = RemoteRig::secret_listening();
  listening.policy = Policy::direct_required;
  RemoteRig rig(without_adapters(), options(), listening);
  const Region served = test::must(rig.serving().allocate(0, 4096));
  const Region own = test::must(rig.client().allocate(1, 4096));
  const Export offered = test::must(rig.server().serve(served, "w"));
  Peer peer = rig.connect();
  const RemoteRegion remote = test::must(peer.open("w"));
  const Outcome outcome = rig.client().transfer(remote.place(), own.place());
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.receipt.bytes.total(), 0U);
  EXPECT_EQ(outcome.error->cause, Cause::remote_refused_by_peer) << to_string(*outcome.error);
  EXPECT_EQ(rig.event(ServerEvent::Kind::refused).error->cause, Cause::remote_refused_by_peer);
  // To verify what arrived directly is no transfer.
  EXPECT_TRUE(rig.client().checksum(remote.place()).ok());
}

TEST_P(RemoteStaged, TheSameSeedGivesTheSameRun) {
  if (!GetParam().deterministic) GTEST_SKIP() << "threads have an order of their own";
  const auto run = [&](std::uint64_t seed) {
    RemoteRig rig(without_adapters(), options(seed));
    const Region served = test::must(rig.serving().allocate(0, 3000001));
    const Region own = test::must(rig.client().allocate(1, 3000001));
    const Export offered = test::must(rig.server().serve(served, "w"));
    Peer peer = rig.connect();
    const RemoteRegion remote = test::must(peer.open("w"));
    return rig.client().transfer(remote.place(), own.place()).receipt.elapsed_ns;
  };
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
}

INSTANTIATE_TEST_SUITE_P(Each, RemoteStaged,
                         ::testing::Values(Mode{"threads", false}, Mode{"seeded", true}));

// --- adapters -----------------------------------------------------------------------------------

TEST(RemoteDirect, BytesTravelByAdaptersBothWaysAndCrossNoHostMemory) {
  for (const std::uint64_t length : {1ULL, 4097ULL, 3000001ULL}) {
    SCOPED_TRACE(length);
    RemoteRig rig(machine_with("workstation"));
    const std::vector<std::byte> bytes = random_bytes(length, 21);
    const Region served = test::must(rig.serving().allocate(0, length));
    const Region own = test::must(rig.client().allocate(1, length));
    const Export offered = test::must(rig.server().serve(served, "w", RemoteAccess::write));
    Peer peer = rig.connect();
    const RemoteRegion remote = test::must(peer.open("w", RemoteAccess::write));
    rig.soft().plant(served.place(), bytes);
    for (const bool writing : {false, true}) {
      const Place source = writing ? own.place() : remote.place();
      const Place target = writing ? remote.place() : own.place();
      if (writing) rig.soft().plant(served.place(), random_bytes(length, 22));
      const Outcome outcome =
          rig.client().transfer(source, target, {.policy = Policy::direct_required});
      ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
      EXPECT_EQ(outcome.receipt.bytes[Carriage::direct], length)
          << test::show(outcome.receipt.bytes);
      EXPECT_EQ(rig.soft().look_at(served.place()), bytes);
      EXPECT_EQ(rig.soft().look_at(own.place()), bytes);
      const ServerEvent told = rig.event(ServerEvent::Kind::ended);
      EXPECT_EQ(told.receipt->bytes, outcome.receipt.bytes);
      EXPECT_EQ(told.receipt->known, Known::claimed);
      EXPECT_EQ(told.receipt->policy, Policy::direct_required);
    }
  }
}

TEST(RemoteDirect, OddOffsetsAndMoreThanFourGibibytes) {
  const std::uint64_t length = (4ULL << 30) + 12345;
  RemoteRig rig(machine_with("workstation"));
  const Region served = test::must(rig.serving().allocate(0, length));
  const Region own = test::must(rig.client().allocate(1, 1u << 20));
  const std::vector<std::byte> bytes = random_bytes(100001, 31);
  const std::uint64_t offset = length - bytes.size() - 7;  // beyond what 32 bits can count
  rig.soft().plant(served.place(offset, bytes.size()), bytes);
  const Export offered = test::must(rig.server().serve(served, "big"));
  Peer peer = rig.connect();
  const RemoteRegion remote = test::must(peer.open("big"));
  for (const Policy policy : {Policy::direct_required, Policy::staged_only}) {
    rig.soft().plant(own.place(3, bytes.size()), random_bytes(bytes.size(), 32));
    const Outcome outcome = rig.client().transfer(remote.place(offset, bytes.size()),
                                                  own.place(3, bytes.size()), {.policy = policy});
    ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
    EXPECT_EQ(rig.soft().look_at(own.place(3, bytes.size())), bytes);
  }
}

TEST(RemoteDirect, HostMemoryOfTheCallerIsLockedForItsTransfersOnly) {
  const std::uint64_t length = 4u << 20;
  fabric::SoftOptions options;
  options.faults.memlock_bytes = 3 * length;
  RemoteRig rig(machine_with("workstation"), options);
  const Region served = test::must(rig.serving().allocate(0, length));
  const Export offered = test::must(rig.server().serve(served, "w"));
  Peer peer = rig.connect();
  const RemoteRegion remote = test::must(peer.open("w"));
  std::list<std::vector<std::byte>> all;  // none of them at the address of another one
  for (unsigned round = 1; round <= 5; ++round) {
    const std::vector<std::byte> bytes = random_bytes(length, round);
    rig.soft().plant(served.place(), bytes);
    std::vector<std::byte>& own = all.emplace_back(length);
    const Outcome outcome = rig.client().transfer(remote.place(), HostMemory{own.data(), length},
                                                  {.policy = Policy::direct_required});
    ASSERT_TRUE(outcome.ok()) << round << ": " << to_string(*outcome.error);
    EXPECT_EQ(outcome.receipt.bytes[Carriage::direct], length);
    EXPECT_EQ(own, bytes);
  }
}

TEST(RemoteDirect, AWithdrawnExportIsOutOfReachOfTheAdaptersToo) {
  RemoteRig rig(machine_with("workstation"));
  const Region served = test::must(rig.serving().allocate(0, 8192));
  const Region own = test::must(rig.client().allocate(1, 8192));
  std::optional<Export> offered = test::must(rig.server().serve(served, "w", RemoteAccess::write));
  Peer peer = rig.connect();
  const RemoteRegion remote = test::must(peer.open("w", RemoteAccess::write));
  ASSERT_TRUE(rig.client().transfer(remote.place(), own.place()).ok());
  const std::vector<std::byte> before = rig.soft().look_at(served.place());
  rig.soft().plant(own.place(), random_bytes(8192, 1));
  offered.reset();
  const Outcome outcome = rig.client().transfer(own.place(), remote.place());
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(rig.soft().look_at(served.place()), before);
  EXPECT_TRUE(outcome.error->cause == Cause::remote_revoked ||
              outcome.error->cause == Cause::rdma_completion_error)
      << to_string(*outcome.error);
}

// --- what is refused ----------------------------------------------------------------------------

struct Refusals : ::testing::Test {
  RemoteRig rig{without_adapters()};
  Region readable = test::must(rig.serving().allocate(0, 8192));
  Region writable = test::must(rig.serving().allocate(0, 8192));
  Region own = test::must(rig.client().allocate(1, 8192));
  std::optional<Export> read_export = test::must(rig.server().serve(readable, "r"));
  std::optional<Export> write_export =
      test::must(rig.server().serve(writable, "w", RemoteAccess::write));

  /// After whatever happened, an honest client is served.
  void expect_served() {
    Peer peer = rig.connect();
    const RemoteRegion remote = test::must(peer.open("r"));
    EXPECT_TRUE(rig.client().transfer(remote.place(), own.place()).ok());
  }
};

TEST_F(Refusals, AWrongTokenIsRefusedAndLogged) {
  ConnectOptions wrong;
  wrong.token = "another secret of some length";
  const Result<Peer> peer = rig.client().connect(rig.server().address(), wrong);
  ASSERT_FALSE(peer.ok());
  EXPECT_EQ(peer.error().cause, Cause::remote_authentication_failed) << to_string(peer.error());
  EXPECT_EQ(rig.event(ServerEvent::Kind::refused).error->cause,
            Cause::remote_authentication_failed);
  expect_served();
}

/// The rig's server has a token of its own, and leaves none for others of the user.
TEST_F(Refusals, WhoGivesNoTokenIsToldThatOneIsNeeded) {
  const Result<Peer> peer = rig.client().connect(rig.server().address());
  ASSERT_FALSE(peer.ok());
  EXPECT_EQ(peer.error().cause, Cause::remote_authentication_failed) << to_string(peer.error());
  EXPECT_NE(peer.error().detail.find("no token was given"), std::string::npos);
  EXPECT_NE(peer.error().remedy.find("token"), std::string::npos);
  const Result<Peer> nobody = rig.client().connect("127.0.0.1:1");
  ASSERT_FALSE(nobody.ok());
  EXPECT_EQ(nobody.error().cause, Cause::remote_unreachable);
  expect_served();
}

TEST_F(Refusals, NobodyThereIsUnreachable) {
  const Result<Peer> peer = rig.client().connect("127.0.0.1:1", RemoteRig::secret());
  ASSERT_FALSE(peer.ok());
  EXPECT_EQ(peer.error().cause, Cause::remote_unreachable) << to_string(peer.error());
}

TEST_F(Refusals, NamesThatAreNotServedAndAccessThatIsNotGranted) {
  Peer peer = rig.connect();
  EXPECT_EQ(peer.open("nothing").error().cause, Cause::remote_name_unknown);
  EXPECT_EQ(rig.event(ServerEvent::Kind::refused).error->cause, Cause::remote_name_unknown);
  EXPECT_EQ(peer.open("r", RemoteAccess::write).error().cause, Cause::remote_access_denied);
  EXPECT_EQ(rig.event(ServerEvent::Kind::refused).error->cause, Cause::remote_access_denied);
  EXPECT_EQ(peer.open("").error().cause, Cause::remote_name_unknown);
  expect_served();
}

TEST_F(Refusals, AHonestClientIsStoppedBeforeItAsks) {
  Peer peer = rig.connect();
  const RemoteRegion remote = test::must(peer.open("r"));
  const auto cause_of = [&](const Place& source, const Place& target) {
    const Outcome outcome = rig.client().transfer(source, target);
    return outcome.ok() ? Cause::none : outcome.error->cause;
  };
  EXPECT_EQ(cause_of(own.place(), remote.place()), Cause::remote_access_denied);
  auto beyond = std::get<RemoteMemory>(remote.place());
  beyond.address = 1;
  EXPECT_EQ(cause_of(beyond, own.place()), Cause::remote_out_of_bounds);
  beyond.address = UINT64_MAX;
  EXPECT_EQ(cause_of(beyond, own.place()), Cause::remote_out_of_bounds);
  auto guessed = std::get<RemoteMemory>(remote.place());
  ++guessed.key;
  EXPECT_EQ(cause_of(guessed, own.place()), Cause::remote_name_unknown);
  auto nowhere = std::get<RemoteMemory>(remote.place());
  nowhere.peer = 99;
  EXPECT_EQ(cause_of(nowhere, own.place()), Cause::remote_peer_lost);
}

TEST_F(Refusals, WhatAForgedClientAsksForIsRefusedByTheServer) {
  HandMadePeer attacker(rig.host(), rig.server().address());
  const std::uint64_t key = attacker.open("r");
  HandMadePeer other(rig.host(), rig.server().address());
  const std::uint64_t others_key = other.open("w", wire::Access::write);
  const std::vector<std::byte> old = rig.soft().look_at(writable.place());
  struct Attack {
    const char* what;
    wire::Message message;
    std::size_t payload;
    Cause cause;
  };
  const Attack attacks[] = {
      {"guessed key", wire::StageRead{1, key + 1, 0, 16}, 0, Cause::remote_name_unknown},
      {"key of another connection, reading", wire::StageRead{2, others_key, 0, 16}, 0,
       Cause::remote_name_unknown},
      {"key of another connection, writing", wire::StageWrite{3, others_key, 0, 16}, 16,
       Cause::remote_name_unknown},
      {"beyond the end", wire::StageRead{4, key, 8192, 1}, 0, Cause::remote_out_of_bounds},
      {"across the end", wire::StageRead{5, key, 8191, 2}, 0, Cause::remote_out_of_bounds},
      {"a sum that wraps", wire::StageRead{6, key, UINT64_MAX - 3, 8}, 0,
       Cause::remote_out_of_bounds},
      {"write to what is read-only", wire::StageWrite{7, key, 0, 16}, 16,
       Cause::remote_access_denied},
      {"what is allowed", wire::StageRead{8, key, 8191, 1}, 0, Cause::none},
  };
  for (const Attack& attack : attacks) {
    EXPECT_EQ(
        attacker.refusal_of(attack.message, std::vector<std::byte>(attack.payload, std::byte{66})),
        attack.cause)
        << attack.what;
    if (attack.cause != Cause::none) {
      EXPECT_EQ(rig.event(ServerEvent::Kind::refused).error->cause, attack.cause) << attack.what;
    }
  }
  EXPECT_EQ(rig.soft().look_at(writable.place()), old);
  expect_served();
}

TEST_F(Refusals, AWithdrawnExportIsOfNoUseAnyMore) {
  Peer peer = rig.connect();
  const RemoteRegion remote = test::must(peer.open("r"));
  HandMadePeer attacker(rig.host(), rig.server().address());
  const std::uint64_t key = attacker.open("r");
  read_export.reset();
  EXPECT_EQ(rig.event(ServerEvent::Kind::revoked).name, "r");
  // Told once, on its own account; what it asks for after that is refused.
  const auto told = attacker.next();
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->message, wire::Message(wire::Revoked{key}));
  EXPECT_EQ(attacker.refusal_of(wire::StageRead{1, key, 0, 16}), Cause::remote_revoked);
  const auto joined = attacker.ask(wire::Attach{7, key, {{.queue_pair = 1}}});
  ASSERT_TRUE(joined.has_value());
  EXPECT_EQ(std::get<wire::Refusal>(joined->message).cause, Cause::remote_revoked);
  EXPECT_EQ(peer.open("r").error().cause, Cause::remote_name_unknown);
  const Outcome outcome = rig.client().transfer(remote.place(), own.place());
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error->cause, Cause::remote_revoked) << to_string(*outcome.error);
  read_export = test::must(rig.server().serve(readable, "r"));
  expect_served();
}

TEST_F(Refusals, WhoAsksForTooMuchAtOnceOrTalksNonsenseIsHungUpOn) {
  {
    HandMadePeer attacker(rig.host(), rig.server().address());
    const std::uint64_t key = attacker.open("r");
    for (std::uint64_t i = 0; i < 5000; ++i)
      (void)attacker.link().send(wire::StageRead{i + 1, key, 0, 8192});
    attacker.until([&] { return attacker.link().state() == wire::LinkState::ended; });
  }
  {
    HandMadePeer attacker(rig.host(), rig.server().address());
    ASSERT_TRUE(attacker.link().send(wire::Welcome{}).ok());
    attacker.until([&] { return attacker.link().state() == wire::LinkState::ended; });
    EXPECT_EQ(attacker.link().error()->cause, Cause::remote_handshake_invalid);
  }
  expect_served();
}

TEST_F(Refusals, WhatWasNotAnnouncedOrWasTwiceIsNotNoted) {
  const auto hung_up_on = [&](HandMadePeer& client) {
    client.until([&] { return client.link().state() == wire::LinkState::ended; });
    EXPECT_EQ(client.link().error()->cause, Cause::remote_handshake_invalid);
  };
  const auto begin_of = [](std::uint64_t key) {
    return wire::Begin{5, key, wire::Direction::read, 0, 4096, Carriage::direct, {}};
  };
  const auto report_of = [](std::uint64_t key) {
    wire::Report report{.transfer = 5,
                        .key = key,
                        .direction = wire::Direction::read,
                        .state = TransferState::done,
                        .requested_bytes = 4096};
    report.bytes[Carriage::direct] = 4096;
    return report;
  };
  {
    HandMadePeer client(rig.host(), rig.server().address());
    const std::uint64_t key = client.open("r");
    for (int i = 0; i < 2; ++i) (void)client.link().send(begin_of(key));
    hung_up_on(client);
  }
  {
    HandMadePeer client(rig.host(), rig.server().address());
    (void)client.link().send(report_of(client.open("r")));
    hung_up_on(client);
  }
  for (const int wrong : {0, 1, 2}) {
    HandMadePeer client(rig.host(), rig.server().address());
    const std::uint64_t key = client.open("r");
    (void)client.link().send(begin_of(key));
    wire::Report report = report_of(key);
    if (wrong == 0) report.key = key + 1;
    if (wrong == 1) report.direction = wire::Direction::write;
    if (wrong == 2) report.requested_bytes = report.bytes[Carriage::direct] = 8192;
    (void)client.link().send(report);
    hung_up_on(client);
  }
  {
    HandMadePeer client(rig.host(), rig.server().address());
    const std::uint64_t key = client.open("r");
    for (int i = 0; i < 2; ++i) {  // one after the other may have one number
      (void)client.link().send(begin_of(key));
      (void)client.link().send(report_of(key));
    }
    EXPECT_EQ(client.refusal_of(wire::StageRead{1, key, 0, 16}), Cause::none);
  }
  expect_served();
}

TEST_F(Refusals, WhoIsNotKnownYetHasNoName) {
  { HandMadePeer stranger(rig.host(), rig.server().address(), "another token of enough length"); }
  const ServerEvent refused = rig.event(ServerEvent::Kind::refused);
  EXPECT_EQ(refused.error->cause, Cause::remote_authentication_failed);
  EXPECT_EQ(refused.peer, "");
  expect_served();
}

TEST_F(Refusals, EventsThatNobodyAskedForAreCounted) {
  HandMadePeer client(rig.host(), rig.server().address());
  const std::uint64_t asked = 9000;
  for (std::uint64_t i = 0; i < asked; ++i) {
    const auto answer = client.ask(wire::Open{1, "nothing", wire::Access::read});
    ASSERT_TRUE(answer.has_value());
  }
  std::uint64_t told = 0;
  std::uint64_t gone = 0;
  while (told + gone < asked + 1) {  // beside that it connected
    const std::optional<ServerEvent> event = rig.server().next_event(test::patience_ns);
    ASSERT_TRUE(event.has_value()) << told << " " << gone;
    const std::string detail = event->error.has_value() ? event->error->detail : "";
    if (detail.find("older events are gone") != std::string::npos) {
      gone += std::stoull(detail);
    } else {
      ++told;
    }
  }
  EXPECT_GT(gone, 0U);
  EXPECT_EQ(told + gone, asked + 1);
}

TEST(Crowds, TheHostThatMostCameFromMakesRoomWithItsOldest) {
  using session::oldest_of_the_most;
  const std::vector<std::string_view> flood{"10.0.0.9", "10.0.0.1", "10.0.0.2", "10.0.0.1"};
  EXPECT_EQ(oldest_of_the_most(flood), 1U);
  const std::vector<std::string_view> all_alike{"10.0.0.9", "10.0.0.1"};
  EXPECT_EQ(oldest_of_the_most(all_alike), 0U);
}

TEST_F(Refusals, NoMoreThanAllowedMayStand) {
  ListenOptions listening = RemoteRig::secret_listening();
  listening.connections_max = 2;
  RemoteRig small(without_adapters(), {}, listening);
  std::list<Peer> peers;
  peers.push_back(small.connect());
  peers.push_back(small.connect());
  const Result<Peer> third = small.client().connect(small.server().address(), RemoteRig::secret());
  // Refused in the handshake's last step, or right behind it.
  if (third.ok()) {
    Peer& late = const_cast<Peer&>(*third);
    EXPECT_EQ(late.open("r").error().cause, Cause::remote_too_many_connections);
  } else {
    EXPECT_EQ(third.error().cause, Cause::remote_too_many_connections);
  }
  EXPECT_EQ(small.event(ServerEvent::Kind::refused).error->cause,
            Cause::remote_too_many_connections);
  peers.pop_back();
  (void)small.event(ServerEvent::Kind::disconnected);
  peers.push_back(small.connect());
}

TEST_F(Refusals, AThousandWhoOnlyKnockKeepNobodyOut) {
  system::Network& network = *test::must(rig.host().network());
  const system::SocketAddress there =
      test::must(system::parse_socket_address(rig.server().address()));
  std::vector<system::SocketHandle> sockets;
  std::size_t knocked = 0;
  for (int i = 0; i < 1000; ++i) {
    Result<system::SocketHandle> socket = network.connect(there);
    if (!socket.ok()) break;  // out of descriptors: of this test's own
    sockets.push_back(*socket);
    ++knocked;
    // Half of them say something: the beginning of a frame, or nonsense.
    if (i % 4 == 1) (void)network.write(*socket, wire::bytes_of("nb\x01\x01"));
    if (i % 4 == 3) (void)network.write(*socket, wire::bytes_of("GET / HTTP/1.1\r\n\r\n"));
    if (sockets.size() > 300) {
      network.close(sockets.front());
      sockets.erase(sockets.begin());
    }
    if (i % 250 == 249) expect_served();
  }
  EXPECT_EQ(knocked, 1000U);
  EXPECT_EQ(rig.event(ServerEvent::Kind::refused).error->cause, Cause::remote_handshake_invalid);
  for (const system::SocketHandle socket : sockets) network.close(socket);
  expect_served();
}

TEST_F(Refusals, WhatAClientHasClosedIsOfNoUseAnyMoreAndTakesNoRoom) {
  HandMadePeer attacker(rig.host(), rig.server().address());
  const std::uint64_t key = attacker.open("r");
  EXPECT_EQ(attacker.refusal_of(wire::StageRead{1, key, 0, 16}), Cause::none);
  ASSERT_TRUE(attacker.link().send(wire::Close{key}).ok());
  EXPECT_EQ(attacker.refusal_of(wire::StageRead{2, key, 0, 16}), Cause::remote_name_unknown);
  ASSERT_TRUE(attacker.link().send(wire::Close{key}).ok()) << "closing twice is nothing to do";
  const auto joined = attacker.ask(wire::Attach{7, key, {{.queue_pair = 1}}});
  ASSERT_TRUE(joined.has_value());
  EXPECT_EQ(std::get<wire::Refusal>(joined->message).cause, Cause::remote_name_unknown);
  Peer peer = rig.connect();
  for (int i = 0; i < 600; ++i) {  // more than a connection may have open at once
    const Result<RemoteRegion> opened = peer.open("r");
    ASSERT_TRUE(opened.ok()) << i << ": " << to_string(opened.error());
  }
  const RemoteRegion remote = test::must(peer.open("r"));
  const Outcome outcome = rig.client().transfer(remote.place(), own.place());
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_EQ(rig.client().name_of(outcome.receipt.source),
            "rdma://" + rig.server().address() + "/r");
  read_export.reset();  // nothing of what was closed is waited for
  EXPECT_EQ(peer.open("r").error().cause, Cause::remote_name_unknown);
}

TEST(Remotes, OneNameIsOneNumberHoweverOftenItIsOpened) {
  session::Remotes remotes;
  for (std::uint64_t key = 1; key <= 70000; ++key) remotes.name({1, 0, key, 16}, "rdma://a:1/w");
  remotes.name({2, 0, 5, 16}, "rdma://b:1/w");
  EXPECT_EQ(remotes.name_of(remotes.device_of({1, 0, 70000, 16})), "rdma://a:1/w");
  EXPECT_EQ(remotes.name_of(remotes.device_of({2, 0, 5, 16})), "rdma://b:1/w");
  const DeviceRef told = remotes.device_of({2, 0, 5, 16});
  remotes.forget(2, 5);
  EXPECT_EQ(remotes.name_of(told), "rdma://b:1/w") << "receipts keep it";
  EXPECT_EQ(remotes.name_of(remotes.device_of({2, 0, 5, 16})), "remote");
  for (int i = 0; i < 70000; ++i)
    remotes.name({3, 0, static_cast<std::uint64_t>(i), 16}, "rdma://c:1/" + std::to_string(i));
  EXPECT_EQ(remotes.name_of(remotes.device_of({3, 0, 69999, 16})), "remote") << "not another one";
  EXPECT_EQ(remotes.name_of(remotes.device_of({1, 0, 1, 16})), "rdma://a:1/w");
}

TEST(RemoteDirectRequired, NoPieceOfATransferIsStagedWhateverWasExpectedOfIt) {
  ListenOptions listening = RemoteRig::secret_listening();
  listening.policy = Policy::direct_required;
  RemoteRig rig(machine_with("workstation"), {}, listening);
  const Region served = test::must(rig.serving().allocate(0, 8192));
  const Export offered = test::must(rig.server().serve(served, "w", RemoteAccess::write));
  HandMadePeer client(rig.host(), rig.server().address());
  const std::uint64_t key = client.open("w", wire::Access::write);
  for (const Carriage expected : {Carriage::direct, Carriage::staged}) {
    const wire::Begin begin{5, key, wire::Direction::read, 0, 8192, expected, {}};
    ASSERT_TRUE(client.link().send(begin).ok());
    EXPECT_EQ(client.refusal_of(wire::StageRead{1, key, 0, 16}), Cause::remote_refused_by_peer);
    wire::Report report{.transfer = 5,
                        .key = key,
                        .direction = wire::Direction::read,
                        .state = TransferState::done,
                        .requested_bytes = 8192};
    report.bytes[Carriage::direct] = 4096;
    report.bytes[Carriage::staged] = 4096;
    ASSERT_TRUE(client.link().send(report).ok());
    const ServerEvent told = rig.event(ServerEvent::Kind::ended);
    ASSERT_TRUE(told.error.has_value());
    EXPECT_EQ(told.error->cause, Cause::policy_direct_required);
    EXPECT_TRUE(test::has_cause(*told.receipt, Cause::policy_direct_required));
    // To verify what arrived is no transfer.
    EXPECT_EQ(client.refusal_of(wire::StageRead{2, key, 0, 16}), Cause::none);
  }
  EXPECT_EQ(client.refusal_of(wire::StageWrite{3, key, 0, 16}, std::vector<std::byte>(16)),
            Cause::remote_refused_by_peer);
}

/// Adapters fail in mid-transfer, and staging takes over: the receipt says why.
TEST(RemoteDirect, WhatIsStagedInTheEndSaysWhy) {
  RemoteRig rig(machine_with("workstation"), {.deterministic = true});
  const std::uint64_t length = 100000;
  const Region served = test::must(rig.serving().allocate(0, length));
  const Export offered = test::must(rig.server().serve(served, "w"));
  const std::vector<std::byte> bytes = random_bytes(length, 41);
  rig.soft().plant(served.place(), bytes);
  int substituted = 0;
  for (std::uint64_t nth = 1; nth < 60; ++nth) {
    SCOPED_TRACE(nth);
    const auto faulty = system::FaultyHost::wrap(
        rig.host(), {.fail_call = nth, .only = "verbs.post_send", .errno_value = EINVAL});
    Session session = test::must(Session::open(*faulty, test::SoftSession::quiet()));
    const Region own = test::must(session.allocate(1, length));
    Peer peer = test::must(session.connect(rig.server().address(), RemoteRig::secret()));
    const RemoteRegion remote = test::must(peer.open("w"));
    const Outcome outcome = session.transfer(remote.place(), own.place());
    ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
    EXPECT_EQ(rig.soft().look_at(own.place()), bytes);
    if (outcome.receipt.bytes[Carriage::staged] > 0) {
      EXPECT_GT(outcome.receipt.cause_count, 0);
    }
    const ServerEvent told = rig.event(ServerEvent::Kind::ended);
    EXPECT_EQ(told.receipt->bytes, outcome.receipt.bytes);
    EXPECT_EQ(told.receipt->causes, outcome.receipt.causes);
    if (test::has_cause(outcome.receipt, Cause::rdma_completion_error)) ++substituted;
    if (faulty->failed_call().empty()) break;
  }
  EXPECT_GT(substituted, 0);
}

/// A server that says that staged pieces arrived, or what they hold, as it likes.
class LyingServer final : public system::Worker {
 public:
  enum class Lie : std::uint8_t {
    done_for_a_read,
    done_before_it_was_sent,
    data_of_another_length
  };

  LyingServer(system::Host& host, Lie lie, std::uint64_t length_bytes)
      : host_(host),
        network_(*test::must(host.network())),
        lie_(lie),
        length_bytes_(length_bytes),
        id_(test::must(host.workers().start(*this, "liar"))) {}
  LyingServer(const LyingServer&) = delete;
  LyingServer& operator=(const LyingServer&) = delete;
  ~LyingServer() override {
    host_.workers().stop(id_);
    link_.reset();
    network_.close(listener_);
  }
  [[nodiscard]] std::string address() const {
    return to_string(test::must(network_.own_address(listener_)));
  }

  [[nodiscard]] system::Step step() override {
    const std::uint64_t now_ns = host_.clock().now_ns();
    if (link_ == nullptr) {
      const auto socket = network_.accept(listener_);
      if (socket.ok() && socket->has_value()) {
        wire::LinkOptions options{
            .role = wire::Role::server, .name = "liar", .deadline_ns = now_ns + test::patience_ns};
        host_.entropy().fill(options.nonce);
        link_ = std::make_unique<wire::Link>(network_, **socket, token_, options);
      }
    }
    if (link_ != nullptr) {
      (void)link_->pump(now_ns);
      while (const auto message = link_->take()) answer(message->message);
    }
    return system::Step::idle_until(now_ns + 100'000);
  }

 private:
  void answer(const wire::Message& message) {
    if (const auto* open = std::get_if<wire::Open>(&message)) {
      (void)link_->send(wire::Opened{.request = open->request,
                                     .key = 7,
                                     .length_bytes = length_bytes_,
                                     .access = open->access,
                                     .place = wire::PlaceKind::gpu,
                                     .device = "gpu:0"});
    } else if (std::holds_alternative<wire::Begin>(message) &&
               lie_ == Lie::done_before_it_was_sent) {
      for (std::uint64_t piece = 1; piece <= 64; ++piece) (void)link_->send(wire::StageDone{piece});
    } else if (const auto* read = std::get_if<wire::StageRead>(&message)) {
      if (lie_ == Lie::done_for_a_read) {
        (void)link_->send(wire::StageDone{read->piece});
      } else {
        (void)link_->send(wire::StageData{read->piece, read->length_bytes - 1},
                          std::vector<std::byte>(read->length_bytes - 1));
      }
    }
  }

  system::Host& host_;
  system::Network& network_;
  const Lie lie_;
  const std::uint64_t length_bytes_;
  wire::Token token_ = test::must(wire::Token::from_text(test::shared_secret));
  system::SocketHandle listener_ = test::must(network_.listen({"127.0.0.1", 0}, 4));
  std::unique_ptr<wire::Link> link_;
  system::WorkerId id_;
};

TEST(RemoteLies, AnswersThatFitNothingThatWasAskedEndTheConnectionAndNoTransferWell) {
  using Lie = LyingServer::Lie;
  for (const Lie lie :
       {Lie::done_for_a_read, Lie::done_before_it_was_sent, Lie::data_of_another_length}) {
    SCOPED_TRACE(static_cast<int>(lie));
    const bool writing = lie == Lie::done_before_it_was_sent;
    const std::uint64_t length = 3000001;
    RemoteRig rig(without_adapters(), {.deterministic = true});
    LyingServer liar(rig.host(), lie, length);
    const Region own = test::must(rig.client().allocate(1, length));
    Peer peer = test::must(rig.client().connect(liar.address(), RemoteRig::secret()));
    const RemoteRegion remote = test::must(peer.open("w", RemoteAccess::write));
    const Place source = writing ? own.place() : remote.place();
    const Place target = writing ? remote.place() : own.place();
    const Outcome outcome =
        rig.client().transfer(source, target, {.deadline_ns = test::patience_ns});
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error->cause, Cause::remote_handshake_invalid) << to_string(*outcome.error);
    EXPECT_LT(outcome.receipt.bytes.total(), length);
  }
}

// --- ends in mid-transfer -----------------------------------------------------------------------

TEST_F(Refusals, AClientThatVanishesInMidTransferLeavesATraceOfWhatMayHaveArrived) {
  HandMadePeer client(rig.host(), rig.server().address());
  const std::uint64_t key = client.open("w", wire::Access::write);
  ASSERT_TRUE(client.link()
                  .send(wire::Begin{5,
                                    key,
                                    wire::Direction::write,
                                    0,
                                    8192,
                                    Carriage::staged,
                                    {Cause::rdma_verbs_absent}})
                  .ok());
  EXPECT_EQ(client.refusal_of(wire::StageWrite{1, key, 0, 4096},
                              std::vector<std::byte>(4096, std::byte{1})),
            Cause::none);
  EXPECT_EQ(rig.event(ServerEvent::Kind::began).requested_bytes, 8192U);
  client.hang_up();
  const ServerEvent lost = rig.event(ServerEvent::Kind::lost);
  EXPECT_EQ(lost.error->cause, Cause::remote_peer_lost);
  EXPECT_EQ(lost.receipt->state, TransferState::failed);
  EXPECT_TRUE(test::has_cause(*lost.receipt, Cause::remote_partial_arrival));
  EXPECT_EQ(lost.name, "w");
  expect_served();
}

TEST_F(Refusals, AServerThatVanishesFailsTheTransferWithWhatHadArrived) {
  auto server =
      std::make_unique<Server>(test::must(rig.serving().listen(RemoteRig::secret_listening())));
  const std::uint64_t length = 64u << 20;
  const Region big = test::must(rig.serving().allocate(0, length));
  const Region target = test::must(rig.client().allocate(1, length));
  auto offered = std::make_unique<Export>(test::must(server->serve(big, "big")));
  Peer peer = test::must(rig.client().connect(server->address(), RemoteRig::secret()));
  const RemoteRegion remote = test::must(peer.open("big"));
  Transfer transfer = test::must(rig.client().start(remote.place(), target.place()));
  EXPECT_TRUE(rig.host().workers().wait(
      [&] {
        (void)transfer.poll();
        return transfer.progress_bytes() > 0 || transfer.poll().has_value();
      },
      rig.host().clock().now_ns() + test::patience_ns));
  offered.reset();
  server.reset();
  const std::optional<Outcome> outcome = transfer.wait(test::patience_ns);
  ASSERT_TRUE(outcome.has_value());
  if (outcome->ok()) {
    EXPECT_EQ(outcome->receipt.bytes.total(), length);  // it was faster
    return;
  }
  EXPECT_LT(outcome->receipt.bytes.total(), length);
  EXPECT_EQ(outcome->receipt.state, TransferState::failed);
  EXPECT_TRUE(test::has_cause(outcome->receipt, Cause::remote_partial_arrival));
  EXPECT_TRUE(outcome->error->cause == Cause::remote_peer_lost ||
              outcome->error->cause == Cause::remote_revoked)
      << to_string(*outcome->error);
}

TEST_F(Refusals, ATokenLeftForTheSameUserIsFoundAndGoneWithItsServer) {
  std::string address;
  {
    ListenOptions without;
    Server server = test::must(rig.serving().listen(without));
    address = server.address();
    const Export offered = test::must(server.serve(readable, "r"));
    Peer peer = test::must(rig.client().connect(address));
    EXPECT_TRUE(peer.open("r").ok());
  }
  const Result<Peer> later = rig.client().connect(address);
  ASSERT_FALSE(later.ok());
  EXPECT_EQ(later.error().cause, Cause::remote_unreachable);
}

TEST_F(Refusals, OtherMachinesAreServedWithATokenOnly) {
  ListenOptions open;
  open.address = "0.0.0.0:0";
  const Result<Server> server = rig.serving().listen(open);
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.error().origin, ErrorOrigin::input);
  open.token = "short";
  EXPECT_FALSE(rig.serving().listen(open).ok());
  open.token = test::shared_secret;
  EXPECT_TRUE(rig.serving().listen(open).ok());
}

TEST_F(Refusals, NamesOfExportsAreUniqueAndPrintable) {
  EXPECT_FALSE(rig.server().serve(readable, "r").ok());
  EXPECT_FALSE(rig.server().serve(readable, "").ok());
  EXPECT_FALSE(rig.server().serve(readable, "a/b").ok());
  EXPECT_FALSE(rig.server().serve(readable, "a\x1b[2J").ok());
  EXPECT_FALSE(rig.server().serve(readable, std::string(65, 'x')).ok());
  EXPECT_TRUE(rig.server().serve(readable, std::string(64, 'x')).ok());
}

}  // namespace
}  // namespace nobounce
