// Addresses and offsets that must never be mistaken for one another, each a type of its own.
#pragma once

#include <compare>
#include <cstdint>

namespace nobounce {

/// An address in the CUDA driver's view (a CUdeviceptr). The CPU must not dereference it.
struct DevicePointer {
  std::uint64_t value = 0;
  constexpr auto operator<=>(const DevicePointer&) const = default;
  [[nodiscard]] constexpr DevicePointer plus(std::uint64_t offset_bytes) const {
    return DevicePointer{value + offset_bytes};
  }
};

/// An address as it appears on the PCIe bus, after any IOMMU.
struct BusAddress {
  std::uint64_t value = 0;
  constexpr auto operator<=>(const BusAddress&) const = default;
  [[nodiscard]] constexpr BusAddress plus(std::uint64_t offset_bytes) const {
    return BusAddress{value + offset_bytes};
  }
};

/// An address in a device's IOMMU domain; equals a BusAddress only where the IOMMU is off or passes
/// through.
struct Iova {
  std::uint64_t value = 0;
  constexpr auto operator<=>(const Iova&) const = default;
};

/// A position in a file, in bytes from its start.
struct FileOffset {
  std::uint64_t value = 0;
  constexpr auto operator<=>(const FileOffset&) const = default;
  [[nodiscard]] constexpr FileOffset plus(std::uint64_t offset_bytes) const {
    return FileOffset{value + offset_bytes};
  }
};

}  // namespace nobounce
