// Host memory of a software machine: DRAM of the bus, registered with the soft driver where it is
// pinned.
#pragma once

#include <memory>

#include "fabric/bus.hpp"
#include "fabric/soft_gpu.hpp"
#include "system/memory.hpp"

namespace nobounce::fabric {

/// All must outlive the memory.
[[nodiscard]] std::unique_ptr<system::Memory> make_soft_memory(Bus& bus,
                                                               GpuAllocations& allocations);

}  // namespace nobounce::fabric
