// Sizes and times as people type them. Strict: what could be meant in two ways is refused.
#pragma once

#include <cstdint>
#include <string_view>

#include <nobounce/result.hpp>

namespace nobounce::cli {

/// `4096`, `4096B`, `256MiB`, `1GB`. Binary units KiB to TiB, decimal units KB (or kB) to TB. No
/// fractions, no signs, no bare K, M, G. Origin input.
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view text);

/// Digits only, at most `most`. Origin input.
[[nodiscard]] Result<std::uint64_t> parse_number(std::string_view text, std::uint64_t most);

/// Seconds: `30`, `0.5`. More than zero. In nanoseconds. Origin input.
[[nodiscard]] Result<std::uint64_t> parse_seconds(std::string_view text);

}  // namespace nobounce::cli
