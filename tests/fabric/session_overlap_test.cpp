// Places that share bytes, or differ in length, are refused before anything moves.
#include <gtest/gtest.h>

#include "support/soft_session.hpp"

namespace nobounce {
namespace {

using test::machine_with;
using test::random_bytes;
using test::SoftSession;
using test::TemporaryDirectory;
using test::write_file;

class Overlap : public ::testing::Test {
 protected:
  static constexpr std::uint64_t length = 100'000;

  void expect_refused(const Place& source, const Place& target, std::uint64_t shared) {
    const std::string detail =
        "source and target share " + std::to_string(shared) + " bytes of one memory";
    for (const Policy policy : {Policy::direct_preferred, Policy::staged_only}) {
      const Outcome outcome = soft_->transfer(source, target, {.policy = policy});
      ASSERT_FALSE(outcome.ok());
      EXPECT_EQ(outcome.receipt.state, TransferState::failed);
      EXPECT_EQ(outcome.receipt.bytes.total(), 0u);
      EXPECT_EQ(outcome.error->origin, ErrorOrigin::input);
      EXPECT_EQ(outcome.error->detail, detail);
      EXPECT_FALSE(outcome.error->remedy.empty());
    }
    EXPECT_FALSE(soft_->start(source, target).ok());
    EXPECT_FALSE(soft_->plan(source, target, Policy::direct_preferred).ok());
    const TransferRequest request{source, target};
    Result<Batch> batch = soft_->start_batch({&request, 1});
    ASSERT_TRUE(batch.ok());
    ASSERT_TRUE(batch->wait());
    ASSERT_FALSE(batch->outcome(0)->ok());
    EXPECT_EQ(batch->outcome(0)->error->detail, detail);
  }

  SoftSession soft_{machine_with("workstation")};
};

TEST_F(Overlap, IsRefusedInAnyMemory) {
  Result<Region> gpu = soft_->allocate(0, length);
  Result<Region> host = soft_->allocate_host(length);
  ASSERT_TRUE(gpu.ok() && host.ok());
  std::vector<std::byte> plain(length);
  Result<Region> adopted = soft_->adopt_host(plain.data(), length);
  ASSERT_TRUE(adopted.ok());
  for (const Region* region : {&*gpu, &*host, &*adopted}) {
    SCOPED_TRACE(region == &*gpu ? "gpu" : "host");
    expect_refused(region->place(0, 60'000), region->place(2'000, 60'000), 58'000);
    expect_refused(region->place(2'000, 60'000), region->place(0, 60'000), 58'000);
    expect_refused(region->place(1, 2), region->place(2, 2), 1);
    expect_refused(region->place(), region->place(), length);
    const Outcome apart = soft_->transfer(region->place(0, 50'000), region->place(50'000, 50'000));
    EXPECT_TRUE(apart.ok()) << to_string(*apart.error);
    const Outcome nothing = soft_->transfer(region->place(10, 0), region->place(10, 0));
    EXPECT_TRUE(nothing.ok()) << to_string(*nothing.error);
  }
}

/// A plan of places that are apart is no plan of places that overlap.
TEST_F(Overlap, IsRefusedAfterTransfersOfTheSameKind) {
  Result<Region> gpu = soft_->allocate(0, length);
  ASSERT_TRUE(gpu.ok());
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(soft_->transfer(gpu->place(0, 50'000), gpu->place(50'000, 50'000)).ok());
  expect_refused(gpu->place(0, 50'000), gpu->place(49'999, 50'000), 1);
}

TEST_F(Overlap, IsRefusedInOneFileHoweverItWasOpened) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a");
  write_file(path, random_bytes(length, 3));
  Result<File> read = soft_->open_file(path);
  Result<File> written =
      soft_->open_file(path, {.mode = FileMode::in_place, .length_bytes = length});
  Result<File> replaced =
      soft_->open_file(path, {.mode = FileMode::replace, .length_bytes = length});
  ASSERT_TRUE(read.ok() && written.ok() && replaced.ok());
  expect_refused(written->place(0, 60'000), written->place(1, 60'000), 59'999);
  expect_refused(read->place(), written->place(), length);
  const Outcome apart = soft_->transfer(read->place(0, 50'000), written->place(50'000, 50'000));
  EXPECT_TRUE(apart.ok()) << to_string(*apart.error);
  const Outcome renewed = soft_->transfer(read->place(), replaced->place());
  EXPECT_TRUE(renewed.ok()) << to_string(*renewed.error);
}

TEST_F(Overlap, TakesLengthsThatDifferForWhatTheyAre) {
  Result<Region> gpu = soft_->allocate(0, length);
  Result<Region> host = soft_->allocate_host(length);
  ASSERT_TRUE(gpu.ok() && host.ok());
  const Outcome longer = soft_->transfer(host->place(0, 1), gpu->place(0, 2));
  ASSERT_FALSE(longer.ok());
  EXPECT_EQ(longer.error->detail, "the source is 1 B long, and the target 2 B");
  EXPECT_EQ(longer.error->cause, Cause::none);
  EXPECT_NE(longer.error->remedy.find("one length"), std::string::npos);
  EXPECT_EQ(soft_->name_of(longer.receipt.source), "host");
  EXPECT_EQ(soft_->name_of(longer.receipt.target), "gpu:0");
  const Outcome shorter = soft_->transfer(host->place(0, 2), gpu->place(0, 1));
  ASSERT_FALSE(shorter.ok());
  EXPECT_EQ(shorter.error->cause, Cause::memory_too_small);
  EXPECT_EQ(soft_->ledger().transfers_failed, 2u);
  EXPECT_EQ(soft_->ledger().transfers_running, 0u);
}

}  // namespace
}  // namespace nobounce
