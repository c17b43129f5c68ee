// Strict parsers for sizes and seconds.
#include "cli/quantity_argument.hpp"

#include <array>
#include <charconv>
#include <limits>
#include <string>
#include <utility>

namespace nobounce::cli {

namespace {

constexpr const char* size_remedy = "write bytes as 4096, 64KiB, 256MiB, 1GiB or 1GB";
constexpr const char* seconds_remedy = "write seconds as 30 or 0.5";

Error wrong(std::string_view text, std::string detail, const char* remedy) {
  return Error{.origin = ErrorOrigin::input,
               .attempted = "read \"" + std::string(text) + "\"",
               .detail = std::move(detail),
               .remedy = remedy};
}

bool is_digit(char character) {
  return character >= '0' && character <= '9';
}

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};

constexpr std::array<Unit, 11> units{{{"", 1},
                                      {"B", 1},
                                      {"KiB", 1ULL << 10},
                                      {"MiB", 1ULL << 20},
                                      {"GiB", 1ULL << 30},
                                      {"TiB", 1ULL << 40},
                                      {"KB", 1000},
                                      {"kB", 1000},
                                      {"MB", 1000 * 1000},
                                      {"GB", 1000ULL * 1000 * 1000},
                                      {"TB", 1000ULL * 1000 * 1000 * 1000}}};

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec == std::errc::result_out_of_range)
    return wrong(text, "that many bytes cannot be counted", size_remedy);
  if (parsed.ec != std::errc() || !is_digit(text.front()))
    return wrong(text, "not a size in bytes", size_remedy);
  const std::string_view name(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  for (const Unit& unit : units) {
    if (unit.name != name) continue;
    if (number > std::numeric_limits<std::uint64_t>::max() / unit.bytes) {
      return wrong(text, "that many bytes cannot be counted", size_remedy);
    }
    return number * unit.bytes;
  }
  if (name == "K" || name == "k" || name == "M" || name == "G" || name == "T") {
    return wrong(text, "\"" + std::string(name) + "\" could mean powers of 1000 or of 1024",
                 size_remedy);
  }
  return wrong(text, "\"" + std::string(name) + "\" is no unit of bytes", size_remedy);
}

Result<std::uint64_t> parse_number(std::string_view text, std::uint64_t most) {
  const std::string remedy = "write a whole number from 0 to " + std::to_string(most);
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  const bool digits = !text.empty() && is_digit(text.front()) && parsed.ptr == end;
  if (!digits) return wrong(text, "not a number without a sign", remedy.c_str());
  if (parsed.ec != std::errc() || number > most) {
    return wrong(text, "the number is too large", remedy.c_str());
  }
  return number;
}

Result<std::uint64_t> parse_seconds(std::string_view text) {
  constexpr std::uint64_t nanoseconds = 1000ULL * 1000 * 1000;
  constexpr std::uint64_t seconds_max = 100ULL * 365 * 24 * 3600;
  std::uint64_t whole = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, whole);
  const bool number = !text.empty() && is_digit(text.front());
  if (number && (parsed.ec == std::errc::result_out_of_range || whole > seconds_max)) {
    return wrong(text, "more than " + std::to_string(seconds_max) + " seconds (a hundred years)",
                 seconds_remedy);
  }
  if (parsed.ec != std::errc() || !number) {
    return wrong(text, "not a number of seconds", seconds_remedy);
  }
  std::uint64_t result = whole * nanoseconds;
  std::string_view rest(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  if (!rest.empty()) {
    if (rest.front() != '.' || rest.size() < 2 || rest.size() > 10) {
      return wrong(text, "not a number of seconds", seconds_remedy);
    }
    rest.remove_prefix(1);
    std::uint64_t scale = nanoseconds;
    for (const char digit : rest) {
      if (!is_digit(digit)) return wrong(text, "not a number of seconds", seconds_remedy);
      scale /= 10;
      result += static_cast<std::uint64_t>(digit - '0') * scale;
    }
  }
  if (result == 0) return wrong(text, "zero seconds leave no time for anything", seconds_remedy);
  return result;
}

}  // namespace nobounce::cli
