// The last-level cache as the kernel describes it.
#include <gtest/gtest.h>

#include "proof/cache_size.hpp"
#include "support/memory_files.hpp"

namespace nobounce::proof {
namespace {

const std::string folder = "/sys/devices/system/cpu/cpu0/cache";

TEST(LastLevelCache, IsTheLargestOfTheFirstCpu) {
  support::MemoryFiles files;
  files.text(folder + "/index0/size", "48K\n");
  files.text(folder + "/index2/size", "2048K\n");
  files.text(folder + "/index3/size", "105M\n");
  files.text(folder + "/uevent", "900000000K\n");
  EXPECT_EQ(last_level_cache_bytes(files), 105ULL << 20);
}

TEST(LastLevelCache, IsNotKnownWhereTheKernelDoesNotSay) {
  support::MemoryFiles files;
  EXPECT_FALSE(last_level_cache_bytes(files).has_value());
  files.text(folder + "/index0/size", "");
  files.text(folder + "/index1/size", "99999999999999999999K");
  files.text(folder + "/index2/size", "18446744073709551615G");
  files.text(folder + "/index3/type", "Unified");
  EXPECT_FALSE(last_level_cache_bytes(files).has_value());
}

}  // namespace
}  // namespace nobounce::proof
