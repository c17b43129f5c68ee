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

enum class Kind { pinned, pageable, managed, unknown };

/// Memory that the driver does not know is an invalid value to it; any other refusal tells nothing.
Kind kind_at(system::Cuda& cuda, CUdeviceptr address) {
  unsigned managed = 0;
  unsigned type = 0;
  for (const auto& [attribute, value] : {std::pair{system::cuda::pointer_is_managed, &managed},
                                         std::pair{system::cuda::pointer_memory_type, &type}}) {
    const auto code = cuda.pointer_get_attribute(value, attribute, address);
    if (code == system::cuda::error_invalid_value) return Kind::pageable;
    if (code != success) return Kind::unknown;
  }
  if (managed != 0) return Kind::managed;
  return type == system::cuda::memory_type_host ? Kind::pinned : Kind::pageable;
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

Kind kind_throughout(system::Cuda& cuda, const HostMemory& memory) {
  auto address = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(memory.address));
  const CUdeviceptr end = address + memory.length_bytes;
  for (int seen = 0; seen < allocations_most && address < end; ++seen) {
    const Kind kind = kind_at(cuda, address);
    if (kind != Kind::pinned) return kind;
    const CUdeviceptr next = end_of_allocation(cuda, address);
    if (next == 0) return kind_at(cuda, end - 1);  // nothing better: both ends are pinned
    address = next;
  }
  return address < end ? Kind::pageable : Kind::pinned;
}

}  // namespace

Finding judge_host_memory(system::Cuda& cuda, const HostMemory& memory) {
  Finding finding{.cause = Cause::memory_kind_pageable,
                  .subject = "host memory",
                  .state = FindingState::met,
                  .observed = "the driver knows the whole range as pinned",
                  .needed = "pinned host memory",
                  .remedy = {},
                  .source = "cuPointerGetAttribute"};
  if (memory.length_bytes == 0) return finding;
  const Kind kind = kind_throughout(cuda, memory);
  if (kind == Kind::pinned) return finding;
  if (kind == Kind::unknown) {
    set_unknown(finding);
    return finding;
  }
  finding.state = FindingState::unmet;
  finding.cause = kind == Kind::managed ? Cause::memory_kind_managed : Cause::memory_kind_pageable;
  finding.observed = kind == Kind::managed ? "the range is managed memory"
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
  if (memory.length_bytes == 0) return finding;
  const Kind kind = kind_at(cuda, memory.address.value);
  if (kind == Kind::unknown) set_unknown(finding);
  if (kind == Kind::managed) {
    finding.state = FindingState::unmet;
    finding.observed = "the memory is managed";
    finding.remedy = "use cudaMalloc or Session::allocate";
  }
  return finding;
}

}  // namespace nobounce::provider::host
