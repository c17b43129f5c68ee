// Numbers as text.
#include "report/quantity.hpp"

#include <array>
#include <string_view>

#include <fmt/core.h>

namespace nobounce::report {

namespace {

/// Three significant digits where there are any behind the point.
std::string three_digits(double value) {
  if (value >= 99.95) return fmt::format("{:.0f}", value);
  if (value >= 9.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

}  // namespace

std::string grouped(std::uint64_t number) {
  const std::string digits = fmt::format("{}", number);
  std::string result;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % 3 == 0) result += ',';
    result += digits[i];
  }
  return result;
}

std::string short_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  static constexpr std::array<std::string_view, 6> units{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024.0;
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < units.size()) {
    value /= 1024.0;
    ++unit;
  }
  std::string number = fmt::format("{:.1f}", value);
  if (number.size() > 2 && number.substr(number.size() - 2) == ".0")
    number.resize(number.size() - 2);
  return fmt::format("{} {}", number, units[unit]);
}

std::string exact_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  return fmt::format("{} B ({})", grouped(bytes), short_bytes(bytes));
}

std::string share(std::uint64_t part, std::uint64_t whole) {
  if (part == 0 || whole == 0) return "0 %";
  if (part >= whole) return "100 %";
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  if (percent < 0.1) return "< 0.1 %";
  if (percent > 99.9) return "> 99.9 %";
  return fmt::format("{:.1f} %", percent);
}

std::string duration(std::uint64_t nanoseconds) {
  const auto value = static_cast<double>(nanoseconds);
  if (nanoseconds < 1000) return fmt::format("{} ns", nanoseconds);
  if (value < 1e6) return three_digits(value / 1e3) + " us";
  if (value < 1e9) return three_digits(value / 1e6) + " ms";
  return three_digits(value / 1e9) + " s";
}

std::string rate(std::uint64_t bytes, std::uint64_t nanoseconds) {
  if (nanoseconds == 0) return {};
  // Bytes per nanosecond are decimal gigabytes per second.
  const double gigabytes = static_cast<double>(bytes) / static_cast<double>(nanoseconds);
  if (gigabytes >= 1.0) return three_digits(gigabytes) + " GB/s";
  if (gigabytes >= 1e-3) return three_digits(gigabytes * 1e3) + " MB/s";
  return three_digits(gigabytes * 1e6) + " kB/s";
}

}  // namespace nobounce::report
