// Anonymous pages on a NUMA node.
#pragma once

#include <cstddef>
#include <cstdint>

#include <nobounce/result.hpp>

namespace nobounce::system {

struct NumaPages {
  std::byte* address = nullptr;
  std::uint64_t mapped_bytes = 0;  ///< whole pages
  std::uint32_t numa = 0;          ///< where they really lie
};

/// Zeroed pages, on the wanted node if the machine has several and the kernel lets us.
[[nodiscard]] Result<NumaPages> map_numa_pages(std::uint64_t length_bytes, std::uint32_t numa);
void unmap_numa_pages(std::byte* address, std::uint64_t length_bytes);

}  // namespace nobounce::system
