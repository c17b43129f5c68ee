// /proc/self/mountinfo as values: one line per mount, escapes decoded, options joined as
// /proc/mounts joins them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nobounce::core {

struct MountLine {
  std::string device;  ///< major:minor
  std::string point;
  std::string type;
  std::string source;
  std::string options;
};

/// Every line that can be read, in order; others are left out.
[[nodiscard]] std::vector<MountLine> parse_mount_table(std::string_view text);

/// `\040` and the like, as the kernel writes blanks in it.
[[nodiscard]] std::string without_octal_escapes(std::string_view text);

}  // namespace nobounce::core
