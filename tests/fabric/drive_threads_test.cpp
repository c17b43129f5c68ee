// A drive of a session's own with several threads at once, on a software machine with threads.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "support/soft_session.hpp"

namespace nobounce::test {
namespace {

constexpr std::uint32_t spare = 1;
constexpr std::uint64_t part_bytes = 256u << 10;

/// Each thread has its own part of the drive and its own memory: what it writes it reads back,
/// while the drive answers in any order.
TEST(DriveThreads, HaveTheirOwnBytesWhateverTheOthersDo) {
  fabric::SoftOptions options;
  options.faults.nvme_reorder = 0.5;
  SoftSession soft(machine_with("spare-drive"), options);
  Result<OwnedDrive> drive = soft->take_drive(soft->machine().drives[spare].bdf, {.take = true});
  ASSERT_TRUE(drive.ok()) << to_string(drive.error());
  constexpr std::uint64_t threads = 4;
  std::vector<Region> regions;
  for (std::uint64_t i = 0; i < threads; ++i) {
    Result<Region> region = soft->allocate(i % 2 == 0 ? 0 : 1, 2 * part_bytes);
    ASSERT_TRUE(region.ok());
    regions.push_back(std::move(*region));
  }
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> running;
  for (std::uint64_t i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      const Place mine = drive->place(i * part_bytes, part_bytes);
      const Place sent = regions[i].place(0, part_bytes);
      const Place got = regions[i].place(part_bytes, part_bytes);
      for (std::uint64_t round = 0; round < 6; ++round) {
        if (!soft->fill_pattern(sent, i * 100 + round).ok()) ++wrong;
        if (!soft->transfer(sent, mine, {.policy = Policy::direct_required}).ok()) ++wrong;
        if (!soft->transfer(mine, got, {.policy = Policy::direct_required}).ok()) ++wrong;
        const Result<std::string> before = soft->checksum(sent);
        const Result<std::string> after = soft->checksum(got);
        if (!before.ok() || !after.ok() || *before != *after) ++wrong;
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  EXPECT_EQ(wrong.load(), 0u);
}

}  // namespace
}  // namespace nobounce::test
