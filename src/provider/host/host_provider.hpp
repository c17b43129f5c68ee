// Host: pinned host memory <-> GPU memory by the GPU's copy engine, which reads and writes those
// very pages (direct).
#pragma once

#include <memory>

#include "core/provider.hpp"
#include "system/cuda_contexts.hpp"
#include "system/host.hpp"

namespace nobounce::provider {

/// Also GPU memory <-> the same GPU's memory. Refuses pageable host memory (memory.kind_pageable):
/// the driver would stage it in silence. All references must outlive the provider. Thread-safe.
[[nodiscard]] std::unique_ptr<core::Provider> make_host_provider(system::Host& host,
                                                                 system::CudaContexts& contexts);

}  // namespace nobounce::provider
