// Parses /sys/class/block/NAME/stat and /proc/meminfo.
#include "evidence/kernel_counts.hpp"

#include <array>
#include <charconv>
#include <limits>

namespace nobounce::evidence {
namespace {

constexpr std::uint64_t sector_bytes = 512;
constexpr std::uint64_t kilobyte_bytes = 1024;
constexpr std::size_t sectors_read_field = 2;
constexpr std::size_t sectors_written_field = 6;

/// The next number after blanks; advances `text` past it.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return std::nullopt;
  text.remove_prefix(begin);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

std::optional<std::uint64_t> scaled(std::uint64_t number, std::uint64_t unit) {
  if (number > std::numeric_limits<std::uint64_t>::max() / unit) return std::nullopt;
  return number * unit;
}

}  // namespace

std::optional<std::uint64_t> block_device_bytes(std::string_view stat) {
  std::array<std::uint64_t, sectors_written_field + 1> fields{};
  for (std::uint64_t& field : fields) {
    const auto number = take_number(stat);
    if (!number.has_value()) return std::nullopt;
    field = *number;
  }
  const std::uint64_t read = fields[sectors_read_field];
  const std::uint64_t written = fields[sectors_written_field];
  if (read > std::numeric_limits<std::uint64_t>::max() - written) return std::nullopt;
  return scaled(read + written, sector_bytes);
}

std::optional<std::uint64_t> page_cache_bytes(std::string_view meminfo) {
  constexpr std::string_view name = "Cached:";
  while (!meminfo.empty()) {
    const std::size_t end = meminfo.find('\n');
    std::string_view line = meminfo.substr(0, end);
    meminfo.remove_prefix(end == std::string_view::npos ? meminfo.size() : end + 1);
    if (line.substr(0, name.size()) != name) continue;
    line.remove_prefix(name.size());
    const auto kilobytes = take_number(line);
    return kilobytes.has_value() ? scaled(*kilobytes, kilobyte_bytes) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace nobounce::evidence
