// Counters in the kernel's text files, and text that is not of their form.
#include <gtest/gtest.h>

#include "evidence/kernel_counts.hpp"

namespace nobounce::evidence {
namespace {

TEST(BlockDeviceBytes, AreSectorsReadAndWritten) {
  EXPECT_EQ(block_device_bytes("   12    3      100   4   56    7       20    8  0  9 10\n"),
            std::optional<std::uint64_t>(120 * 512));
}

TEST(BlockDeviceBytes, OfAnythingElseAreNone) {
  EXPECT_EQ(block_device_bytes(""), std::nullopt);
  EXPECT_EQ(block_device_bytes("1 2 3"), std::nullopt);
  EXPECT_EQ(block_device_bytes("1 2 three 4 5 6 7"), std::nullopt);
  EXPECT_EQ(block_device_bytes("1 2 18446744073709551615 4 5 6 7"), std::nullopt);
  EXPECT_EQ(block_device_bytes("1 2 99999999999999999999 4 5 6 7"), std::nullopt);
}

TEST(PageCacheBytes, AreThoseOfTheCachedLine) {
  EXPECT_EQ(page_cache_bytes("MemTotal:  100 kB\nSwapCached: 7 kB\nCached:   12 kB\n"),
            std::optional<std::uint64_t>(12 * 1024));
  EXPECT_EQ(page_cache_bytes("MemTotal: 100 kB\n"), std::nullopt);
  EXPECT_EQ(page_cache_bytes("Cached: many kB\n"), std::nullopt);
}

}  // namespace
}  // namespace nobounce::evidence
