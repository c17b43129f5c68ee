// The pages of docs/causes, embedded by the build.
#pragma once

#include <span>
#include <string_view>

namespace nobounce::cli {

struct CausePage {
  std::string_view id;
  std::string_view text;  ///< Markdown
};

/// Sorted by id.
[[nodiscard]] std::span<const CausePage> cause_pages();

}  // namespace nobounce::cli
