// Looking for words and numbers in a line.
#include "captures/scan.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>

namespace nobounce::captures {

std::optional<std::string_view> after(std::string_view text, std::string_view part) {
  const std::size_t at = text.find(part);
  if (at == std::string_view::npos) return std::nullopt;
  return text.substr(at + part.size());
}

std::string_view before(std::string_view text, std::string_view part) {
  return text.substr(0, text.find(part));
}

std::string_view until(std::string_view text, std::string_view stops) {
  // Few characters stop it, and it is seldom far to one: find_first_of calls a function for each.
  for (std::size_t end = 0; end < text.size(); ++end) {
    for (const char stop : stops) {
      if (text[end] == stop) return text.substr(0, end);
    }
  }
  return text;
}

std::string_view first_word(std::string_view text) {
  return until(trim(text), " \t");
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    if (text.empty()) return words;
    const std::string_view word = until(text, " \t");
    words.push_back(word);
    text.remove_prefix(word.size());
  }
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string lower(std::string_view text) {
  std::string lowered(text);
  for (char& c : lowered) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lowered;
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  text = trim(text);
  std::uint64_t number = 0;
  std::size_t digits = 0;
  for (std::size_t i = 0; i < text.size() && digits < 20; ++i) {
    if (text[i] == ',' && digits > 0 && i + 1 < text.size() && is_digit(text[i + 1])) continue;
    if (!is_digit(text[i])) break;
    if (number > (UINT64_MAX - 9) / 10) return std::nullopt;
    number = number * 10 + static_cast<std::uint64_t>(text[i] - '0');
    ++digits;
  }
  if (digits == 0) return std::nullopt;
  return number;
}

std::optional<std::int64_t> signed_number(std::string_view text) {
  text = trim(text);
  const bool negative = !text.empty() && text.front() == '-';
  if (negative) text.remove_prefix(1);
  if (text.empty() || !is_digit(text.front())) return std::nullopt;
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc()) return std::nullopt;
  return negative ? -number : number;
}

std::optional<std::uint64_t> hex_number(std::string_view text) {
  text = trim(text);
  if (starts(text, "0x") || starts(text, "0X")) text.remove_prefix(2);
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (read.ec != std::errc()) return std::nullopt;
  return number;
}

std::optional<double> real_number(std::string_view text) {
  text = trim(text);
  std::size_t length = 0;
  while (length < text.size() && length < 40 &&
         (is_digit(text[length]) || text[length] == '.' || (length == 0 && text[0] == '-')))
    ++length;
  if (length == 0 || (!is_digit(text[0]) && length < 2)) return std::nullopt;
  const std::string copy(text.substr(0, length));  // strtod needs an end
  char* end = nullptr;
  const double number = std::strtod(copy.c_str(), &end);
  if (end == copy.c_str() || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> number_after(std::string_view text, std::string_view part) {
  const auto rest = after(text, part);
  return rest.has_value() ? whole_number(*rest) : std::nullopt;
}

std::optional<double> real_after(std::string_view text, std::string_view part) {
  const auto rest = after(text, part);
  return rest.has_value() ? real_number(*rest) : std::nullopt;
}

namespace {

std::size_t hex_run(std::string_view text, std::size_t at) {
  std::size_t length = 0;
  while (at + length < text.size() && is_hex(text[at + length])) ++length;
  return length;
}

}  // namespace

std::size_t address_length(std::string_view text) {
  std::size_t at = 0;
  std::size_t run = hex_run(text, 0);
  if ((run == 4 || run == 8) && text.size() > run && text[run] == ':') {
    at = run + 1;
    run = hex_run(text, at);
  }
  const auto is = [text](std::size_t i, char c) { return i < text.size() && text[i] == c; };
  if (run != 2 || !is(at + 2, ':') || hex_run(text, at + 3) != 2 || !is(at + 5, '.')) return 0;
  const std::size_t function = at + 6;
  if (function >= text.size() || text[function] < '0' || text[function] > '7') return 0;
  if (function + 1 < text.size() && is_hex(text[function + 1])) return 0;
  return function + 1;
}

std::string_view find_address(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_hex(text[i]) || (i > 0 && (is_name(text[i - 1]) || text[i - 1] == ':'))) continue;
    const std::size_t length = address_length(text.substr(i));
    if (length > 0) return text.substr(i, length);
  }
  return {};
}

std::string short_address(std::string_view address) {
  for (const std::string_view domain : {"00000000:", "0000:"}) {
    if (starts(address, domain)) {
      address.remove_prefix(domain.size());
      break;
    }
  }
  return lower(address);
}

}  // namespace nobounce::captures
