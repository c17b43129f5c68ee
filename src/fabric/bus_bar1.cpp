// The BAR1 window's page table.
#include "fabric/bus_bar1.hpp"

#include <iterator>

namespace nobounce::fabric {

std::optional<std::uint64_t> BusBar1::map(std::uint64_t memory_offset, std::uint64_t length_bytes) {
  const std::uint64_t lead = memory_offset % page_bytes;
  const std::uint64_t length = (lead + length_bytes + page_bytes - 1) / page_bytes * page_bytes;
  const std::unique_lock lock(mutex_);
  std::uint64_t at = 0;
  for (const auto& [begin, mapping] : mappings_) {
    if (begin - at >= length) break;
    at = begin + mapping.length_bytes;
  }
  if (length > size_bytes_ || at > size_bytes_ - length) return std::nullopt;
  mappings_.emplace(at, Mapping{length, memory_offset - lead, at + lead});
  used_bytes_ += length;
  return at + lead;
}

bool BusBar1::unmap(std::uint64_t window_offset) {
  const std::unique_lock lock(mutex_);
  const auto found = mappings_.find(window_offset / page_bytes * page_bytes);
  if (found == mappings_.end() || found->second.answered != window_offset) return false;
  used_bytes_ -= found->second.length_bytes;
  mappings_.erase(found);
  return true;
}

std::optional<std::uint64_t> BusBar1::memory_at(std::uint64_t window_offset,
                                                std::uint64_t length_bytes) const {
  const std::shared_lock lock(mutex_);
  auto next = mappings_.upper_bound(window_offset);
  if (next == mappings_.begin()) return std::nullopt;
  const auto& [begin, mapping] = *std::prev(next);
  const std::uint64_t inside = window_offset - begin;
  if (inside >= mapping.length_bytes || length_bytes > mapping.length_bytes - inside) {
    return std::nullopt;
  }
  return mapping.memory_page + inside;
}

std::uint64_t BusBar1::used_bytes() const {
  const std::shared_lock lock(mutex_);
  return used_bytes_;
}

}  // namespace nobounce::fabric
