// Device addresses that stand for GPU memory elsewhere.
#include "fabric/bus_device_map.hpp"

#include <iterator>
#include <mutex>

namespace nobounce::fabric {

void BusDeviceMap::map(DevicePointer at, std::uint64_t length_bytes, DevicePointer memory) {
  const std::unique_lock lock(mutex_);
  mappings_[at.value] = {length_bytes, memory};
}

void BusDeviceMap::unmap(DevicePointer at) {
  const std::unique_lock lock(mutex_);
  mappings_.erase(at.value);
}

std::optional<DevicePointer> BusDeviceMap::memory_at(DevicePointer at,
                                                     std::uint64_t length_bytes) const {
  const std::shared_lock lock(mutex_);
  const auto next = mappings_.upper_bound(at.value);
  if (next == mappings_.begin()) return std::nullopt;
  const auto& [begin, mapping] = *std::prev(next);
  const std::uint64_t inside = at.value - begin;
  if (inside > mapping.length_bytes || length_bytes > mapping.length_bytes - inside) {
    return std::nullopt;
  }
  return mapping.memory.plus(inside);
}

}  // namespace nobounce::fabric
