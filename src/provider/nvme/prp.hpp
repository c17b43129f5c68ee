// Physical region pages: how a command names the memory that it moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <nobounce/units.hpp>

namespace nobounce::provider::nvme {

/// Pages in which a list may be written, one after the other. The CPU writes at `address` what the
/// drive reads at `iova`.
struct PrpList {
  std::byte* address = nullptr;
  Iova iova;
  std::uint64_t length_bytes = 0;
};

struct Prps {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

/// Names [memory, memory + length) by pages of `page_bytes`, writing a list where two entries do
/// not do. Nothing where the list is too small, or where `memory` is no multiple of four.
[[nodiscard]] std::optional<Prps> write_prps(Iova memory, std::uint64_t length_bytes,
                                             std::uint64_t page_bytes, const PrpList& list);

/// How many bytes of list the longest transfer of that length can need.
[[nodiscard]] std::uint64_t prp_list_bytes(std::uint64_t length_bytes, std::uint64_t page_bytes);

}  // namespace nobounce::provider::nvme
