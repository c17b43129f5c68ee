// Wrapped text behind a label.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "report/style.hpp"

namespace nobounce::report {

/// `label`, which takes `indent` columns on the terminal, then the text, wrapped below itself. The
/// label may be painted.
[[nodiscard]] inline std::string labelled(std::string label, std::size_t indent,
                                          std::string_view text) {
  const std::string block = wrapped(text, indent, text_width);
  return std::move(label) + block.substr(std::min(indent, block.size()));
}

}  // namespace nobounce::report
