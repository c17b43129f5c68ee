// commit() gives a file its name only where all that was to be written to it is there.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "session/file_writes.hpp"
#include "support/soft_session.hpp"

namespace nobounce {
namespace {

using session::FileSpan;
using session::FileWrites;
using test::machine_with;
using test::random_bytes;
using test::read_file;
using test::SoftSession;
using test::TemporaryDirectory;
using test::write_file;

/// What must hold of a file of a few bytes, kept byte by byte.
TEST(FileWrites, KnowEachByteThatIsWhole) {
  constexpr std::uint64_t length = 40;
  std::minstd_rand draw(7);
  for (int round = 0; round < 300; ++round) {
    FileWrites writes;
    std::vector<char> bytes(length, '.');
    for (int step = 0; step < 25; ++step) {
      const std::uint64_t begin = draw() % length;
      const std::uint64_t end = begin + draw() % (length + 1 - begin);
      const bool whole = draw() % 3 != 0;
      writes.note({begin, end}, whole ? TransferState::done : TransferState::cancelled,
                  whole ? Cause::none : Cause::session_cancelled);
      std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                bytes.begin() + static_cast<std::ptrdiff_t>(end), whole ? 'w' : 'x');
      const auto position = [&](auto at) { return static_cast<std::uint64_t>(at - bytes.begin()); };
      const auto torn = std::find(bytes.begin(), bytes.end(), 'x');
      const auto unfinished = writes.unfinished();
      ASSERT_EQ(unfinished.has_value(), torn != bytes.end());
      if (unfinished.has_value()) {
        EXPECT_EQ(unfinished->span.begin, position(torn));
        EXPECT_EQ(unfinished->cause, Cause::session_cancelled);
      }
      const auto missing =
          std::find_if(bytes.begin(), bytes.end(), [](char byte) { return byte != 'w'; });
      const auto after = std::find(missing, bytes.end(), 'w');
      const auto gap = writes.gap(length);
      ASSERT_EQ(gap.has_value(), missing != bytes.end()) << std::string(bytes.begin(), bytes.end());
      if (gap.has_value()) {
        EXPECT_EQ(*gap, (FileSpan{position(missing), position(after)}));
      }
    }
  }
}

class Commit : public ::testing::Test {
 protected:
  static constexpr std::uint64_t length = 3u << 20;

