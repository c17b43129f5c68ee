// One batch used from many threads, and many batches at once; run under TSan too.
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

constexpr std::uint64_t shard_bytes = 200001;

std::vector<TransferRequest> requests_for(const File& file, const Region& region) {
  std::vector<TransferRequest> requests;
  for (std::uint64_t at = 0; at + shard_bytes <= region.length_bytes(); at += shard_bytes) {
    requests.push_back({file.place(), region.place(at, shard_bytes),
                        requests.size() % 2 == 0 ? Policy::direct_required : Policy::staged_only});
  }
  return requests;
}

TEST(BatchThreads, ThreadsThatWaitPollAndLookAtOneBatchAgree) {
  const TemporaryDirectory directory;
  write_file(directory.file("data"), random_bytes(shard_bytes, 1));
  SoftSession soft(machine_with("workstation"));
  Result<File> file = soft->open_file(directory.file("data"));
  Result<Region> region = soft->allocate(0, 12 * shard_bytes);
  ASSERT_TRUE(file.ok() && region.ok());
  for (const bool cancelled : {false, true}) {
    Result<Batch> batch = soft->start_batch(requests_for(*file, *region), {.at_once = 3});
    ASSERT_TRUE(batch.ok());
    std::atomic<int> wrong{0};
    {
      std::vector<std::jthread> running;
      running.emplace_back([&] { wrong += batch->wait() ? 0 : 1; });
      running.emplace_back([&] {
        while (!batch->poll()) wrong += batch->progress_bytes() <= 12 * shard_bytes ? 0 : 1;
      });
      running.emplace_back([&] {
        if (cancelled) batch->cancel();
        while (batch->receipt().transfers_open > 0) (void)batch->outcome(11);
      });
    }
    EXPECT_EQ(wrong, 0);
    const BatchReceipt receipt = batch->receipt();
    EXPECT_EQ(receipt.transfers(), 12u);
    EXPECT_EQ(receipt.transfers_done + receipt.transfers_cancelled, 12u);
    EXPECT_TRUE(cancelled || receipt.transfers_done == 12);
  }
}

TEST(BatchThreads, BatchesOfSeveralThreadsDoNotDisturbOneAnother) {
  const TemporaryDirectory directory;
  const std::vector<std::byte> bytes = random_bytes(shard_bytes, 1);
  write_file(directory.file("data"), bytes);
  SoftSession soft(machine_with("workstation"));
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> running;
    for (std::uint32_t thread = 0; thread < 3; ++thread) {
      running.emplace_back([&, thread] {
        Result<File> file = soft->open_file(directory.file("data"));
        Result<Region> region = soft->allocate(thread % 2, 6 * shard_bytes);
        if (!file.ok() || !region.ok()) {
          ++wrong;
          return;
        }
        Result<Batch> batch = soft->start_batch(requests_for(*file, *region), {.at_once = 2});
        if (!batch.ok() || !batch->wait() || batch->receipt().transfers_done != 6) ++wrong;
        for (std::uint64_t i = 0; i < 6; ++i) {
          if (soft.look_at(region->place(i * shard_bytes, shard_bytes)) != bytes) ++wrong;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(BatchThreads, OneTransferMayBeWaitedForBySeveralThreads) {
  const TemporaryDirectory directory;
  write_file(directory.file("data"), random_bytes(shard_bytes, 1));
  SoftSession soft(machine_with("workstation"));
  Result<File> file = soft->open_file(directory.file("data"));
  Result<Region> region = soft->allocate(0, shard_bytes);
  ASSERT_TRUE(file.ok() && region.ok());
  Result<Transfer> transfer = soft->start(file->place(), region->place());
  ASSERT_TRUE(transfer.ok());
  std::atomic<int> done{0};
  {
    std::vector<std::jthread> running;
    for (int thread = 0; thread < 3; ++thread) {
      running.emplace_back([&] {
        const std::optional<Outcome> outcome = transfer->wait();
        if (outcome.has_value() && outcome->receipt.bytes.total() == shard_bytes) ++done;
      });
    }
  }
  EXPECT_EQ(done, 3);
}

}  // namespace
}  // namespace nobounce
