// Colour codes, padding and line breaking for the text reports.
#include "report/style.hpp"

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

}  // namespace

std::string painted(std::string_view text, Paint paint, Style style) {
  if (!style.colour || paint == Paint::plain || text.empty()) return std::string(text);
  std::string result(code_of(paint));
  result += text;
  result += "\x1b[0m";
  return result;
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  for (const char byte : text) {
    const auto value = static_cast<unsigned char>(byte);
    if ((value & 0xC0U) != 0x80U) ++columns;  // continuation bytes take no column
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
