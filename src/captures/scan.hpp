// Looking for words and numbers in a line: no allocation, no regular expressions.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nobounce::captures {

[[nodiscard]] inline bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}
// Sizes first: for words known to the compiler no function is called.
[[nodiscard]] inline bool starts(std::string_view text, std::string_view part) {
  return part.empty() ||
         (text.size() >= part.size() && std::memcmp(text.data(), part.data(), part.size()) == 0);
}
[[nodiscard]] inline bool ends(std::string_view text, std::string_view part) {
  return part.empty() ||
         (text.size() >= part.size() &&
          std::memcmp(text.data() + text.size() - part.size(), part.data(), part.size()) == 0);
}
[[nodiscard]] inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
[[nodiscard]] inline bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
[[nodiscard]] inline bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
[[nodiscard]] inline bool is_name(char c) {
  return is_letter(c) || is_digit(c) || c == '_';
}
[[nodiscard]] inline bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

[[nodiscard]] inline std::string_view trim(std::string_view text) {
  while (!text.empty() && (is_blank(text.front()) || text.front() == '\n')) text.remove_prefix(1);
  while (!text.empty() && (is_blank(text.back()) || text.back() == '\n')) text.remove_suffix(1);
  return text;
}
/// What follows the first occurrence; nothing where there is none.
[[nodiscard]] std::optional<std::string_view> after(std::string_view text, std::string_view part);
/// What stands before the first occurrence, or the whole text.
[[nodiscard]] std::string_view before(std::string_view text, std::string_view part);
/// Up to the first blank.
[[nodiscard]] std::string_view first_word(std::string_view text);
/// Up to the first character that `stops` holds.
[[nodiscard]] std::string_view until(std::string_view text, std::string_view stops);
[[nodiscard]] std::vector<std::string_view> words_of(std::string_view text);
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);
[[nodiscard]] std::string lower(std::string_view text);

/// Decimal at the front, blanks before it skipped; thousands may be parted by commas.
[[nodiscard]] std::optional<std::uint64_t> whole_number(std::string_view text);
[[nodiscard]] std::optional<std::int64_t> signed_number(std::string_view text);
[[nodiscard]] std::optional<std::uint64_t> hex_number(std::string_view text);
[[nodiscard]] std::optional<double> real_number(std::string_view text);
/// The number behind the first occurrence of `part`.
[[nodiscard]] std::optional<std::uint64_t> number_after(std::string_view text,
                                                        std::string_view part);
[[nodiscard]] std::optional<double> real_after(std::string_view text, std::string_view part);

/// Characters of a `[dddd:]bb:dd.f` at the front of the text; 0 where there is none.
[[nodiscard]] std::size_t address_length(std::string_view text);
/// The first bus address in the text that stands alone, or an empty one.
[[nodiscard]] std::string_view find_address(std::string_view text);
/// Without the domain 0000 and in lower case: `60:02.0`.
[[nodiscard]] std::string short_address(std::string_view address);

}  // namespace nobounce::captures
