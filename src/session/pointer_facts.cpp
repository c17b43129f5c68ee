// What the driver says of a pointer: whose memory, and of which kind.
#include <utility>

#include "session/region_state.hpp"

namespace nobounce::session {

namespace {

using system::cuda::CUdeviceptr;

template <typename Value>
bool ask(system::Cuda& cuda, int attribute, DevicePointer address, Value& value) {
  return cuda.pointer_get_attribute(&value, attribute, address.value) == system::cuda::success;
}

/// What the driver answers where it knows of no such thing; any other code tells nothing.
bool says_no(system::cuda::CUresult code) {
  return code == system::cuda::error_invalid_value || code == system::cuda::error_not_supported;
}

}  // namespace

Result<PointerFacts> ask_pointer(SessionState& state, DevicePointer address) {
  if (state.contexts == nullptr) return *state.cuda_error;
  system::Cuda& cuda = state.contexts->table();
  unsigned type = 0;
  const system::cuda::CUresult code =
      cuda.pointer_get_attribute(&type, system::cuda::pointer_memory_type, address.value);
  if (code != system::cuda::success) {
    return cuda_error(cuda, code, "ask the driver about a pointer", Cause::memory_kind_unknown);
  }
  PointerFacts facts;
  unsigned managed = 0;
  void* pool = nullptr;
  // Managed memory and pools must not pass for plain memory because the driver failed to answer.
  for (const auto& [attribute, value] :
       {std::pair<int, void*>{system::cuda::pointer_is_managed, &managed},
        std::pair<int, void*>{system::cuda::pointer_mempool_handle, &pool}}) {
    const auto answer = cuda.pointer_get_attribute(value, attribute, address.value);
    if (answer != system::cuda::success && !says_no(answer)) {
      return cuda_error(cuda, answer, "ask the driver about a pointer", Cause::memory_kind_unknown);
    }
  }
  if (managed != 0) {
    facts.kind = AllocationKind::managed;
  } else if (type == system::cuda::memory_type_host) {
    facts.kind = AllocationKind::host_pinned;
  } else if (pool != nullptr) {
    facts.kind = AllocationKind::pool;
  } else {
    facts.kind = AllocationKind::device;
  }
  int ordinal = 0;
  if (ask(cuda, system::cuda::pointer_device_ordinal, address, ordinal) && ordinal >= 0) {
    Result<std::uint32_t> gpu = state.contexts->gpu_of_ordinal(ordinal);
    if (!gpu.ok()) return std::move(gpu).error();
    facts.gpu = *gpu;
  }
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  if (ask(cuda, system::cuda::pointer_range_start, address, start) &&
      ask(cuda, system::cuda::pointer_range_size, address, bytes)) {
    facts.range_start = start;
    facts.range_bytes = bytes;
  } else {
    facts.range_start = address.value;
  }
  return facts;
}

}  // namespace nobounce::session
