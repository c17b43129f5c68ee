// How text is dressed: colour only when told, padding counted in columns and not in bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nobounce/words.hpp>

namespace nobounce::report {

/// Decided by the caller: a report cannot know whether it goes to a terminal.
struct Style {
  bool colour = false;
};

/// Columns that a report's lines keep to where words allow.
inline constexpr std::size_t text_width = 100;

enum class Paint : std::uint8_t { plain, strong, faint, good, notice, bad };

/// The text in that paint; unchanged without colour.
[[nodiscard]] std::string painted(std::string_view text, Paint paint, Style style);

[[nodiscard]] Paint paint_of_verdict(Verdict verdict);

/// Names as a terminal may see them: control characters (also DEL, those of 0x80 to 0x9F, and bytes
/// that are no UTF-8) as `\xNN`, byte by byte. Other UTF-8 stays.
[[nodiscard]] std::string visible(std::string_view text);

/// The first and the last hundred bytes or so of a text that is longer than 300.
[[nodiscard]] std::string shortened(std::string_view text);

/// Columns that UTF-8 text takes, one per code point.
[[nodiscard]] std::size_t columns_of(std::string_view text);

/// The text filled up with blanks to that many columns; longer text is kept.
[[nodiscard]] std::string left(std::string_view text, std::size_t columns);
[[nodiscard]] std::string right(std::string_view text, std::size_t columns);

/// Blanks in front of `text`, broken at blanks so that no line is wider than `width` where words
/// allow.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t indent, std::size_t width);

}  // namespace nobounce::report
