// Batches: each transfer has its own outcome, one deadline and one cancel hold for all, and the
// sum is the sum of the receipts.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "support/soft_session.hpp"

namespace nobounce {
namespace {

using test::machine_with;
using test::random_bytes;
using test::SoftSession;
using test::TemporaryDirectory;
using test::write_file;

/// Files and as many regions of the same lengths, and the requests that load one into the other.
struct Shards {
  Shards(SoftSession& soft, const TemporaryDirectory& directory,
         const std::vector<std::size_t>& lengths_bytes) {
    for (std::size_t i = 0; i < lengths_bytes.size(); ++i) {
      contents.push_back(random_bytes(lengths_bytes[i], i + 1));
      const std::string path = directory.file("shard" + std::to_string(i));
      write_file(path, contents.back());
      Result<File> file = soft->open_file(path);
      Result<Region> region = soft->allocate(static_cast<std::uint32_t>(i % 2),
                                             std::max<std::size_t>(1, lengths_bytes[i]));
      if (!file.ok() || !region.ok()) throw std::runtime_error("no shard");
      files.push_back(std::move(*file));
      regions.push_back(std::move(*region));
      requests.push_back({files[i].place(), regions[i].place(0, lengths_bytes[i])});
    }
  }
  std::vector<std::vector<std::byte>> contents;
  std::vector<File> files;
  std::vector<Region> regions;
  std::vector<TransferRequest> requests;
};

const Outcome& outcome_of(const Batch& batch, std::size_t index) {
  const Outcome* outcome = batch.outcome(index);
  if (outcome == nullptr) throw std::runtime_error("transfer has not ended");
  return *outcome;
}

fabric::SoftOptions one_thread() {
  return {.deterministic = true};
}

TEST(Batch, EachTransferArrivesWithItsReceiptAndTheSumIsTheirSum) {
  const TemporaryDirectory directory;
  SoftSession soft(machine_with("workstation"), one_thread());
  Shards shards(soft, directory, {400001, 0, 4097, 8192, 1});
  shards.requests[3].policy = Policy::staged_only;
  soft.begin_account();
  Result<Batch> batch = soft->start_batch(shards.requests, {.at_once = 2});
  ASSERT_TRUE(batch.ok()) << to_string(batch.error());
  ASSERT_EQ(batch->size(), 5u);
  ASSERT_TRUE(batch->wait());
  CarriageBytes sum;
  for (std::size_t i = 0; i < batch->size(); ++i) {
    const Outcome& outcome = outcome_of(*batch, i);
    ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
    EXPECT_EQ(outcome.receipt.bytes.total(), shards.contents[i].size());
    EXPECT_TRUE(test::equals_ledger(outcome.receipt, soft.arrived(shards.requests[i].target)));
    EXPECT_EQ(soft.look_at(shards.requests[i].target), shards.contents[i]);
    sum += outcome.receipt.bytes;
  }
  const BatchReceipt receipt = batch->receipt();
  EXPECT_EQ(receipt.transfers_done, 5u);
  EXPECT_EQ(receipt.transfers(), 5u);
  EXPECT_EQ(receipt.bytes, sum);
  EXPECT_EQ(receipt.bytes[Carriage::staged], 8192u);
  EXPECT_EQ(receipt.requested_bytes, 400001u + 4097 + 8192 + 1);
  EXPECT_EQ(batch->progress_bytes(), receipt.bytes.total());
  EXPECT_TRUE(receipt.software_machine);
  EXPECT_EQ(soft->ledger().transfers_done, 5u);
  EXPECT_EQ(soft->ledger().transfers_running, 0u);
}

TEST(Batch, WhatIsWrongWithOneRequestStopsNoOther) {
  const TemporaryDirectory directory;
  SoftSession soft(machine_with("workstation", {"/modules/nvidia_fs=false"}), one_thread());
  Shards shards(soft, directory, {100001, 100001, 100001, 100001});
  shards.requests[0].target = shards.regions[0].place(0, 5);  // lengths differ
  shards.requests[2].policy = Policy::direct_required;        // refused: the module is missing
  Result<Batch> batch = soft->start_batch(shards.requests);
  ASSERT_TRUE(batch.ok());
  ASSERT_TRUE(batch->wait());
  EXPECT_EQ(outcome_of(*batch, 0).receipt.state, TransferState::failed);
  EXPECT_EQ(outcome_of(*batch, 0).error->origin, ErrorOrigin::input);
  EXPECT_EQ(outcome_of(*batch, 2).receipt.state, TransferState::refused);
  EXPECT_EQ(outcome_of(*batch, 2).error->cause, Cause::storage_nvidia_fs_absent);
  for (const std::size_t good : {1u, 3u}) {
    EXPECT_TRUE(outcome_of(*batch, good).ok());
    EXPECT_EQ(soft.look_at(shards.regions[good].place()), shards.contents[good]);
  }
  const BatchReceipt receipt = batch->receipt();
  EXPECT_EQ(receipt.transfers_failed, 1u);
  EXPECT_EQ(receipt.transfers_refused, 1u);
  EXPECT_EQ(receipt.transfers_done, 2u);
  EXPECT_EQ(receipt.bytes.total(), 200002u);
  EXPECT_EQ(receipt.requested_bytes, 400004u);
  const auto causes_end = receipt.causes.begin() + receipt.cause_count;
  EXPECT_EQ(std::count(receipt.causes.begin(), causes_end, Cause::storage_nvidia_fs_absent), 1);
}

TEST(Batch, WithoutRequestsHasEnded) {
  SoftSession soft(machine_with("workstation"), one_thread());
  Result<Batch> batch = soft->start_batch({});
  ASSERT_TRUE(batch.ok());
  EXPECT_TRUE(batch->poll());
  EXPECT_TRUE(batch->wait());
  batch->cancel();
  EXPECT_EQ(batch->receipt().transfers(), 0u);
  EXPECT_EQ(batch->receipt().elapsed_ns, 0u);
}

TEST(Batch, RunsNoMoreTransfersAtOnceThanTold) {
  const TemporaryDirectory directory;
  SoftSession soft(machine_with("workstation"), one_thread());
  Shards shards(soft, directory, std::vector<std::size_t>(6, 50001));
  Result<Batch> batch = soft->start_batch(shards.requests, {.at_once = 1});
  ASSERT_TRUE(batch.ok());
  ASSERT_TRUE(batch->wait());
  for (std::size_t i = 1; i < batch->size(); ++i) {
    const Receipt& before = outcome_of(*batch, i - 1).receipt;
    EXPECT_GE(outcome_of(*batch, i).receipt.started_ns, before.started_ns + before.elapsed_ns);
  }
}

TEST(Batch, CancelEndsWhatRunsAndWhatWaits) {
  const TemporaryDirectory directory;
  SoftSession soft(machine_with("workstation"), one_thread());
  Shards shards(soft, directory, std::vector<std::size_t>(4, 3000001));
  for (TransferRequest& request : shards.requests) request.policy = Policy::staged_only;
  soft.begin_account();
  Result<Batch> batch = soft->start_batch(shards.requests, {.at_once = 1});
  ASSERT_TRUE(batch.ok());
  EXPECT_EQ(batch->receipt().transfers_open, 4u);
  batch->cancel();
  for (const std::size_t waiting : {1u, 2u, 3u}) {  // at once, without another poll
    const Outcome& outcome = outcome_of(*batch, waiting);
    EXPECT_EQ(outcome.receipt.state, TransferState::cancelled);
    EXPECT_EQ(outcome.receipt.bytes.total(), 0u);
    EXPECT_EQ(outcome.error->cause, Cause::session_cancelled);
  }
  ASSERT_TRUE(batch->wait());
  EXPECT_EQ(outcome_of(*batch, 0).receipt.state, TransferState::cancelled);
  EXPECT_TRUE(
      test::claims_no_more(outcome_of(*batch, 0).receipt, soft.arrived(shards.regions[0].place())));
  EXPECT_EQ(batch->receipt().transfers_cancelled, 4u);
}

TEST(Batch, OneDeadlineHoldsForAll) {
  const TemporaryDirectory directory;
  const auto run = [&](std::uint64_t deadline_ns) {
    SoftSession soft(machine_with("workstation"), one_thread());
    Shards shards(soft, directory, std::vector<std::size_t>(6, 1000001));
    for (TransferRequest& request : shards.requests) request.policy = Policy::staged_only;
    Result<Batch> batch =
        soft->start_batch(shards.requests, {.deadline_ns = deadline_ns, .at_once = 1});
    EXPECT_TRUE(batch->wait());
    const BatchReceipt receipt = batch->receipt();
    if (receipt.transfers_cancelled > 0) {
      EXPECT_EQ(outcome_of(*batch, 5).error->cause, Cause::session_deadline_passed);
    }
    return receipt;
  };
  const BatchReceipt whole = run(0);
  EXPECT_EQ(whole.transfers_done, 6u);
  const BatchReceipt half = run(whole.elapsed_ns / 2);
  EXPECT_GT(half.transfers_done, 0u);
  EXPECT_GT(half.transfers_cancelled, 0u);
  EXPECT_EQ(half.transfers_done + half.transfers_cancelled, 6u);
  const BatchReceipt none = run(1);
  EXPECT_EQ(none.transfers_cancelled, 6u);
  EXPECT_EQ(none.bytes.total(), 0u);
}

TEST(Batch, WaitingForAWhileSaysThatSomeAreOpen) {
  const TemporaryDirectory directory;
  SoftSession soft(machine_with("workstation"), one_thread());
  Shards shards(soft, directory, std::vector<std::size_t>(3, 3000001));
  Result<Batch> batch = soft->start_batch(shards.requests, {.at_once = 1});
  ASSERT_TRUE(batch.ok());
  EXPECT_FALSE(batch->wait(1));
  EXPECT_EQ(batch->outcome(2), nullptr);
  EXPECT_GT(batch->receipt().transfers_open, 0u);
  EXPECT_TRUE(batch->wait());
  EXPECT_EQ(batch->receipt().transfers_done, 3u);
}

TEST(Batch, TargetsThatOverlapEndAsAnyOfTheirSourcesAndAllAreCounted) {
  const TemporaryDirectory directory;
  SoftSession soft(machine_with("workstation"), one_thread());
  Shards shards(soft, directory, {1u << 20, 1u << 20});
  shards.requests[1].target = shards.requests[0].target;
  Result<Batch> batch = soft->start_batch(shards.requests);
  ASSERT_TRUE(batch.ok());
  ASSERT_TRUE(batch->wait());
  EXPECT_EQ(batch->receipt().bytes.total(), 2u << 20);
  const std::vector<std::byte> landed = soft.look_at(shards.regions[0].place());
  for (std::size_t at = 0; at < landed.size(); ++at) {
    ASSERT_TRUE(landed[at] == shards.contents[0][at] || landed[at] == shards.contents[1][at]);
  }
}

TEST(Batch, DroppedWhileItRunsIsCancelledAndLeavesNothingInUse) {
  const TemporaryDirectory directory;
  SoftSession soft(machine_with("workstation"), one_thread());
  {
    Shards shards(soft, directory, std::vector<std::size_t>(3, 3000001));
    for (TransferRequest& request : shards.requests) request.policy = Policy::staged_only;
    const Result<Batch> batch = soft->start_batch(shards.requests, {.at_once = 1});
    ASSERT_TRUE(batch.ok());
  }  // the batch first, then its regions and files
  EXPECT_EQ(soft->ledger().transfers_running, 0u);
  EXPECT_EQ(soft->ledger().transfers_cancelled, 3u);
}

void free_a_region_of_a_transfer_that_waits() {
  SoftSession soft(machine_with("workstation"), one_thread());
  Result<Region> source = soft->allocate(0, 64u << 20);
  std::optional<Region> target(*soft->allocate(1, 64u << 20));
  constexpr std::uint64_t part = 1u << 20;
  const std::vector<TransferRequest> requests = {
      {source->place(0, part), source->place(part, part)}, {source->place(), target->place()}};
  Result<Batch> batch = soft->start_batch(requests, {.at_once = 1});
  target.reset();
}

TEST(Batch, MemoryOfATransferThatStillWaitsIsInUse) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(free_a_region_of_a_transfer_that_waits(),
               "Region was destroyed while a transfer used it");
}

TEST(Batch, InAForkedChildAnswersThatNothingHasEnded) {
  const TemporaryDirectory directory;
  SoftSession soft(machine_with("workstation"), one_thread());
  Shards shards(soft, directory, std::vector<std::size_t>(3, 3000001));
  std::optional<Batch> batch(*soft->start_batch(shards.requests, {.at_once = 1}));
  const std::uint32_t still_open = batch->receipt().transfers_open;
  ASSERT_GT(still_open, 0u);
  const pid_t child = ::fork();
  if (child == 0) {
    const Result<Batch> another = soft->start_batch(shards.requests);
    const bool refused = !another.ok() && another.error().cause == Cause::session_forked;
    batch->cancel();
    const bool open =
        !batch->poll() && !batch->wait() && batch->receipt().transfers_open == still_open;
    batch.reset();
    ::_exit((refused ? 0 : 1) + (open ? 0 : 2));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(batch->wait());
  EXPECT_EQ(batch->receipt().transfers_done, 3u);
}

TEST(AsynchronousTransfer, GetsThereByPollingAlone) {
  const TemporaryDirectory directory;
  SoftSession soft(machine_with("workstation"), one_thread());
  Shards shards(soft, directory, std::vector<std::size_t>(5, 300001));
  Result<Transfer> transfer = soft->start(shards.requests[0].source, shards.requests[0].target);
  ASSERT_TRUE(transfer.ok());
  constexpr int polls_max = 1000000;
  int polls = 0;
  while (!transfer->poll().has_value() && polls < polls_max) ++polls;
  EXPECT_TRUE(transfer->poll().has_value() && transfer->poll()->ok());
  Result<Batch> batch = soft->start_batch(shards.requests, {.at_once = 2});
  ASSERT_TRUE(batch.ok());
  for (polls = 0; !batch->poll() && polls < polls_max;) ++polls;
  EXPECT_EQ(batch->receipt().transfers_done, 5u);
}

TEST(AsynchronousTransfer, ADeadlineBeyondTheEndOfTimeIsNone) {
  const TemporaryDirectory directory;
  SoftSession soft(machine_with("workstation"), one_thread());
  Shards shards(soft, directory, {300001});
  constexpr std::uint64_t for_ever_ns = std::numeric_limits<std::uint64_t>::max();
  const TransferRequest& request = shards.requests[0];
  Result<Transfer> transfer =
      soft->start(request.source, request.target, {.deadline_ns = for_ever_ns});
  ASSERT_TRUE(transfer.ok());
  const std::optional<Outcome> outcome = transfer->wait(for_ever_ns);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_TRUE(outcome->ok());
  Result<Batch> batch = soft->start_batch(shards.requests, {.deadline_ns = for_ever_ns});
  ASSERT_TRUE(batch.ok());
  EXPECT_TRUE(batch->wait(for_ever_ns));
  EXPECT_EQ(batch->receipt().transfers_done, 1u);
}

TEST(AsynchronousTransfer, CancelledAfterItsEndStaysDone) {
  const TemporaryDirectory directory;
  SoftSession soft(machine_with("workstation"), one_thread());
  Shards shards(soft, directory, {300001});
  Result<Transfer> transfer = soft->start(shards.requests[0].source, shards.requests[0].target);
  ASSERT_TRUE(transfer.ok());
  ASSERT_TRUE(transfer->wait().has_value());
  transfer->cancel();
  EXPECT_EQ(transfer->wait()->receipt.state, TransferState::done);
  EXPECT_EQ(transfer->progress_bytes(), 300001u);
}

}  // namespace
}  // namespace nobounce
