// Colour codes, padding and line breaking for the text reports.
#include "report/style.hpp"

#include "core/json.hpp"

namespace nobounce::report {

namespace {

std::string_view code_of(Paint paint) {
  switch (paint) {
    case Paint::plain:
      return "";
    case Paint::strong:
      return "\x1b[1m";
    case Paint::faint:
      return "\x1b[2m";
    case Paint::good:
      return "\x1b[32m";
    case Paint::notice:
      return "\x1b[33m";
    case Paint::bad:
      return "\x1b[31m";
  }
  return "";
}

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

/// Of one well-formed character.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character.front());
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
}

}  // namespace

Paint paint_of_verdict(Verdict verdict) {
  switch (verdict) {
    case Verdict::direct:
      return Paint::good;
    case Verdict::staged:
    case Verdict::degraded:
      return Paint::notice;
    case Verdict::impossible:
    case Verdict::broken:
      return Paint::bad;
    case Verdict::unknown:
      return Paint::faint;
  }
  return Paint::plain;
}

std::string painted(std::string_view text, Paint paint, Style style) {
  if (!style.colour || paint == Paint::plain || text.empty()) return std::string(text);
  std::string result(code_of(paint));
  result += text;
  result += "\x1b[0m";
  return result;
}

std::string visible(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string result;
  while (!text.empty()) {
    const std::size_t length = core::utf8_length(text);
    const std::string_view character = text.substr(0, length == 0 ? 1 : length);
    if (length == 0 || is_control(character)) {
      for (const char byte : character) {
        const auto value = static_cast<unsigned char>(byte);
        result += "\\x";
        result += digits[value >> 4];
        result += digits[value & 15];
      }
    } else {
      result += character;
    }
    text.remove_prefix(character.size());
  }
  return result;
}

std::string shortened(std::string_view text) {
  constexpr std::size_t longest = 300;
  constexpr std::size_t kept = 100;
  if (text.size() <= longest) return std::string(text);
  std::size_t head = kept;
  std::size_t tail = text.size() - kept;
  while (head > 0 && is_continuation(text[head])) --head;
  while (tail < text.size() && is_continuation(text[tail])) ++tail;
  return std::string(text.substr(0, head)) + " ... " + std::string(text.substr(tail));
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  for (const char byte : text) {
    if (!is_continuation(byte)) ++columns;  // continuation bytes take no column
  }
  return columns;
}

std::string left(std::string_view text, std::size_t columns) {
  std::string result(text);
  const std::size_t used = columns_of(text);
  if (used < columns) result.append(columns - used, ' ');
  return result;
}

std::string right(std::string_view text, std::size_t columns) {
  const std::size_t used = columns_of(text);
  std::string result(used < columns ? columns - used : 0, ' ');
  result += text;
  return result;
}

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  const std::string margin(indent, ' ');
  std::string result;
  std::string line;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = text.find(' ', at);
    const std::string_view word = text.substr(at, end == std::string_view::npos ? end : end - at);
    at = end == std::string_view::npos ? text.size() : end + 1;
    if (word.empty()) continue;
    const bool fits = indent + columns_of(line) + 1 + columns_of(word) <= width;
    if (!line.empty() && !fits) {
      result += margin + line + "\n";
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
  }
  if (!line.empty()) result += margin + line + "\n";
  return result;
}

}  // namespace nobounce::report
