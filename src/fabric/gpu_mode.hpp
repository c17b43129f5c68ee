// What the soft driver makes of a GPU's mode.
#pragma once

#include <cstdint>

#include <nobounce/machine.hpp>

namespace nobounce::fabric {

/// Whether the driver pins this GPU's memory for other devices.
[[nodiscard]] inline bool pins_for_others(const Machine& machine, std::uint32_t gpu) {
  return machine.gpus[gpu].gpudirect_rdma && machine.gpus[gpu].mode != GpuMode::integrated &&
         !machine.confidential;
}

}  // namespace nobounce::fabric
