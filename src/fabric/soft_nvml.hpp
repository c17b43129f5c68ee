// NVML of a software machine: its GPUs, windows and links, with byte counters read off the bus's
// ledger.
#pragma once

#include <memory>

#include "fabric/bus.hpp"
#include "fabric/soft_gpu.hpp"
#include "system/host.hpp"
#include "system/nvml.hpp"

namespace nobounce::fabric {

/// Counters show 1.0 x payload; the PCIe ones are 32-bit and wrap, as on real GPUs. All must
/// outlive it.
[[nodiscard]] std::unique_ptr<system::Nvml> make_soft_nvml(const Bus& bus,
                                                           const GpuAllocations& allocations,
                                                           system::Clock& clock);

}  // namespace nobounce::fabric
