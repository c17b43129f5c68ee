// The requests of the storage provider: cuts, windows and what operations are told.
#include "provider/storage/request_queue.hpp"

#include <gtest/gtest.h>

#include <array>

namespace nobounce::provider::storage {
namespace {

constexpr std::uint64_t mib = 1u << 20;

std::shared_ptr<Job> job_of(core::OperationId id, std::uint64_t length, std::uint64_t offset = 0,
                            bool writing = false, std::uint64_t address = 0x10000) {
  auto job = std::make_shared<Job>();
  job->operation.id = id;
  job->operation.segment.length_bytes = length;
  job->writing = writing;
  job->range = FileRange{0, FileOffset{offset}, length};
  job->memory = GpuMemory{0, DevicePointer{address}, length};
  job->buffer = BufferView{0x10000, address - 0x10000, true, Cause::none};
  return job;
}

/// Counters that a test moves by hand.
class HandCounters : public Evidence {
 public:
  std::array<PathCounters, 2> counters;
  bool readable = true;
  std::optional<PathCounters> read_counters(bool writing) override {
    if (!readable) return std::nullopt;
    return counters[writing ? 1 : 0];
  }
};

RequestResult aligned(std::uint64_t bytes) {
  return {.bytes = {.aligned = bytes}, .calls = 1};
}

class RequestQueueTest : public ::testing::Test {
 protected:
  HandCounters evidence;
  RequestQueue queue{evidence};

  void add(std::shared_ptr<Job> job) { (void)queue.add(std::move(job)); }
  std::optional<Request> claim() { return queue.claim(0, 1).request; }
  std::vector<core::Completion> take() {
    std::vector<core::Completion> taken(8);
    taken.resize(queue.take(taken));
    return taken;
  }
};

TEST(RequestCut, WholePagesTogetherAndWhatSurroundsThemApart) {
  const auto job = job_of(1, 20000, 100, false, 0x10000 + 100);
  const Call head = next_call(*job, 0, 20000);
  EXPECT_EQ(head.length_bytes, 3996u);
  EXPECT_FALSE(head.aligned);
  const Call body = next_call(*job, 3996, 20000 - 3996);
  EXPECT_EQ(body.length_bytes, 12288u);
  EXPECT_TRUE(body.aligned);
  const Call tail = next_call(*job, 3996 + 12288, 20000 - 3996 - 12288);
  EXPECT_EQ(tail.length_bytes, 20000u - 3996u - 12288u);
  EXPECT_FALSE(tail.aligned);
}

TEST(RequestCut, IncongruentAndUnregisteredMemoryIsNeverAligned) {
  const auto shifted = job_of(1, 16384, 0, false, 0x10000 + 512);
  EXPECT_FALSE(next_call(*shifted, 0, 16384).aligned);
  EXPECT_EQ(next_call(*shifted, 0, 16384).length_bytes, 16384u);
  const auto unregistered = job_of(1, 16384);
  unregistered->buffer.registered = false;
  EXPECT_FALSE(next_call(*unregistered, 0, 16384).aligned);
  const auto odd_base = job_of(1, 16384);
  odd_base->buffer.base = 0x10000 - 512;
  EXPECT_FALSE(next_call(*odd_base, 0, 16384).aligned);
}

TEST_F(RequestQueueTest, RequestsAreAtMostSixteenMebibytesAndEndOnMultiples) {
  add(job_of(1, 40 * mib, 4 * mib));
  std::vector<std::uint64_t> lengths;
  while (const auto request = claim()) lengths.push_back(request->length_bytes);
  EXPECT_EQ(lengths, (std::vector<std::uint64_t>{12 * mib, 16 * mib, 12 * mib}));
}

TEST_F(RequestQueueTest, AnOperationOfZeroBytesCompletesAtOnce) {
  add(job_of(1, 0));
  const auto done = take();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_FALSE(done[0].error.has_value());
  EXPECT_EQ(done[0].bytes.total(), 0u);
}

TEST_F(RequestQueueTest, ADirectWindowIsCounted) {
  add(job_of(1, mib));
  const auto request = claim();
  evidence.counters[0].nvfs += 1;
  EXPECT_TRUE(queue.finish(*request, aligned(mib)).completed);
  const auto done = take();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].bytes[Carriage::direct], mib);
  EXPECT_EQ(done[0].known, Known::counted);
  EXPECT_EQ(done[0].cause, Cause::none);
}

TEST_F(RequestQueueTest, ReadsAndWritesHaveWindowsOfTheirOwn) {
  add(job_of(1, mib));
  add(job_of(2, mib, 0, true));
  const auto read = claim();
  const auto write = claim();
  evidence.counters[0].nvfs += 1;
  evidence.counters[1].posix += 1;
  (void)queue.finish(*read, aligned(mib));
  (void)queue.finish(*write, aligned(mib));
  const auto done = take();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].bytes[Carriage::direct], mib);
  EXPECT_EQ(done[1].bytes[Carriage::staged], mib);
  EXPECT_EQ(done[1].cause, Cause::storage_compat_used);
}

TEST_F(RequestQueueTest, AnEndedOperationNeedNotWaitWhileNothingIsStaged) {
  add(job_of(1, mib));
  add(job_of(2, mib));
  const auto first = claim();
  const auto second = claim();
  evidence.counters[0].nvfs += 1;
  (void)queue.finish(*first, aligned(mib));
  ASSERT_EQ(take().size(), 1u);
  evidence.counters[0].nvfs += 1;
  (void)queue.finish(*second, aligned(mib));
  const auto done = take();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].bytes[Carriage::direct], mib);
}

