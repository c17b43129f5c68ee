// The CUDA driver of a software machine: the real one's codes, order and silences, over engines
// that use the bus.
#pragma once

#include <memory>
#include <optional>

#include "fabric/bus.hpp"
#include "fabric/soft_dmabuf.hpp"
#include "fabric/soft_gpu.hpp"
#include "fabric/soft_gpu_engine.hpp"
#include "fabric/soft_host.hpp"
#include "fabric/soft_kernel.hpp"
#include "system/cuda.hpp"
#include "system/host.hpp"

namespace nobounce::fabric {

/// The driver with what no table of it has.
class SoftCudaTable : public system::Cuda {
 public:
  /// Queues a kernel on a stream of the current context, or its default stream.
  [[nodiscard]] virtual CUresult launch(CUstream stream, Kernel kernel) = 0;
  /// Another process of this machine allocates memory of a GPU and exports it. Nothing where the
  /// GPU has no room. What lies there is its alone: no pointer query of this process knows it.
  [[nodiscard]] virtual std::optional<OtherProcessMemory> export_from_other_process(
      std::uint32_t gpu, std::uint64_t length_bytes) = 0;
};

/// All must outlive the driver. CUDA_VISIBLE_DEVICES is read from `environment` by cuInit.
[[nodiscard]] std::unique_ptr<SoftCudaTable> make_soft_cuda(Bus& bus, GpuAllocations& allocations,
                                                            GpuEngines& engines,
                                                            system::Environment& environment,
                                                            DmaBufs& dmabufs);

}  // namespace nobounce::fabric
