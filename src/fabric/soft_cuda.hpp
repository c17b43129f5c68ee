// The CUDA driver of a software machine: the real one's codes, order and silences, over engines
// that use the bus.
#pragma once

#include <memory>

#include "fabric/bus.hpp"
#include "fabric/soft_gpu.hpp"
#include "fabric/soft_gpu_engine.hpp"
#include "system/cuda.hpp"
#include "system/host.hpp"

namespace nobounce::fabric {

/// All must outlive the driver. CUDA_VISIBLE_DEVICES is read from `environment` by cuInit.
[[nodiscard]] std::unique_ptr<system::Cuda> make_soft_cuda(Bus& bus, GpuAllocations& allocations,
                                                           GpuEngines& engines,
                                                           system::Environment& environment);

}  // namespace nobounce::fabric
