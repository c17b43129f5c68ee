// Fuzzes /proc/self/mountinfo: whatever it holds, what is read names a place and its options once.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/mount_table.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nobounce::core;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const MountLine& mount : parse_mount_table(text)) {
    require(!mount.point.empty() && mount.point.front() == '/');
    require(!mount.type.empty() && !mount.source.empty() && !mount.device.empty());
    const std::string_view mode = std::string_view(mount.options).substr(0, 2);
    require(mode == "ro" || mode == "rw");
  }
  require(without_octal_escapes(text).size() <= size);
  // A line stands for itself: what comes before and after it changes nothing.
  const std::string around = "1 0 8:1 / /before rw - ext4 /dev/a rw\n" + std::string(text);
  const std::size_t alone = parse_mount_table(text).size();
  require(parse_mount_table(around).size() == alone + 1);
  return 0;
}
