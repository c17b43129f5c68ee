// PRP entries: the first may begin inside a page, the others begin one; a list goes on in a further
// page only where more entries follow than fit.
#include "provider/nvme/prp.hpp"

#include <algorithm>
#include <cstring>

namespace nobounce::provider::nvme {
namespace {

constexpr std::uint64_t entry_bytes = 8;

void put_entry(const PrpList& list, std::uint64_t index, std::uint64_t value) {
  std::memcpy(list.address + index * entry_bytes, &value, sizeof value);
}

/// Entries for the pages from `page` on, each list page chained to the next by its last slot.
bool write_list(std::uint64_t page, std::uint64_t entries, std::uint64_t page_bytes,
                const PrpList& list) {
  const std::uint64_t per_page = page_bytes / entry_bytes;
  std::uint64_t slot = 0;
  while (entries > 0) {
    if (slot + std::min(entries, per_page) > list.length_bytes / entry_bytes) return false;
    // A list that ends with its page has an entry in the last slot, not a pointer.
    const bool chained = entries > per_page;
    const std::uint64_t here = chained ? per_page - 1 : entries;
    for (std::uint64_t i = 0; i < here; ++i, page += page_bytes) put_entry(list, slot + i, page);
    entries -= here;
    if (chained) put_entry(list, slot + here, list.iova.value + (slot + per_page) * entry_bytes);
    slot += per_page;
  }
  return true;
}

}  // namespace

std::optional<Prps> write_prps(Iova memory, std::uint64_t length_bytes, std::uint64_t page_bytes,
                               const PrpList& list) {
  if (memory.value % 4 != 0 || length_bytes == 0) return std::nullopt;
  Prps prps;
  prps.first = memory.value;
  const std::uint64_t in_first = page_bytes - memory.value % page_bytes;
  if (length_bytes <= in_first) return prps;
  const std::uint64_t second_page = memory.value + in_first;
  const std::uint64_t entries = (length_bytes - in_first + page_bytes - 1) / page_bytes;
  if (entries == 1) {
    prps.second = second_page;
    return prps;
  }
  prps.second = list.iova.value;
  if (!write_list(second_page, entries, page_bytes, list)) return std::nullopt;
  return prps;
}

std::uint64_t prp_list_bytes(std::uint64_t length_bytes, std::uint64_t page_bytes) {
  const std::uint64_t per_page = page_bytes / entry_bytes;
  // The first entry is in the command; a memory that begins inside a page needs one more.
  std::uint64_t entries = (length_bytes + page_bytes - 1) / page_bytes;
  std::uint64_t pages = 1;
  for (; entries > per_page; entries -= per_page - 1) ++pages;
  return pages * page_bytes;
}

}  // namespace nobounce::provider::nvme
