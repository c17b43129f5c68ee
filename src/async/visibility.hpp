// What makes bytes that devices wrote into GPU memory visible to later work there.
#pragma once

#include <nobounce/async.hpp>
#include "system/cuda_contexts.hpp"

namespace nobounce::async {

/// What a GPU's driver says of stream memory operations and of inbound writes.
struct GpuAbilities {
  bool wait_and_write_words = false;  ///< 64-bit stream memory operations
  bool flush_in_wait = false;         ///< CU_STREAM_WAIT_VALUE_FLUSH
  int writes_ordering = 0;  ///< 100: seen in order by the GPU that owns the memory; 200: all
  int flush_options = 0;    ///< bits: 1 by the host, 2 by memory operations
};

[[nodiscard]] Result<GpuAbilities> read_abilities(system::CudaContexts& contexts,
                                                  std::uint32_t gpu);

/// For bytes that another device wrote by itself. Copies of the GPU's own engines are `native`.
/// `by_owner`: what reads them runs on the GPU that owns the memory, whose abilities these are.
[[nodiscard]] Visibility visibility_of(const GpuAbilities& abilities, bool by_owner);

}  // namespace nobounce::async
