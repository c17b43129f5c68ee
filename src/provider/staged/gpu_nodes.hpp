// The NUMA nodes of GPUs, as their PCI devices say.
#pragma once

#include <cstdint>
#include <map>

#include "system/cuda_contexts.hpp"
#include "system/host.hpp"

namespace nobounce::provider::staged {

/// Reads each GPU's node once. Used by one reader; not thread-safe.
class GpuNodes {
 public:
  GpuNodes(system::Host& host, system::CudaContexts* contexts) : host_(host), contexts_(contexts) {}

  /// 0 where it is unknown.
  [[nodiscard]] std::uint32_t numa_of(std::uint32_t gpu);

 private:
  [[nodiscard]] std::uint32_t read(std::uint32_t gpu) const;

  system::Host& host_;
  system::CudaContexts* contexts_;
  std::map<std::uint32_t, std::uint32_t> nodes_;
};

}  // namespace nobounce::provider::staged
