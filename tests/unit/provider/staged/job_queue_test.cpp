// The staged provider's queue: cuts, counts, errors, deadlines, parked readers.
#include "provider/staged/job_queue.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace nobounce::provider::staged {
namespace {

constexpr std::uint64_t slot = 16384;

std::shared_ptr<Job> job_of(core::OperationId id, std::uint64_t length, std::uint64_t offset = 0) {
  auto job = std::make_shared<Job>();
  job->operation.id = id;
  job->operation.segment.length_bytes = length;
  job->operation.segment.source = FileRange{0, FileOffset{offset}, length};
  job->operation.segment.target = GpuMemory{0, DevicePointer{1u << 20}, length};
  return job;
}

class JobQueueTest : public ::testing::Test {
 protected:
  JobQueue queue{slot};
  void add(std::shared_ptr<Job> job) { (void)queue.add(std::move(job)); }
  std::optional<Piece> claim() { return queue.claim(0, false, 1).piece; }
  bool finish(const Piece& piece) { return queue.finish(piece, piece.length_bytes, std::nullopt); }
  std::vector<core::Completion> take() {
    std::vector<core::Completion> taken(8);
    taken.resize(queue.take(taken));
    return taken;
  }
};

TEST(StagedCut, PiecesEndOnMultiplesOfTheSlotInTheFileAndFitWithTheirSkew) {
  for (const std::uint64_t offset : {0ull, 1ull, 100ull, 4096ull, 16383ull, 16384ull, 20000ull}) {
    for (const std::uint64_t length : {1ull, 4095ull, 16383ull, 16384ull, 16385ull, 100000ull}) {
      const auto job = job_of(1, length, offset);
      std::uint64_t at = 0;
      std::uint64_t pieces = 0;
      while (at < length) {
        const std::uint64_t cut = piece_length(*job, at, slot);
        ASSERT_GT(cut, 0u);
        ASSERT_LE(skew_bytes(*job, at) + cut, slot) << offset << " " << length << " " << at;
        ASSERT_EQ(skew_bytes(*job, at), (offset + at) % page_bytes);
        at += cut;
        ++pieces;
        if (at < length) {
          ASSERT_EQ((offset + at) % slot, 0u);
        }
      }
      ASSERT_EQ(at, length);
      ASSERT_EQ(pieces, piece_count(*job, slot));
    }
  }
}

TEST_F(JobQueueTest, AJobCompletesWhenItsLastPieceHasArrived) {
  add(job_of(7, 3 * slot));
  const auto a = claim();
  const auto b = claim();
  const auto c = claim();
  EXPECT_FALSE(claim().has_value());
  EXPECT_FALSE(finish(*b));
  EXPECT_FALSE(finish(*a));
  EXPECT_TRUE(finish(*c));
  const auto done = take();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].id, 7u);
  EXPECT_EQ(done[0].bytes[Carriage::staged], 3 * slot);
  EXPECT_EQ(done[0].bytes.total(), 3 * slot);
  EXPECT_EQ(done[0].pinned_bytes, 3 * slot);
  EXPECT_EQ(done[0].link, Link::host_bridge);
}

TEST_F(JobQueueTest, JobsTakeTurns) {
  add(job_of(1, 2 * slot));
  add(job_of(2, 2 * slot));
  std::vector<core::OperationId> order;
  while (const auto piece = claim()) order.push_back(piece->job->operation.id);
  EXPECT_EQ(order, (std::vector<core::OperationId>{1, 2, 1, 2}));
}

TEST_F(JobQueueTest, ZeroBytesCompleteWithoutAPiece) {
  add(job_of(1, 0));
  const auto done = take();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_FALSE(done[0].error.has_value());
  EXPECT_EQ(done[0].link, Link::none);
}

TEST_F(JobQueueTest, TheFirstErrorWinsPiecesInFlightFinishAndNoNewOneStarts) {
  add(job_of(1, 4 * slot));
  const auto a = claim();
  const auto b = claim();
  EXPECT_FALSE(queue.finish(*a, 100, os_error(5, "first")));
  EXPECT_FALSE(claim().has_value());
  EXPECT_TRUE(queue.finish(*b, slot, os_error(28, "second")));
  const auto done = take();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].error->code, 5);
  EXPECT_EQ(done[0].bytes[Carriage::staged], slot + 100);
}

TEST_F(JobQueueTest, CancelWaitsForPiecesInFlight) {
  add(job_of(1, 4 * slot));
  const auto a = claim();
  EXPECT_FALSE(queue.cancel(1));
  EXPECT_TRUE(finish(*a));
  const auto done = take();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].error->cause, Cause::session_cancelled);
  EXPECT_EQ(done[0].bytes[Carriage::staged], slot);
}

TEST_F(JobQueueTest, CancelTooLateChangesNothing) {
  add(job_of(1, slot));
  const auto a = claim();
  EXPECT_FALSE(queue.cancel(1));
  EXPECT_TRUE(finish(*a));
  EXPECT_FALSE(take()[0].error.has_value());
}

TEST_F(JobQueueTest, ALateJobGetsNoMorePieces) {
  auto job = job_of(1, 4 * slot);
  job->operation.deadline_ns = 100;
  add(job);
  const auto a = queue.claim(0, false, 99);
  ASSERT_TRUE(a.piece.has_value());
  EXPECT_FALSE(queue.claim(0, false, 100).piece.has_value());
  EXPECT_TRUE(finish(*a.piece));
  const auto done = take();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].error->cause, Cause::session_deadline_passed);
  EXPECT_EQ(done[0].bytes[Carriage::staged], slot);
}

TEST_F(JobQueueTest, ClaimTellsWhenALateJobEndedOnTheWay) {
  auto job = job_of(1, slot);
  job->operation.deadline_ns = 100;
  add(job);
  EXPECT_TRUE(queue.claim(0, false, 100).completed);
  EXPECT_EQ(take().size(), 1u);
}

TEST_F(JobQueueTest, OneParkedReaderIsNamedPerPiece) {
  for (unsigned reader = 0; reader < 4; ++reader) {
    EXPECT_FALSE(queue.claim(reader, true, 1).piece.has_value());
  }
  EXPECT_EQ(queue.add(job_of(1, 2 * slot)), 0b0011u);
  EXPECT_EQ(queue.add(job_of(2, 9 * slot)), 0b1100u);
  EXPECT_EQ(queue.add(job_of(3, slot)), 0u);
}

TEST_F(JobQueueTest, AReaderThatFindsWorkByItselfIsNoLongerParked) {
  add(job_of(1, 0));
  EXPECT_FALSE(queue.claim(1, true, 1).piece.has_value());
  add(job_of(2, 2 * slot));  // names it
  EXPECT_TRUE(queue.claim(5, true, 1).piece.has_value());
  EXPECT_TRUE(queue.claim(1, true, 1).piece.has_value());
  EXPECT_EQ(queue.add(job_of(2, slot)), 0u);
}

TEST_F(JobQueueTest, PollingTakesAsManyAsFit) {
  for (core::OperationId id = 1; id <= 3; ++id) queue.refuse(id, os_error(2, "open"));
  std::vector<core::Completion> two(2);
  EXPECT_EQ(queue.take(two), 2u);
  EXPECT_EQ(two[1].id, 2u);
  EXPECT_EQ(queue.take(two), 1u);
  EXPECT_EQ(two[0].id, 3u);
  EXPECT_EQ(queue.take(two), 0u);
}

}  // namespace
}  // namespace nobounce::provider::staged
