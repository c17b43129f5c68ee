// Parses the counts of the nvidia-fs driver.
#include "evidence/nvidia_fs_counts.hpp"

#include <charconv>

namespace nobounce::evidence {
namespace {

/// The number after `n=` in the first line that begins with `head`, in the driver's own spacing.
std::optional<std::uint64_t> count_of(std::string_view text, std::string_view head) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find('\n', at);
    if (end == std::string_view::npos) end = text.size();
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.substr(0, head.size()) != head) continue;
    std::size_t after = head.size();
    while (after < line.size() && (line[after] == ' ' || line[after] == '\t')) ++after;
    if (after >= line.size() || line[after] != ':') continue;
    const std::size_t found = line.find("n=", after);
    if (found == std::string_view::npos) continue;
    std::uint64_t number = 0;
    const char* first = line.data() + found + 2;
    const char* last = line.data() + line.size();
    if (std::from_chars(first, last, number).ec == std::errc()) return number;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> nvidia_fs_operations(std::string_view text) {
  const std::optional<std::uint64_t> reads = count_of(text, "Reads");
  const std::optional<std::uint64_t> writes = count_of(text, "Writes");
  if (!reads.has_value() || !writes.has_value()) return std::nullopt;
  return *reads + *writes;
}

}  // namespace nobounce::evidence
