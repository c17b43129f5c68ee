// The small values: places and their parts, receipts, findings, errors, results.
#include <gtest/gtest.h>

#include <cerrno>
#include <limits>
#include <memory>
#include <nobounce/error.hpp>
#include <nobounce/finding.hpp>
#include <nobounce/place.hpp>
#include <nobounce/receipt.hpp>
#include <nobounce/result.hpp>
#include <type_traits>

namespace nobounce {
namespace {

TEST(Place, PartsKeepTheirKindAndMoveTheirStart) {
  const Place gpu = GpuMemory{2, DevicePointer{0x1000}, 100};
  const auto gpu_part = std::get<GpuMemory>(part_of(gpu, 30, 50));
  EXPECT_EQ(gpu_part.gpu, 2u);
  EXPECT_EQ(gpu_part.address, DevicePointer{0x1000 + 30});
  EXPECT_EQ(gpu_part.length_bytes, 50u);
  std::byte bytes[10];
  EXPECT_EQ(std::get<HostMemory>(part_of(HostMemory{bytes, 10}, 3, 7)).address, bytes + 3);
  const auto file_part = std::get<FileRange>(part_of(FileRange{4, FileOffset{7}, 20}, 5, 1));
  EXPECT_EQ(file_part.file, 4u);
  EXPECT_EQ(file_part.offset, FileOffset{12});
  const auto block_part = std::get<BlockRange>(part_of(BlockRange{1, FileOffset{8}, 16}, 8, 8));
  EXPECT_EQ(block_part.offset, FileOffset{16});
  const auto remote_part = std::get<RemoteMemory>(part_of(RemoteMemory{1, 0x2000, 9, 16}, 4, 4));
  EXPECT_EQ(remote_part.address, 0x2004u);
  EXPECT_EQ(remote_part.key, 9u);
}

TEST(Place, PartsMayBeEmptyOrWhole) {
  const Place place = FileRange{0, FileOffset{0}, 10};
  EXPECT_EQ(length_bytes(part_of(place, 10, 0)), 0u);
  EXPECT_EQ(length_bytes(part_of(place, 0, 10)), 10u);
  EXPECT_EQ(std::get<HostMemory>(part_of(HostMemory{nullptr, 0}, 0, 0)).address, nullptr);
}

TEST(PlaceDeathTest, RefusesAPartThatIsNotInside) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const Place place = FileRange{0, FileOffset{0}, 10};
  EXPECT_DEATH((void)part_of(place, 5, 6), "part_of");
  EXPECT_DEATH((void)part_of(place, 11, 0), "part_of");
  EXPECT_DEATH((void)part_of(place, 5, std::numeric_limits<std::uint64_t>::max() - 2), "part_of");
}

TEST(Place, PairsChooseTheMemberInBothDirections) {
  const Place gpu = GpuMemory{};
  const Place host = HostMemory{};
  const Place file = FileRange{};
  const Place block = BlockRange{};
  const Place remote = RemoteMemory{};
  const auto both = [](const Place& a, const Place& b) {
    EXPECT_EQ(member_of(a, b), member_of(b, a));
    return member_of(a, b);
  };
  EXPECT_EQ(both(gpu, GpuMemory{.gpu = 1}), Member::p2p);
  EXPECT_EQ(both(gpu, gpu), Member::host);
  EXPECT_EQ(both(gpu, host), Member::host);
  EXPECT_EQ(both(gpu, file), Member::storage);
  EXPECT_EQ(both(gpu, block), Member::storage);
  EXPECT_EQ(both(gpu, remote), Member::rdma);
  EXPECT_EQ(both(host, file), Member::host);
  EXPECT_EQ(both(host, remote), Member::rdma);
}

TEST(Receipt, IsSmallAndTriviallyCopyable) {
  EXPECT_LE(sizeof(Receipt), 256u);
  EXPECT_TRUE(std::is_trivially_copyable_v<Receipt>);
  EXPECT_TRUE(std::is_standard_layout_v<Receipt>);
}

TEST(Receipt, HoldsEachCauseOnceAndTheFirstEight) {
  Receipt receipt;
  receipt.add_cause(Cause::none);
  EXPECT_EQ(receipt.cause_count, 0);
  for (int round = 0; round < 2; ++round) {
    for (std::uint16_t i = 1; i <= 10; ++i) receipt.add_cause(static_cast<Cause>(i));
  }
  ASSERT_EQ(receipt.cause_count, 8);
  for (std::uint16_t i = 0; i < 8; ++i) EXPECT_EQ(receipt.causes[i], static_cast<Cause>(i + 1));
}

TEST(Finding, TheFirstUnmetOneGivesTheCause) {
  Finding met{.cause = Cause::machine_no_gpu, .state = FindingState::met};
  Finding unknown{.cause = Cause::machine_acs_unreadable, .state = FindingState::unknown};
  Finding unmet{.cause = Cause::storage_udev_missing, .state = FindingState::unmet};
  Finding later{.cause = Cause::storage_mount_options, .state = FindingState::unmet};
  EXPECT_EQ(first_unmet({}), Cause::none);
  EXPECT_EQ(first_unmet({met, unknown}), Cause::none);
  EXPECT_EQ(first_unmet({met, unknown, unmet, later}), Cause::storage_udev_missing);
}

TEST(Error, IsOneLine) {
  EXPECT_EQ(to_string(os_error(ENOENT, "open /data/a.bin for reading")),
            "open /data/a.bin for reading: No such file or directory (os 2)");
  EXPECT_EQ(to_string(os_error(EACCES, "read /proc/x", Cause::machine_acs_unreadable)),
            "read /proc/x: Permission denied (os 13) [machine.acs_unreadable]");
  EXPECT_EQ(
      to_string(Error{
          .origin = ErrorOrigin::input, .attempted = "read m.json", .detail = "m.json:1: bad"}),
      "read m.json: m.json:1: bad");
  EXPECT_EQ(to_string(Error{.origin = ErrorOrigin::cuda, .code = 2, .attempted = "cuMemAlloc"}),
            "cuMemAlloc: failed (cuda 2)");
  EXPECT_EQ(to_string(Error{}), "failed");
}

TEST(Error, WithoutDetailSaysWhatItsCauseSays) {
  const Error error{.origin = ErrorOrigin::policy,
                    .attempted = "copy a to gpu:0",
                    .cause = Cause::storage_udev_missing};
  const std::string sentence(cause_row(Cause::storage_udev_missing).sentence);
  EXPECT_EQ(to_string(error), "copy a to gpu:0: " + sentence + " [storage.udev_missing]");
}

TEST(Error, ItsOwnRemedyGoesBeforeItsCauses) {
  Error error{.cause = Cause::storage_nvidia_fs_absent};
  EXPECT_EQ(remedy_of(error), cause_row(Cause::storage_nvidia_fs_absent).remedy);
  error.remedy = "try again";
  EXPECT_EQ(remedy_of(error), "try again");
  EXPECT_EQ(remedy_of(Error{}), "");
}

TEST(Error, NamesEvenAnUnknownErrno) {
  EXPECT_EQ(to_string(os_error(99999, "read")), "read: Unknown error 99999 (os 99999)");
}

TEST(Result, HoldsAValueOrAnError) {
  Result<std::unique_ptr<int>> value(std::make_unique<int>(7));
  ASSERT_TRUE(value.ok());
  EXPECT_TRUE(static_cast<bool>(value));
  EXPECT_EQ(**value, 7);
  EXPECT_EQ(*std::move(value).value(), 7);
  const Result<int> error(Error{.attempted = "x"});
  ASSERT_FALSE(error.ok());
  EXPECT_EQ(error.error().attempted, "x");
  EXPECT_TRUE(Status().ok());
  EXPECT_FALSE(Status(Error{}).ok());
}

TEST(ResultDeathTest, AbortsWhenTheWrongSideIsRead) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const Result<int> value(1);
  const Result<int> error(Error{});
  EXPECT_DEATH((void)value.error(), "the wrong side of a Result was read");
  EXPECT_DEATH((void)error.value(), "the wrong side of a Result was read");
  EXPECT_DEATH((void)*error, "the wrong side of a Result was read");
  EXPECT_DEATH((void)Status().error(), "the wrong side of a Result was read");
}

}  // namespace
}  // namespace nobounce