  [[nodiscard]] Result<File> open(FileMode mode = FileMode::replace,
                                  FileGaps gaps = FileGaps::refused) {
    return soft_->open_file(path_, {.mode = mode, .length_bytes = length, .gaps = gaps});
  }
  [[nodiscard]] Region filled() {
    Result<Region> region = soft_->allocate(0, length);
    EXPECT_TRUE(region.ok());
    soft_.plant(region->place(), bytes_);
    return std::move(*region);
  }
  /// Ends as cancelled, with pieces of it under way.
  Outcome cancelled(const Place& source, const Place& target) {
    Result<Transfer> transfer = soft_->start(source, target);
    EXPECT_TRUE(transfer.ok());
    transfer->cancel();
    return *transfer->wait();
  }
  void expect_refused(File& file, std::string_view detail, Cause cause = Cause::none) {
    const Status committed = file.commit(true);
    ASSERT_FALSE(committed.ok());
    const Error& error = committed.error();
    EXPECT_EQ(error.origin, ErrorOrigin::session);
    EXPECT_EQ(error.cause, cause);
    EXPECT_NE(error.detail.find(detail), std::string::npos) << error.detail;
    EXPECT_EQ(error.attempted, "commit " + path_);
    EXPECT_FALSE(error.remedy.empty());
    EXPECT_EQ(read_file(path_), old_);
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_.file("target");
  const std::vector<std::byte> old_ = random_bytes(999, 2);
  const std::vector<std::byte> bytes_ = random_bytes(length, 1);
  SoftSession soft_{machine_with("workstation"), {.deterministic = true}};

  void SetUp() override { write_file(path_, old_); }
};

TEST_F(Commit, OfWhatWasNeverWrittenIsRefused) {
  {
    Result<File> file = open();
    ASSERT_TRUE(file.ok());
    expect_refused(*file, "no transfer has written 3145728 bytes at offset 0");
  }
  EXPECT_EQ(read_file(path_), old_);
  EXPECT_EQ(directory_.names(), std::vector<std::string>{"target"});
}

TEST_F(Commit, AfterATransferThatPassedItsDeadlineIsRefused) {
  const Region region = filled();
  Result<File> file = open();
  ASSERT_TRUE(file.ok());
  const Outcome late = soft_->transfer(region.place(), file->place(), {.deadline_ns = 1});
  ASSERT_EQ(late.receipt.state, TransferState::cancelled);
  const Status committed = file->commit(true);
  ASSERT_FALSE(committed.ok());
  EXPECT_EQ(read_file(path_), old_);
}

TEST_F(Commit, AfterACancelledTransferIsRefusedUntilItsBytesAreWritten) {
  const Region region = filled();
  for (const FileGaps gaps : {FileGaps::refused, FileGaps::kept}) {
    write_file(path_, old_);
    Result<File> file = open(FileMode::replace, gaps);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(soft_->transfer(region.place(), file->place()).ok());
    ASSERT_EQ(cancelled(region.place(0, 2u << 20), file->place(0, 2u << 20)).receipt.state,
              TransferState::cancelled);
    expect_refused(*file, "a transfer of 2097152 bytes at offset 0 ended cancelled",
                   Cause::session_cancelled);
    ASSERT_TRUE(soft_->transfer(region.place(0, 1u << 20), file->place(0, 1u << 20)).ok());
    expect_refused(*file, "1048576 bytes at offset 1048576 ended", Cause::session_cancelled);
    ASSERT_TRUE(
        soft_->transfer(region.place(1u << 20, 1u << 20), file->place(1u << 20, 1u << 20)).ok());
    const Status committed = file->commit(true);
    ASSERT_TRUE(committed.ok()) << to_string(committed.error());
    EXPECT_EQ(read_file(path_), bytes_);
  }
}

TEST_F(Commit, WhileATransferToItRunsIsRefused) {
  const Region region = filled();
  Result<File> file = open();
  ASSERT_TRUE(file.ok());
  Result<Transfer> transfer = soft_->start(region.place(), file->place());
  ASSERT_TRUE(transfer.ok());
  expect_refused(*file, "a transfer to it has not ended");
  ASSERT_TRUE(transfer->wait()->ok());
  EXPECT_TRUE(file->commit(true).ok());
  EXPECT_EQ(read_file(path_), bytes_);
}

TEST_F(Commit, WhileOneOfABatchWaitsForItsTurnIsRefused) {
  const Region region = filled();
  Result<File> file = open();
  ASSERT_TRUE(file.ok());
  std::vector<TransferRequest> requests;
  for (std::uint64_t at = 0; at < length; at += 1u << 20)
    requests.push_back({region.place(at, 1u << 20), file->place(at, 1u << 20)});
  Result<Batch> batch = soft_->start_batch(requests, {.at_once = 1});
  ASSERT_TRUE(batch.ok());
  expect_refused(*file, "a transfer to it has not ended");
  ASSERT_TRUE(batch->wait());
  EXPECT_TRUE(file->commit(false).ok());
  EXPECT_EQ(read_file(path_), bytes_);
}

TEST_F(Commit, OfAFileWithGapsIsRefusedUnlessTheyAreToBeKept) {
  const Region region = filled();
  {
    Result<File> file = open();
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(soft_->transfer(region.place(0, 1000), file->place(0, 1000)).ok());
    ASSERT_TRUE(soft_->transfer(region.place(5000, 100), file->place(5000, 100)).ok());
    expect_refused(*file, "no transfer has written 4000 bytes at offset 1000");
  }
  Result<File> file = open(FileMode::replace, FileGaps::kept);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(soft_->transfer(region.place(5000, 100), file->place(5000, 100)).ok());
  ASSERT_TRUE(file->commit(true).ok());
  std::vector<std::byte> expected(length);
  std::copy_n(bytes_.begin() + 5000, 100, expected.begin() + 5000);
  EXPECT_EQ(read_file(path_), expected);
}

/// What was refused has written nothing.
TEST_F(Commit, AfterARefusedTransferNeedsWhatWasToBeWrittenAndNoMore) {
  SoftSession soft(machine_with("workstation", {"/modules/nvidia_fs=false"}));
  Result<Region> region = soft->allocate(0, length);
  ASSERT_TRUE(region.ok());
  soft.plant(region->place(), bytes_);
  Result<File> file = soft->open_file(path_, {.mode = FileMode::replace, .length_bytes = length});
  ASSERT_TRUE(file.ok());
  const TransferOptions direct{.policy = Policy::direct_required};
  ASSERT_FALSE(soft->transfer(region->place(), file->place(), direct).ok());
  expect_refused(*file, "no transfer has written 3145728 bytes at offset 0");
  ASSERT_TRUE(soft->transfer(region->place(), file->place()).ok());
  ASSERT_FALSE(soft->transfer(region->place(), file->place(), direct).ok());
  ASSERT_TRUE(file->commit(true).ok());
  EXPECT_EQ(read_file(path_), bytes_);
}

TEST_F(Commit, OfWhatIsWrittenInPlaceAsksForNoMoreThanWasBegun) {
  const Region region = filled();
  Result<File> file = open(FileMode::in_place);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->commit(true).ok());
  ASSERT_TRUE(soft_->transfer(region.place(0, 100), file->place(0, 100)).ok());
  EXPECT_TRUE(file->commit(true).ok());
  ASSERT_EQ(cancelled(region.place(), file->place()).receipt.state, TransferState::cancelled);
  const Status committed = file->commit(true);
  ASSERT_FALSE(committed.ok());
  EXPECT_EQ(committed.error().cause, Cause::session_cancelled);
  ASSERT_TRUE(soft_->transfer(region.place(), file->place()).ok());
  EXPECT_TRUE(file->commit(true).ok());
}

TEST_F(Commit, OfAReplacedFileEndsItsTransfers) {
  const Region region = filled();
  Result<File> file = open();
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(soft_->transfer(region.place(), file->place()).ok());
  ASSERT_TRUE(file->commit(false).ok());
  const Outcome after = soft_->transfer(region.place(), file->place());
  ASSERT_FALSE(after.ok());
  EXPECT_EQ(after.error->origin, ErrorOrigin::input);
  EXPECT_EQ(after.error->detail, "the file was committed, and has its name");
  EXPECT_TRUE(file->commit(true).ok()) << "once more, to make it durable";
  EXPECT_EQ(read_file(path_), bytes_);
}

}  // namespace
}  // namespace nobounce
