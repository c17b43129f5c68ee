// Devices of a machine by their numbers.
#pragma once

#include <cstdint>

#include <nobounce/machine.hpp>

namespace nobounce::core {

[[nodiscard]] inline DeviceRef gpu_ref(std::uint32_t gpu) {
  return {DeviceRef::Kind::gpu, static_cast<std::uint16_t>(gpu)};
}

[[nodiscard]] inline DeviceRef drive_ref(std::uint32_t drive) {
  return {DeviceRef::Kind::drive, static_cast<std::uint16_t>(drive)};
}

}  // namespace nobounce::core
