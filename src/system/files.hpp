// Text files and directories of the kernel and the distribution (/sys, /proc, /etc, /run, /dev),
// under one root.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nobounce/result.hpp>

namespace nobounce::system {

/// Paths are absolute as on the host; an implementation may look for them elsewhere (a recording, a
/// software machine). Thread-safe. For small files: reading is whole and bounded by 16 MiB.
class Files {
 public:
  virtual ~Files() = default;
  /// The whole content, also of files that report size 0 (/proc, /sys). Origin os.
  [[nodiscard]] virtual Result<std::string> read(std::string_view path) = 0;
  /// Names in a directory, sorted, without . and ..
  [[nodiscard]] virtual Result<std::vector<std::string>> list(std::string_view path) = 0;
  /// The target text of a symbolic link.
  [[nodiscard]] virtual Result<std::string> read_link(std::string_view path) = 0;
  /// The path with symbolic links resolved (for /sys/class and /sys/block entries).
  [[nodiscard]] virtual Result<std::string> real_path(std::string_view path) = 0;
  [[nodiscard]] virtual bool exists(std::string_view path) = 0;
};

}  // namespace nobounce::system
