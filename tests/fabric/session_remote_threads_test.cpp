// Several peers at once, one connection used by several threads, and exports that come and go
// meanwhile.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "support/remote_rig.hpp"

namespace nobounce {
namespace {

using test::machine_with;
using test::random_bytes;
using test::RemoteRig;

constexpr std::uint64_t part_bytes = 200003;
constexpr int users = 3;
constexpr int rounds = 6;

/// Reads and writes its own part of a peer's memory; what it wrote must come back.
void use_part(Session& session, RemoteRegion& remote, const Region& own, int user, Policy policy) {
  const std::uint64_t offset = static_cast<std::uint64_t>(user) * part_bytes;
  for (int round = 0; round < rounds; ++round) {
    const Place mine = own.place(offset, part_bytes);
    const Place theirs = remote.place(offset, part_bytes);
    ASSERT_TRUE(session.fill_pattern(mine, static_cast<std::uint64_t>(user * 100 + round)).ok());
    const std::string sent = test::must(session.checksum(mine));
    const Outcome written = session.transfer(mine, theirs, {.policy = policy});
    ASSERT_TRUE(written.ok()) << to_string(*written.error);
    ASSERT_TRUE(session.fill_pattern(mine, 7777).ok());
    const Outcome read = session.transfer(theirs, mine, {.policy = policy});
    ASSERT_TRUE(read.ok()) << to_string(*read.error);
    EXPECT_EQ(test::must(session.checksum(mine)), sent);
  }
}

class RemoteThreads : public ::testing::TestWithParam<Policy> {
 protected:
  RemoteRig rig_{machine_with("workstation")};
  Region served_ = test::must(rig_.serving().allocate(0, users* part_bytes));
  Region own_ = test::must(rig_.client().allocate(1, users* part_bytes));
  Export offered_ = test::must(rig_.server().serve(served_, "w", RemoteAccess::write));
};

TEST_P(RemoteThreads, ShareOneConnection) {
  Peer peer = rig_.connect();
  RemoteRegion remote = test::must(peer.open("w", RemoteAccess::write));
  std::vector<std::thread> threads;
  for (int user = 0; user < users; ++user) {
    threads.emplace_back([&, user] { use_part(rig_.client(), remote, own_, user, GetParam()); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(RemoteThreads, HaveAConnectionEachWhileExportsComeAndGo) {
  std::atomic<int> running{users};
  std::vector<std::thread> threads;
  for (int user = 0; user < users; ++user) {
    threads.emplace_back([&, user] {
      Peer peer = rig_.connect();
      RemoteRegion remote = test::must(peer.open("w", RemoteAccess::write));
      use_part(rig_.client(), remote, own_, user, GetParam());
      --running;
    });
  }
  const Region other = test::must(rig_.serving().allocate(0, 4096));
  Peer visitor = rig_.connect();
  do {
    const Export passing = test::must(rig_.server().serve(other, "passing"));
    const Result<RemoteRegion> opened = visitor.open("passing");
    EXPECT_TRUE(opened.ok()) << to_string(opened.error());
  } while (running > 0);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(visitor.open("passing").error().cause, Cause::remote_name_unknown);
}

INSTANTIATE_TEST_SUITE_P(Each, RemoteThreads,
                         ::testing::Values(Policy::direct_required, Policy::staged_only));

}  // namespace
}  // namespace nobounce
