// Reads the kernel's list of caches.
#include "proof/cache_size.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>

namespace nobounce::proof {
namespace {

/// `32768K`, as the kernel writes it; M and G too.
std::optional<std::uint64_t> size_from(const std::string& text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc()) return std::nullopt;
  unsigned shift = 0;
  if (parsed.ptr != end) {
    if (*parsed.ptr == 'K') shift = 10;
    if (*parsed.ptr == 'M') shift = 20;
    if (*parsed.ptr == 'G') shift = 30;
  }
  if (number > std::numeric_limits<std::uint64_t>::max() >> shift) return std::nullopt;
  return number << shift;
}

}  // namespace

std::optional<std::uint64_t> last_level_cache_bytes(system::Files& files) {
  constexpr const char* folder = "/sys/devices/system/cpu/cpu0/cache";
  const Result<std::vector<std::string>> entries = files.list(folder);
  if (!entries.ok()) return std::nullopt;
  std::optional<std::uint64_t> largest;
  for (const std::string& entry : *entries) {
    if (entry.compare(0, 5, "index") != 0) continue;
    const Result<std::string> text = files.read(std::string(folder) + "/" + entry + "/size");
    if (!text.ok()) continue;
    const std::optional<std::uint64_t> size = size_from(*text);
    if (size.has_value()) largest = std::max(largest.value_or(0), *size);
  }
  return largest;
}

}  // namespace nobounce::proof
