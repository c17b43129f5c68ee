// A session used from many threads, with cancellation and deadlines; run under TSan too.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/soft_session.hpp"

namespace nobounce {
namespace {

using test::machine_with;
using test::random_bytes;
using test::SoftSession;
using test::TemporaryDirectory;
using test::write_file;

TEST(SessionThreads, ManyTransfersAtOnceAllArriveWithTheirOwnReceipts) {
  const TemporaryDirectory directory;
  SoftSession soft(machine_with("workstation"));
  constexpr int threads = 4;
  constexpr int rounds = 6;
  std::vector<std::vector<std::byte>> contents;
  for (int i = 0; i < threads; ++i) {
    contents.push_back(random_bytes(static_cast<std::size_t>(400001 + i * 4096),
                                    static_cast<std::uint64_t>(i) + 1));
    write_file(directory.file(std::to_string(i)), contents.back());
  }
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> running;
    for (int i = 0; i < threads; ++i) {
      running.emplace_back([&, i] {
        for (int round = 0; round < rounds; ++round) {
          Result<File> file = soft->open_file(directory.file(std::to_string(i)));
          Result<Region> region =
              soft->allocate(static_cast<std::uint32_t>(i % 2), contents[i].size());
          if (!file.ok() || !region.ok()) {
            ++wrong;
            return;
          }
          const Policy policy =
              (i + round) % 2 == 0 ? Policy::direct_required : Policy::staged_only;
          const Outcome outcome =
              soft->transfer(file->place(), region->place(), {.policy = policy});
          if (!outcome.ok() || outcome.receipt.bytes.total() != contents[i].size() ||
              soft.look_at(region->place()) != contents[i]) {
            ++wrong;
          }
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(soft->ledger().transfers_done, static_cast<std::uint64_t>(threads * rounds));
}

TEST(SessionThreads, ACancelledTransferEndsAndCountsWhatArrived) {
  const TemporaryDirectory directory;
  write_file(directory.file("data"), random_bytes(30000001, 1));
  SoftSession soft(machine_with("workstation"));
  Result<File> file = soft->open_file(directory.file("data"));
  Result<Region> region = soft->allocate(0, 30000001);
  ASSERT_TRUE(file.ok() && region.ok());
  for (const Policy policy : {Policy::staged_only, Policy::direct_required}) {
    soft.begin_account();
    Result<Transfer> transfer = soft->start(file->place(), region->place(), {.policy = policy});
    ASSERT_TRUE(transfer.ok());
    std::jthread other([&] { transfer->cancel(); });
    other.join();
    const std::optional<Outcome> outcome = transfer->wait();
    ASSERT_TRUE(outcome.has_value());
    EXPECT_TRUE(outcome->receipt.state == TransferState::cancelled ||
                outcome->receipt.state == TransferState::done);
    EXPECT_TRUE(test::claims_no_more(outcome->receipt, soft.arrived(region->place())));
  }
}

TEST(SessionThreads, ADeadlineInThePastCancels) {
  const TemporaryDirectory directory;
  write_file(directory.file("data"), random_bytes(30000001, 1));
  SoftSession soft(machine_with("workstation"));
  Result<File> file = soft->open_file(directory.file("data"));
  Result<Region> region = soft->allocate(0, 30000001);
  ASSERT_TRUE(file.ok() && region.ok());
  const Outcome outcome = soft->transfer(file->place(), region->place(),
                                         {.policy = Policy::staged_only, .deadline_ns = 1});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.receipt.state, TransferState::cancelled);
  EXPECT_EQ(outcome.error->cause, Cause::session_deadline_passed);
}

TEST(SessionThreads, TwoSessionsOnOneMachineDoNotDisturbEachOther) {
  const TemporaryDirectory directory;
  const std::vector<std::byte> bytes = random_bytes(500001, 1);
  write_file(directory.file("data"), bytes);
  SoftSession soft(machine_with("workstation"));
  Result<Session> second = Session::open(soft.host(), SoftSession::quiet());
  ASSERT_TRUE(second.ok());
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> running;
    for (Session* session : {&*soft, &*second}) {
      running.emplace_back([&, session] {
        for (int round = 0; round < 5; ++round) {
          Result<File> file = session->open_file(directory.file("data"));
          Result<Region> region = session->allocate(0, bytes.size());
          if (!file.ok() || !region.ok()) {
            ++wrong;
            return;
          }
          const Outcome outcome = session->transfer(file->place(), region->place());
          if (!outcome.ok() || soft.look_at(region->place()) != bytes) ++wrong;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace nobounce
