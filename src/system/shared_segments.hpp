// Named memory shared between the processes of one user: files in a folder of memory, mode 0600.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "system/storage.hpp"

namespace nobounce::system {

/// Segments are files `nobounce.<name>` in the folder (/dev/shm). Thread-safe: it keeps no state.
class SharedSegments {
 public:
  explicit SharedSegments(std::string folder);

  [[nodiscard]] Result<SharedSegment> create(std::string_view name, std::size_t length_bytes) const;
  /// Read-only. EPERM where another user owns the file or others may write to it.
  [[nodiscard]] Result<SharedSegment> open(std::string_view name) const;
  static void unmap(const SharedSegment& segment);
  void remove(std::string_view name) const;
  /// Names of this user's segments that begin with the prefix, sorted.
  [[nodiscard]] Result<std::vector<std::string>> list(std::string_view prefix) const;

 private:
  [[nodiscard]] std::string path_of(std::string_view name) const;
  std::string folder_;
};

}  // namespace nobounce::system
