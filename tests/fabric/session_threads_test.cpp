// A session used from many threads, with cancellation and deadlines; run under
// TSan too.
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

TEST(SessionThreads, SessionsOpenWorkAndCloseWhileOthersRun) {
  const TemporaryDirectory directory;
  const std::vector<std::byte> bytes = random_bytes(200001, 1);
  write_file(directory.file("data"), bytes);
  SoftSession soft(machine_with("workstation"));
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> running;
    for (int i = 0; i < 3; ++i) {
      running.emplace_back([&, i] {
        for (int round = 0; round < 4; ++round) {
          Result<Session> session = Session::open(soft.host(), SoftSession::quiet());
          if (!session.ok()) {
            ++wrong;
            return;
          }
          Result<File> file = session->open_file(directory.file("data"));
          Result<Region> region =
              session->allocate(static_cast<std::uint32_t>(i % 2), bytes.size());
          if (!file.ok() || !region.ok()) {
            ++wrong;
            return;
          }
          const Policy policy = round % 2 == 0 ? Policy::direct_preferred : Policy::staged_only;
          const Outcome outcome =
              session->transfer(file->place(), region->place(), {.policy = policy});
          if (!outcome.ok() || soft.look_at(region->place()) != bytes) ++wrong;
          // Half of them close with a transfer under way: dropping it cancels
          // and waits.
          if (round % 2 == 1) (void)session->start(file->place(), region->place());
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(SessionThreads, PeersAreCopiedMappedAndAdoptedFromAllThreads) {
  SoftSession soft(machine_with("dgx"));
  const std::vector<std::byte> bytes = random_bytes(300001, 1);
  Result<Region> source = soft->allocate(0, bytes.size());
  ASSERT_TRUE(source.ok());
  soft.plant(source->place(), bytes);
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> running;
    for (std::uint32_t gpu = 1; gpu <= 4; ++gpu) {
      running.emplace_back([&, gpu] {
        for (int round = 0; round < 4; ++round) {
          // Two threads to a GPU, so that access is opened and the pair is
          // probed at once by both.
          Result<Region> target = soft->allocate(1 + gpu % 2, bytes.size());
          if (!target.ok()) {
            ++wrong;
            return;
          }
          const GpuMemory whole = std::get<GpuMemory>(target->place());
          Result<Region> part = soft->adopt(whole.address.plus(512), 1000);
          const Result<DevicePointer> mapped = soft->map_peer(*target, 0);
          const Outcome outcome =
              soft->transfer(source->place(), target->place(), {.policy = Policy::direct_required});
          if (!part.ok() || !mapped.ok() || !outcome.ok() || outcome.receipt.link != Link::nvlink ||
              soft.look_at(target->place()) != bytes) {
            ++wrong;
          }
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(SessionThreads, OneTransferIsWaitedForPolledAndCancelledByMany) {
  const TemporaryDirectory directory;
  write_file(directory.file("data"), random_bytes(3000001, 1));
  SoftSession soft(machine_with("workstation"));
  Result<File> file = soft->open_file(directory.file("data"));
  Result<Region> region = soft->allocate(0, 3000001);
  ASSERT_TRUE(file.ok() && region.ok());
  for (int round = 0; round < 6; ++round) {
    soft.begin_account();
    Result<Transfer> transfer =
        soft->start(file->place(), region->place(),
                    {.policy = round % 2 == 0 ? Policy::staged_only : Policy::direct_required});
    ASSERT_TRUE(transfer.ok());
    std::atomic<int> wrong{0};
    {
      std::vector<std::jthread> running;
      running.emplace_back([&] { wrong += transfer->wait().has_value() ? 0 : 1; });
      running.emplace_back([&] {
        while (!transfer->poll().has_value()) {
          wrong += transfer->progress_bytes() <= 3000001 ? 0 : 1;
        }
      });
      if (round > 1) running.emplace_back([&] { transfer->cancel(); });
      if (round > 3) running.emplace_back([&] { transfer->cancel(); });
    }
    EXPECT_EQ(wrong, 0);
    const std::optional<Outcome> outcome = transfer->wait();
    ASSERT_TRUE(outcome.has_value());
    EXPECT_TRUE(test::claims_no_more(outcome->receipt, soft.arrived(region->place())));
    EXPECT_TRUE(round > 1 || outcome->ok());
  }
}

}  // namespace
}  // namespace nobounce
