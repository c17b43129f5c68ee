// What the driver says of host memory.
#include "provider/host/pinned_memory.hpp"

#include <cstdint>
#include <string>
#include <utility>

namespace nobounce::provider::host {

namespace {

using system::cuda::CUdeviceptr;
using system::cuda::success;

/// A range may consist of several allocations side by side; more than this many are not followed.
constexpr int allocations_most = 64;

/// Memory that the driver does not know is an invalid value to it; any other refusal tells nothing.
MemoryKind kind_at(system::Cuda& cuda, CUdeviceptr address) {
  unsigned managed = 0;
  unsigned type = 0;
  for (const auto& [attribute, value] : {std::pair{system::cuda::pointer_is_managed, &managed},
                                         std::pair{system::cuda::pointer_memory_type, &type}}) {
    const auto code = cuda.pointer_get_attribute(value, attribute, address);
    if (code == system::cuda::error_invalid_value) return MemoryKind::pageable;
    if (code != success) return MemoryKind::unknown;
  }
  if (managed != 0) return MemoryKind::managed;
  return type == system::cuda::memory_type_host ? MemoryKind::pinned : MemoryKind::pageable;
}

/// Where the driver fails to answer, nothing is met.
void set_unknown(Finding& finding) {
  finding.state = FindingState::unmet;
  finding.cause = Cause::memory_kind_unknown;
  finding.observed = "the driver does not tell the kind of the memory";
}

/// The end of the allocation that holds `address`; 0 where the driver does not say.
CUdeviceptr end_of_allocation(system::Cuda& cuda, CUdeviceptr address) {
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  if (cuda.pointer_get_attribute(&start, system::cuda::pointer_range_start, address) != success ||
      cuda.pointer_get_attribute(&bytes, system::cuda::pointer_range_size, address) != success) {
    return 0;
  }
  // The range is in the GPU's view, which need not be the CPU's for registered memory.
  if (start > address || bytes <= address - start) return 0;
  return start + bytes;
}

MemoryKind kind_throughout(system::Cuda& cuda, const HostMemory& memory) {
  auto address = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(memory.address));
  const CUdeviceptr end = address + memory.length_bytes;
  for (int seen = 0; seen < allocations_most && address < end; ++seen) {
    const MemoryKind kind = kind_at(cuda, address);
    if (kind != MemoryKind::pinned) return kind;
    const CUdeviceptr next = end_of_allocation(cuda, address);
    if (next == 0) return kind_at(cuda, end - 1);  // nothing better: both ends are pinned
    address = next;
  }
  return address < end ? MemoryKind::pageable : MemoryKind::pinned;
}

}  // namespace

MemoryKind kind_of(system::Cuda& cuda, const HostMemory& memory) {
  return memory.length_bytes == 0 ? MemoryKind::pinned : kind_throughout(cuda, memory);
}

MemoryKind kind_of(system::Cuda& cuda, const GpuMemory& memory) {
  // What is not managed is the GPU's own, by whatever name.
  if (memory.length_bytes == 0) return MemoryKind::pinned;
  const MemoryKind kind = kind_at(cuda, memory.address.value);
  return kind == MemoryKind::managed || kind == MemoryKind::unknown ? kind : MemoryKind::pinned;
}

Finding judge_host_memory(system::Cuda& cuda, const HostMemory& memory) {
  Finding finding{.cause = Cause::memory_kind_pageable,
                  .subject = "host memory",
                  .state = FindingState::met,
                  .observed = "the driver knows the whole range as pinned",
                  .needed = "pinned host memory",
                  .remedy = {},
                  .source = "cuPointerGetAttribute"};
  const MemoryKind kind = kind_of(cuda, memory);
  if (kind == MemoryKind::pinned) return finding;
  if (kind == MemoryKind::unknown) {
    set_unknown(finding);
    return finding;
  }
  finding.state = FindingState::unmet;
  finding.cause =
      kind == MemoryKind::managed ? Cause::memory_kind_managed : Cause::memory_kind_pageable;
  finding.observed = kind == MemoryKind::managed
                         ? "the range is managed memory"
                         : "the driver does not know the whole range as pinned";
  finding.remedy = "allocate it with Session::allocate_host, cudaMallocHost or cudaHostRegister";
  return finding;
}

Finding judge_gpu_memory(system::Cuda& cuda, const GpuMemory& memory) {
  Finding finding{.cause = Cause::memory_kind_managed,
                  .subject = "gpu:" + std::to_string(memory.gpu),
                  .state = FindingState::met,
                  .observed = "the memory is the GPU's own",
                  .needed = "memory that does not migrate",
                  .remedy = {},
                  .source = "cuPointerGetAttribute"};
  const MemoryKind kind = kind_of(cuda, memory);
  if (kind == MemoryKind::unknown) set_unknown(finding);
  if (kind == MemoryKind::managed) {
    finding.state = FindingState::unmet;
    finding.observed = "the memory is managed";
    finding.remedy = "use cudaMalloc or Session::allocate";
  }
  return finding;
}

}  // namespace nobounce::provider::host
