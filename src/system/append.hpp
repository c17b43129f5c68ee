// What a user names as an output and is no regular file: a pipe, a terminal, /dev/null.
#pragma once

#include <string_view>

#include <nobounce/result.hpp>

namespace nobounce::system {

/// Writes `text` behind what was written before; creates nothing. A pipe that nobody reads is an
/// error (ENXIO), one whose reader is slow is waited for.
[[nodiscard]] Status append_to(std::string_view path, std::string_view text);

}  // namespace nobounce::system
