// Paths as texts.
#pragma once

#include <string>
#include <string_view>

namespace nobounce::core {

/// `/a/b` lies in `/a`, `/a` in `/`, and a name alone in `.`.
[[nodiscard]] inline std::string directory_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

}  // namespace nobounce::core
