// What the driver says of host memory: pinned from end to end, or not.
#pragma once

#include <cstdint>

#include <nobounce/finding.hpp>
#include <nobounce/place.hpp>
#include "system/cuda_contexts.hpp"

namespace nobounce::provider::host {

/// Of memory that a copy engine is to read or write. `pinned` counts for a GPU's own memory too.
enum class MemoryKind : std::uint8_t { pinned, pageable, managed, unknown };

/// The kind of the whole range, with the GPU's context current. Allocates nothing.
[[nodiscard]] MemoryKind kind_of(system::Cuda& cuda, const HostMemory& memory);
[[nodiscard]] MemoryKind kind_of(system::Cuda& cuda, const GpuMemory& memory);

/// Judges that every page of the range is pinned. Unmet: memory.kind_pageable, or
/// memory.kind_managed.
[[nodiscard]] Finding judge_host_memory(system::Cuda& cuda, const HostMemory& memory);

/// Judges that GPU memory is the GPU's own and not managed, whose pages may lie in host memory.
[[nodiscard]] Finding judge_gpu_memory(system::Cuda& cuda, const GpuMemory& memory);

}  // namespace nobounce::provider::host
