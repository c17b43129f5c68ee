// Kernels of blocks that each do their share of one job a step at a time. A block is one lane.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "fabric/soft_kernels.hpp"

namespace nobounce::fabric {

/// `Block(const Job&, index)` has `step(Lane&)`, which never waits, and `done()`.
template <typename Block, typename Job>
[[nodiscard]] Kernel kernel_of_blocks(const KernelShape& shape, void* const* parameters) {
  struct Grid {
    Job job;
    std::vector<Block> blocks;
  };
  auto grid = std::make_shared<Grid>();
  std::memcpy(&grid->job, parameters[0], sizeof grid->job);  // layers: a launch's parameters
  for (std::uint32_t i = 0; i < shape.blocks; ++i) grid->blocks.emplace_back(grid->job, i);
  return [grid](Lane& lane) {
    bool done = true;
    for (Block& block : grid->blocks) {
      block.step(lane);
      done = done && block.done();
    }
    return done ? system::Step::done() : system::Step::busy();
  };
}

}  // namespace nobounce::fabric