TEST_F(RequestQueueTest, DoubtHoldsNewRequestsUntilTheWindowIsClosed) {
  add(job_of(1, mib));
  add(job_of(2, 32 * mib));
  const auto first = claim();
  const auto second = claim();
  evidence.counters[0].posix += 1;  // somebody's was staged
  EXPECT_FALSE(queue.finish(*first, aligned(mib)).completed);
  EXPECT_TRUE(take().empty());
  EXPECT_FALSE(claim().has_value()) << "held";
  evidence.counters[0].nvfs += 1;
  const auto ready = queue.finish(*second, aligned(16 * mib));
  EXPECT_TRUE(ready.completed);
  EXPECT_NE(ready.wake, 0u) << "the worker that was refused is named";
  const auto done = take();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].bytes[Carriage::unattributed], mib);
  EXPECT_EQ(done[0].cause, Cause::evidence_cufile_statistics_mixed);
  EXPECT_EQ(done[0].known, Known::claimed);
}

TEST_F(RequestQueueTest, AfterAMixedWindowEveryRequestGetsOneOfItsOwn) {
  add(job_of(1, 64 * mib));
  const auto first = claim();
  const auto second = claim();
  evidence.counters[0] = {.nvfs = 1, .posix = 1};
  (void)queue.finish(*first, aligned(16 * mib));
  (void)queue.finish(*second, aligned(16 * mib));
  const auto third = claim();
  ASSERT_TRUE(third.has_value());
  EXPECT_FALSE(claim().has_value()) << "one at a time";
  evidence.counters[0].posix += 1;
  (void)queue.finish(*third, aligned(16 * mib));
  const auto fourth = claim();
  evidence.counters[0].nvfs += 1;
  (void)queue.finish(*fourth, aligned(16 * mib));
  const auto done = take();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].bytes[Carriage::unattributed], 32 * mib);
  EXPECT_EQ(done[0].bytes[Carriage::staged], 16 * mib);
  EXPECT_EQ(done[0].bytes[Carriage::direct], 16 * mib);
}

TEST_F(RequestQueueTest, WithoutStatisticsNothingIsClaimed) {
  evidence.readable = false;
  add(job_of(1, mib));
  (void)queue.finish(*claim(), aligned(mib));
  const auto done = take();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].bytes[Carriage::unattributed], mib);
  EXPECT_EQ(done[0].known, Known::claimed);
  EXPECT_EQ(done[0].cause, Cause::evidence_cufile_statistics_unavailable);
}

TEST_F(RequestQueueTest, TheFirstErrorStopsTheOperationAndCountsWhatArrived) {
  add(job_of(1, 64 * mib));
  const auto first = claim();
  const auto second = claim();
  RequestResult failed = aligned(5 * mib);
  failed.error = Error{.origin = ErrorOrigin::cufile, .code = 5030};
  evidence.counters[0].nvfs += 2;
  (void)queue.finish(*first, failed);
  EXPECT_FALSE(claim().has_value());
  failed = aligned(16 * mib);
  failed.error = Error{.origin = ErrorOrigin::os, .code = 5};
  (void)queue.finish(*second, failed);
  const auto done = take();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].bytes[Carriage::direct], 21 * mib);
  ASSERT_TRUE(done[0].error.has_value());
  EXPECT_EQ(done[0].error->code, 5030);
}

TEST_F(RequestQueueTest, CancelStopsBetweenRequests) {
  add(job_of(1, 64 * mib));
  const auto first = claim();
  (void)queue.cancel(1);
  EXPECT_TRUE(take().empty());
  evidence.counters[0].nvfs += 1;
  (void)queue.finish(*first, aligned(16 * mib));
  const auto done = take();
  ASSERT_EQ(done.size(), 1u);
  ASSERT_TRUE(done[0].error.has_value());
  EXPECT_EQ(done[0].error->cause, Cause::session_cancelled);
  EXPECT_EQ(done[0].bytes[Carriage::direct], 16 * mib);
}

TEST_F(RequestQueueTest, ADeadlineStopsAnOperationThatNobodyHasStarted) {
  auto job = job_of(1, mib);
  job->operation.deadline_ns = 100;
  add(job);
  EXPECT_FALSE(queue.expire(99).completed);
  EXPECT_TRUE(queue.expire(100).completed);
  const auto done = take();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].error->cause, Cause::session_deadline_passed);
}

TEST_F(RequestQueueTest, BouncedBytesNameTheirReason) {
  add(job_of(1, 100, 50));
  const auto request = claim();
  evidence.counters[0] = {.nvfs = 1, .unaligned = 1};
  (void)queue.finish(*request, {.bytes = {.bounced = 100}, .calls = 1, .bounced_calls = 1});
  auto unregistered = job_of(2, 4096);
  unregistered->buffer = {0x10000, 0, false, Cause::machine_bar1_too_small};
  add(unregistered);
  const auto second = claim();
  evidence.counters[0].nvfs += 1;
  (void)queue.finish(*second, {.bytes = {.bounced = 4096}, .calls = 1, .bounced_calls = 1});
  const auto done = take();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].bytes[Carriage::device_bounced], 100u);
  EXPECT_EQ(done[0].cause, Cause::storage_unaligned);
  EXPECT_EQ(done[1].bytes[Carriage::device_bounced], 4096u);
  EXPECT_EQ(done[1].cause, Cause::machine_bar1_too_small);
}

TEST_F(RequestQueueTest, ParkedWorkersAreNamedWhenWorkComes) {
  EXPECT_FALSE(queue.claim(3, 1).request.has_value());
  EXPECT_EQ(queue.add(job_of(1, mib)).wake, std::uint64_t{1} << 3);
  EXPECT_EQ(queue.add(job_of(2, mib)).wake, 0u);
}

}  // namespace
}  // namespace nobounce::provider::storage
