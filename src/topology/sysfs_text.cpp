// Reading the kernel's small texts.
#include "topology/sysfs_text.hpp"

#include <charconv>

namespace nobounce::topology {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\0';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Takes the digits at the front of `text`, without leading zeros.
std::string_view take_digits(std::string_view& text) {
  std::size_t end = 0;
  while (end < text.size() && is_digit(text[end])) ++end;
  std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  return digits;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    const std::string_view part = text.substr(0, end);
    if (!part.empty()) parts.push_back(part);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

std::optional<std::int64_t> number_of(std::string_view text) {
  text = trimmed(text);
  if (text.empty()) return std::nullopt;
  const bool hexadecimal = text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  if (hexadecimal) text.remove_prefix(2);
  const char* const end = text.data() + text.size();
  if (hexadecimal) {
    std::uint64_t bits = 0;
    const auto result = std::from_chars(text.data(), end, bits, 16);
    if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
    return static_cast<std::int64_t>(bits);
  }
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

std::string text_at(system::Files& files, const std::string& path) {
  const Result<std::string> content = files.read(path);
  return content ? std::string(trimmed(*content)) : std::string();
}

std::optional<std::int64_t> number_at(system::Files& files, const std::string& path) {
  return number_of(text_at(files, path));
}

std::vector<std::string> names_in(system::Files& files, const std::string& path) {
  Result<std::vector<std::string>> names = files.list(path);
  return names ? std::move(*names) : std::vector<std::string>();
}

std::string_view last_part(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool natural_less(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const std::string_view first = take_digits(a);
      const std::string_view second = take_digits(b);
      if (first.size() != second.size()) return first.size() < second.size();
      if (first != second) return first < second;
      continue;
    }
    if (a.front() != b.front()) return a.front() < b.front();
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  return a.size() < b.size();
}

}  // namespace nobounce::topology
