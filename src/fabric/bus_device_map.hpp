// Device addresses that are not the memory's own: ranges of a window of their own that stand for
// GPU memory, as virtual memory mappings and imports of other processes do.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>

#include <nobounce/units.hpp>

namespace nobounce::fabric {

/// Thread-safe.
class BusDeviceMap {
 public:
  /// Must overlap nothing that is mapped.
  void map(DevicePointer at, std::uint64_t length_bytes, DevicePointer memory);
  /// Takes where a mapping begins.
  void unmap(DevicePointer at);
  /// The memory behind a stretch of the window, if one mapping holds all of it.
  [[nodiscard]] std::optional<DevicePointer> memory_at(DevicePointer at,
                                                       std::uint64_t length_bytes) const;

 private:
  struct Mapping {
    std::uint64_t length_bytes = 0;
    DevicePointer memory;
  };
  mutable std::shared_mutex mutex_;
  std::map<std::uint64_t, Mapping> mappings_;
};

}  // namespace nobounce::fabric
