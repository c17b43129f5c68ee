// Transfers between files, GPU memory and host memory: intact, and each receipt equal to the bus's
// account.
#include <gtest/gtest.h>

#include "support/soft_session.hpp"

namespace nobounce {
namespace {

using test::machine_with;
using test::random_bytes;
using test::read_file;
using test::SoftSession;
using test::TemporaryDirectory;
using test::write_file;

class FileSizes : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(FileSizes, ArriveDirectlyAndTheReceiptEqualsTheBus) {
  const TemporaryDirectory directory;
  const std::vector<std::byte> bytes = random_bytes(GetParam(), GetParam() + 1);
  write_file(directory.file("source"), bytes);
  SoftSession soft(machine_with("workstation"));
  Result<File> file = soft->open_file(directory.file("source"));
  ASSERT_TRUE(file.ok()) << to_string(file.error());
  Result<Region> region = soft->allocate(0, bytes.size());
  ASSERT_TRUE(region.ok()) << to_string(region.error());
  soft.begin_account();
  const Outcome outcome = soft->transfer(file->place(), region->place());
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  const Receipt& receipt = outcome.receipt;
  EXPECT_EQ(receipt.state, TransferState::done);
  EXPECT_EQ(receipt.member, Member::storage);
  EXPECT_EQ(receipt.bytes[Carriage::direct] + receipt.bytes[Carriage::device_bounced],
            bytes.size());
  EXPECT_EQ(receipt.bytes[Carriage::staged], 0u);
  EXPECT_TRUE(test::equals_ledger(receipt, soft.arrived(region->place())));
  EXPECT_EQ(soft.look_at(region->place()), bytes);
  if (!bytes.empty()) {
    EXPECT_EQ(receipt.link, Link::pcie_switch);
    EXPECT_EQ(receipt.known, Known::counted);
  }
}

TEST_P(FileSizes, ArriveStagedWithTheCauseWhenTheModuleIsMissing) {
  const TemporaryDirectory directory;
  const std::vector<std::byte> bytes = random_bytes(GetParam(), GetParam() + 2);
  write_file(directory.file("source"), bytes);
  SoftSession soft(machine_with("workstation", {"/modules/nvidia_fs=false"}));
  Result<File> file = soft->open_file(directory.file("source"));
  ASSERT_TRUE(file.ok()) << to_string(file.error());
  Result<Region> region = soft->allocate(0, bytes.size());
  ASSERT_TRUE(region.ok()) << to_string(region.error());
  soft.begin_account();
  const Outcome outcome = soft->transfer(file->place(), region->place());
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_EQ(outcome.receipt.bytes[Carriage::staged], bytes.size());
  EXPECT_EQ(outcome.receipt.bytes.total(), bytes.size());
  EXPECT_EQ(outcome.receipt.causes[0], Cause::storage_nvidia_fs_absent);
  EXPECT_TRUE(test::equals_ledger(outcome.receipt, soft.arrived(region->place())));
  EXPECT_EQ(soft.look_at(region->place()), bytes);
}

TEST_P(FileSizes, AreRefusedWithoutMovingAByteWhenDirectIsRequired) {
  const TemporaryDirectory directory;
  write_file(directory.file("source"), random_bytes(GetParam(), 3));
  SoftSession soft(machine_with("workstation", {"/modules/nvidia_fs=false"}));
  Result<File> file = soft->open_file(directory.file("source"));
  ASSERT_TRUE(file.ok()) << to_string(file.error());
  Result<Region> region = soft->allocate(0, GetParam());
  ASSERT_TRUE(region.ok()) << to_string(region.error());
  soft.begin_account();
  const std::uint64_t dram_before = soft.host().ledger().dram_bytes();
  const Outcome outcome =
      soft->transfer(file->place(), region->place(), {.policy = Policy::direct_required});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error->origin, ErrorOrigin::policy);
  EXPECT_EQ(outcome.error->cause, Cause::storage_nvidia_fs_absent);
  EXPECT_EQ(outcome.receipt.state, TransferState::refused);
  EXPECT_EQ(outcome.receipt.bytes.total(), 0u);
  EXPECT_EQ(soft.arrived(region->place()).total(), 0u);
  EXPECT_EQ(soft.host().ledger().dram_bytes(), dram_before);
}

TEST_P(FileSizes, GoBackToANewFileDirectly) {
  const TemporaryDirectory directory;
  const std::vector<std::byte> bytes = random_bytes(GetParam(), 4);
  SoftSession soft(machine_with("workstation"));
  Result<Region> region = soft->allocate(1, bytes.size());
  ASSERT_TRUE(region.ok()) << to_string(region.error());
  soft.plant(region->place(), bytes);
  CarriageBytes truth;
  Receipt receipt;
  {
    Result<File> file = soft->open_file(directory.file("target"),
                                        {.mode = FileMode::replace, .length_bytes = bytes.size()});
    ASSERT_TRUE(file.ok()) << to_string(file.error());
    soft.begin_account();
    const Outcome outcome = soft->transfer(region->place(), file->place());
    ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
    receipt = outcome.receipt;
    const Status committed = file->commit(true);
    ASSERT_TRUE(committed.ok()) << to_string(committed.error());
  }
  truth = soft.arrived_in_file(directory.file("target"), bytes.size());
  EXPECT_EQ(receipt.bytes[Carriage::staged], 0u);
  EXPECT_EQ(receipt.bytes.total(), bytes.size());
  EXPECT_TRUE(test::equals_ledger(receipt, truth));
  EXPECT_EQ(read_file(directory.file("target")), bytes);
  EXPECT_EQ(directory.names().size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Some, FileSizes,
                         ::testing::Values(0u, 1u, 511u, 4095u, 4096u, 4097u, 65536u, 1000000u,
                                           5000001u, 8388608u),
                         ::testing::PrintToStringParamName());

TEST(HostMemoryTransfer, IsDirectFromPinnedMemory) {
  SoftSession soft(machine_with("workstation"));
  Result<Region> host = soft->allocate_host(3000001);
  ASSERT_TRUE(host.ok()) << to_string(host.error());
  Result<Region> gpu = soft->allocate(0, 3000001);
  ASSERT_TRUE(gpu.ok());
  ASSERT_TRUE(soft->fill_pattern(host->place(), 5).ok());
  soft.begin_account();
  const Outcome outcome = soft->transfer(host->place(), gpu->place());
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_EQ(outcome.receipt.bytes[Carriage::direct], 3000001u);
  EXPECT_EQ(outcome.receipt.member, Member::host);
  EXPECT_TRUE(test::equals_ledger(outcome.receipt,
                                  soft.arrived(gpu->place(), std::get<HostMemory>(host->place()))));
  EXPECT_EQ(*soft->checksum(host->place()), *soft->checksum(gpu->place()));
}

TEST(HostMemoryTransfer, IsStagedFromPageableMemoryAndSaysSo) {
  SoftSession soft(machine_with("workstation"));
  std::vector<std::byte> bytes = random_bytes(2000003, 9);
  Result<Region> host = soft->adopt_host(bytes.data(), bytes.size());
  ASSERT_TRUE(host.ok()) << to_string(host.error());
  EXPECT_EQ(host->kind(), AllocationKind::host_pageable);
  Result<Region> gpu = soft->allocate(0, bytes.size());
  ASSERT_TRUE(gpu.ok());
  soft.begin_account();
  const Outcome outcome = soft->transfer(host->place(), gpu->place());
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_EQ(outcome.receipt.bytes[Carriage::staged], bytes.size());
  EXPECT_EQ(outcome.receipt.causes[0], Cause::memory_kind_pageable);
  EXPECT_TRUE(test::equals_ledger(outcome.receipt,
                                  soft.arrived(gpu->place(), std::get<HostMemory>(host->place()))));
  EXPECT_EQ(soft.look_at(gpu->place()), bytes);
}

TEST(StagedTransfer, BetweenTwoGpusArrivesAndSaysThatItIsStaged) {
  SoftSession soft(machine_with("workstation"));
  const std::vector<std::byte> bytes = random_bytes(1500001, 11);
  Result<Region> source = soft->allocate(0, bytes.size());
  Result<Region> target = soft->allocate(1, bytes.size());
  ASSERT_TRUE(source.ok() && target.ok());
  soft.plant(source->place(), bytes);
  soft.begin_account();
  const Outcome outcome =
      soft->transfer(source->place(), target->place(), {.policy = Policy::staged_only});
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_EQ(outcome.receipt.member, Member::p2p);
  EXPECT_EQ(outcome.receipt.bytes[Carriage::staged], bytes.size());
  EXPECT_GT(outcome.receipt.cause_count, 0);
  EXPECT_TRUE(test::equals_ledger(outcome.receipt, soft.arrived(target->place())));
  EXPECT_EQ(soft.look_at(target->place()), bytes);
}

TEST(Transfer, PartsOfAFileLandInPartsOfARegion) {
  const TemporaryDirectory directory;
  const std::vector<std::byte> bytes = random_bytes(3u << 20, 21);
  write_file(directory.file("source"), bytes);
  SoftSession soft(machine_with("workstation"));
  Result<File> file = soft->open_file(directory.file("source"));
  Result<Region> region = soft->allocate(0, 4u << 20);
  ASSERT_TRUE(file.ok() && region.ok());
  struct Part {
    std::uint64_t file_offset, region_offset, length;
  };
  for (const Part& part :
       {Part{0, 4096, 8192}, Part{4096, 0, 4096}, Part{777, 777, 1000000}, Part{777, 778, 1000000},
        Part{1, 1, 4095}, Part{4095, 4095, 2}, Part{1u << 20, 3, 1}, Part{0, 1, 1u << 20}}) {
    SCOPED_TRACE(part.file_offset);
    soft.begin_account();
    const Place target = region->place(part.region_offset, part.length);
    const Outcome outcome = soft->transfer(file->place(part.file_offset, part.length), target,
                                           {.policy = Policy::direct_required});
    ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
    EXPECT_TRUE(test::equals_ledger(outcome.receipt, soft.arrived(target)));
    const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(part.file_offset);
    EXPECT_EQ(soft.look_at(target),
              std::vector<std::byte>(first, first + static_cast<std::ptrdiff_t>(part.length)));
  }
}

TEST(Transfer, ASmallBar1BouncesInsideTheGpuAndSaysSo) {
  const TemporaryDirectory directory;
  const std::vector<std::byte> bytes = random_bytes(8u << 20, 31);
  write_file(directory.file("source"), bytes);
  SoftSession soft(machine_with("workstation", {"/gpus/0/bar1_bytes=4194304"}));
  Result<File> file = soft->open_file(directory.file("source"));
  Result<Region> region = soft->allocate(0, bytes.size());
  ASSERT_TRUE(file.ok() && region.ok());
  soft.begin_account();
  const Outcome outcome =
      soft->transfer(file->place(), region->place(), {.policy = Policy::direct_required});
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_EQ(outcome.receipt.bytes[Carriage::device_bounced], bytes.size());
  EXPECT_TRUE(test::has_cause(outcome.receipt, Cause::machine_bar1_too_small));
  EXPECT_TRUE(test::equals_ledger(outcome.receipt, soft.arrived(region->place())));
  EXPECT_EQ(soft.look_at(region->place()), bytes);
}

TEST(SessionOpen, WantsBounceMemoryForOneSlot) {
  Result<std::unique_ptr<fabric::SoftHost>> host =
      fabric::SoftHost::create(machine_with("workstation"));
  ASSERT_TRUE(host.ok());
  SessionOptions options = SoftSession::quiet();
  options.pinned_bytes_max = options.slot_bytes - 1;
  const Result<Session> session = Session::open(**host, options);
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.error().origin, ErrorOrigin::input);
  EXPECT_EQ(session.error().cause, Cause::session_pinned_limit);
  options.pinned_bytes_max = options.slot_bytes;
  EXPECT_TRUE(Session::open(**host, options).ok());
}

TEST(Transfer, WrongPlacesAreErrorsThatMoveNothing) {
  const TemporaryDirectory directory;
  write_file(directory.file("source"), random_bytes(4096, 1));
  SoftSession soft(machine_with("workstation"));
  Result<File> file = soft->open_file(directory.file("source"));
  Result<Region> region = soft->allocate(0, 8192);
  ASSERT_TRUE(file.ok() && region.ok());
  const Outcome lengths = soft->transfer(file->place(), region->place());
  ASSERT_FALSE(lengths.ok());
  EXPECT_EQ(lengths.error->origin, ErrorOrigin::input);
  EXPECT_EQ(lengths.error->cause, Cause::none) << "the target is the longer one";
  const Outcome unwritable = soft->transfer(region->place(0, 4096), file->place());
  ASSERT_FALSE(unwritable.ok());
  EXPECT_EQ(unwritable.error->origin, ErrorOrigin::input);
  GpuMemory stray = std::get<GpuMemory>(region->place());
  stray.address = stray.address.plus(1u << 30);
  stray.length_bytes = 4096;
  const Outcome outside = soft->transfer(file->place(), stray);
  ASSERT_FALSE(outside.ok());
  EXPECT_EQ(outside.error->origin, ErrorOrigin::input);
  EXPECT_FALSE(soft->allocate(9, 1).ok());
  Result<Region> huge = soft->allocate(0, std::uint64_t{1} << 50);
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.error().cause, Cause::memory_gpu_out_of_memory);
}

}  // namespace
}  // namespace nobounce
