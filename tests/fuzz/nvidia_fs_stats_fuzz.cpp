// Fuzzes /proc/driver/nvidia-fs/stats: counts are read where both are there, wherever they stand.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "evidence/nvidia_fs_counts.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using nobounce::evidence::nvidia_fs_operations;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto operations = nvidia_fs_operations(text);
  if (operations.has_value()) {
    require(text.find("Reads") != std::string::npos && text.find("Writes") != std::string::npos);
    // The first count of each kind holds: what follows cannot change it.
    require(nvidia_fs_operations(text + "\nReads : n=7\nWrites : n=7\n") == operations);
  }
  require(nvidia_fs_operations("Reads : n=3 ok=3\nWrites\t: n=4\n" + text) == 7u);
  return 0;
}
