// /proc/self/mountinfo, line by line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "system/files.hpp"

namespace nobounce::topology {

/// One line, unescaped. Options are those of the mount, then those of the file system, as
/// /proc/mounts joins them.
struct MountLine {
  std::string device;  ///< major:minor
  std::string point;
  std::string type;
  std::string source;
  std::string options;
};

/// The mounts a path can end in: the last one of each point, without what lies inside kernel-made
/// trees.
[[nodiscard]] std::vector<MountLine> read_mount_table(system::Files& files);

/// `\040` and the like, as mountinfo writes blanks.
[[nodiscard]] std::string without_octal_escapes(std::string_view text);

}  // namespace nobounce::topology
