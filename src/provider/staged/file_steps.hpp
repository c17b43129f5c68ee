// One read or one write between a file and a slot, with O_DIRECT for whole pages where that was
// chosen.
#pragma once

#include <cstdint>
#include <optional>

#include "provider/staged/slot_ring.hpp"
#include "system/open_files.hpp"
#include "system/storage.hpp"

namespace nobounce::provider::staged {

struct FileStep {
  bool finished = false;  ///< the slot is filled or drained as far as it will be
  std::optional<Error> error;
};

/// Whether the pages of the piece are better read with O_DIRECT: the file allows it and most of
/// them are not cached.
[[nodiscard]] bool prefers_direct_read(system::Storage& storage, const system::OpenFile& file,
                                       FileOffset offset, std::uint64_t length_bytes);
/// Whole pages of a large piece are written with O_DIRECT where the file allows it. No page is ever
/// written both ways.
[[nodiscard]] bool prefers_direct_write(const system::OpenFile& file, std::uint64_t length_bytes);

/// Reads once into the slot. At the end of the file the piece is cut to what there is, and
/// `short_source` is set.
[[nodiscard]] FileStep read_once(system::Storage& storage, Slot& slot);
/// Writes once from the slot.
[[nodiscard]] FileStep write_once(system::Storage& storage, Slot& slot);

}  // namespace nobounce::provider::staged
