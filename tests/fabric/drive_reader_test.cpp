// The project's own kernel for doorbell queues: it reads a drive, adds up what it saw, and tells
// its errors.
#include <unistd.h>

#include <numeric>
#include <optional>
#include <stdexcept>
#include <vector>

#include "async/drive_reader.hpp"
#include "support/soft_session.hpp"

namespace nobounce::test {
namespace {

using async::DriveReader;
using async::DriveReads;

constexpr std::uint32_t spare_drive = 1;
constexpr std::uint64_t drive_bytes = 1u << 20;

class ReadsADrive : public ::testing::TestWithParam<bool> {
 protected:
  ReadsADrive() : soft_(machine_with("spare-drive"), {.deterministic = GetParam()}) {
    words_.resize(drive_bytes / 8);
    for (std::uint64_t i = 0; i < words_.size(); ++i) words_[i] = core::pattern_word(9, i);
    const fabric::Medium medium = *soft_.host().raw_medium(spare_drive);
    if (::pwrite(medium.descriptor, words_.data(), drive_bytes, 0) !=
        static_cast<ssize_t>(drive_bytes))
      throw std::runtime_error("the medium cannot be written");
    auto taken = soft_->take_drive(soft_->machine().drives[spare_drive].bdf, {.take = true});
    if (!taken.ok()) throw std::runtime_error(to_string(taken.error()));
    drive_.emplace(std::move(*taken));
    auto made = soft_->allocate(0, drive_bytes);
    if (!made.ok()) throw std::runtime_error(to_string(made.error()));
    region_.emplace(std::move(*made));
  }
  [[nodiscard]] DriveReads reads(std::uint32_t blocks, std::uint32_t count,
                                 std::uint32_t bytes) const {
    DriveReads wanted;
    wanted.blocks = blocks;
    wanted.reads = count;
    wanted.read_bytes = bytes;
    wanted.data = std::get<GpuMemory>(region_->place()).address;
    return wanted;
  }
  [[nodiscard]] Result<DoorbellQueue> open(const DoorbellOptions& options) {
    return DoorbellQueue::open(*soft_, drive_->place(0, drive_bytes), region_->place(), options);
  }

  SoftSession soft_;
  std::vector<std::uint64_t> words_;
  std::optional<OwnedDrive> drive_;
  std::optional<Region> region_;
};

TEST_P(ReadsADrive, WholeAndTwiceAndSeesTheBytesItself) {
  auto reader = DriveReader::load(*soft_, 0, 16);
  ASSERT_TRUE(reader.ok()) << to_string(reader.error());
  auto queue = open({.tokens = 16, .entries = 4});
  ASSERT_TRUE(queue.ok()) << to_string(queue.error());
  const std::uint64_t sum =
      std::accumulate(words_.begin(), words_.end(), std::uint64_t{0}, std::plus<>());
  for (int run = 0; run < 2; ++run) {
    const auto read = reader->run(*queue, reads(16, 4, 16384));
    ASSERT_TRUE(read.ok()) << to_string(read.error());
    EXPECT_EQ(read->good, 64u);
    EXPECT_EQ(read->failed, 0u);
    EXPECT_EQ(read->sum, sum);
  }
  const Outcome outcome = queue->close();
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_EQ(outcome.receipt.bytes[Carriage::direct], 2 * drive_bytes);
  EXPECT_EQ(outcome.receipt.bytes.total(), 2 * drive_bytes);
  EXPECT_EQ(*soft_->checksum(drive_->place(0, drive_bytes)), *soft_->checksum(region_->place()));
}

TEST_P(ReadsADrive, TellsWhatTheDriveDidNotBring) {
  auto reader = DriveReader::load(*soft_, 0, 8);
  ASSERT_TRUE(reader.ok());
  auto queue = open({.tokens = 8, .entries = 4});
  ASSERT_TRUE(queue.ok());
  soft_.host().faults().read_error = 0.5;
  const auto read = reader->run(*queue, reads(8, 16, 4096));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->good + read->failed, 128u);
  EXPECT_GT(read->good, 0u);
  EXPECT_GT(read->failed, 0u);
  EXPECT_EQ(read->last_code, device::code_nvme | 0x281);
  EXPECT_EQ(read->last_result, static_cast<std::uint64_t>(device::Result::error));
  const Outcome outcome = queue->close();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.receipt.bytes[Carriage::direct], read->good * 4096);
}

TEST_P(ReadsADrive, RefusesWhatItCannotRun) {
  auto reader = DriveReader::load(*soft_, 0, 4);
  ASSERT_TRUE(reader.ok());
  auto queue = open({.tokens = 8});
  ASSERT_TRUE(queue.ok());
  EXPECT_FALSE(reader->run(*queue, reads(0, 1, 4096)).ok());
  EXPECT_FALSE(reader->run(*queue, reads(5, 1, 4096)).ok());
  EXPECT_FALSE(reader->run(*queue, reads(1, 1, 4100)).ok());
  // Beyond the end: each such command has its own error, and the kernel ends.
  const auto beyond = reader->run(*queue, reads(4, 65, 4096));
  ASSERT_TRUE(beyond.ok());
  EXPECT_EQ(beyond->good, 256u);
  EXPECT_EQ(beyond->failed, 4u);
  queue->stop();
  const auto stopped = reader->run(*queue, reads(2, 3, 4096));
  ASSERT_TRUE(stopped.ok());
  EXPECT_EQ(stopped->good, 0u);
  EXPECT_EQ(stopped->last_result, static_cast<std::uint64_t>(device::Result::stopping));
}

INSTANTIATE_TEST_SUITE_P(Both, ReadsADrive, ::testing::Values(true, false),
                         [](const auto& instance) {
                           return instance.param ? std::string("Deterministic") : "Threaded";
                         });

}  // namespace
}  // namespace nobounce::test
