// The state of one GPU's engine.
#pragma once

#include <memory>
#include <vector>

#include "fabric/soft_gpu_engine.hpp"

namespace nobounce::fabric {

class GpuEngines::Engine final : public system::Worker {
 public:
  Engine(GpuEngines& all, std::uint32_t index) : owner(all), gpu(index) {}
  system::Step step() override;

  GpuEngines& owner;
  const std::uint32_t gpu;
  system::WorkerId id = 0;                         ///< 0: not started yet
  std::vector<std::shared_ptr<GpuStream>> active;  ///< streams that hold commands
};

}  // namespace nobounce::fabric
