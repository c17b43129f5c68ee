// Facts about one GPU that decide whether streams and kernels may order transfers.
#pragma once

#include <cstdint>

#include "core/facts.hpp"

namespace nobounce::core {

struct AsyncFacts {
  std::uint32_t gpu = 0;
  Fact stream_words;      ///< 64-bit stream memory operations
  Fact inbound_ordered;   ///< the GPU sees what devices write in order
  Fact flush_by_stream;   ///< its streams can flush inbound writes
  Fact flush_by_host;     ///< the host can
  Fact host_memory_seen;  ///< its kernels reach pinned host memory by the host's own pointers
};

}  // namespace nobounce::core
