// What the driver says of a pointer: whose memory, and of which kind.
#include <cstdint>
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

Error no_answer(system::Cuda& cuda, system::cuda::CUresult code) {
  return cuda_error(cuda, code, "ask the driver about a pointer", Cause::memory_kind_unknown);
}

/// Mappings are told by their handle alone.
Result<bool> is_mapping(system::Cuda& cuda, DevicePointer address) {
  system::cuda::CUmemGenericAllocationHandle handle = 0;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver takes device addresses as pointers here
  void* pointer = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address.value));
  const auto code = cuda.mem_retain_allocation_handle(&handle, pointer);
  if (code != system::cuda::success && !says_no(code)) return no_answer(cuda, code);
  if (code == system::cuda::success) (void)cuda.mem_release(handle);
  return code == system::cuda::success;
}

Result<bool> may_be_exported(system::Cuda& cuda, DevicePointer address) {
  std::uint64_t capable = 0;  // "a boolean", of a width that the driver's documentation keeps
  const auto code = cuda.pointer_get_attribute(
      &capable, system::cuda::pointer_is_legacy_cuda_ipc_capable, address.value);
  if (code != system::cuda::success && !says_no(code)) return no_answer(cuda, code);
  return code != system::cuda::success || (capable & 0xff) != 0;
}

/// Memory of another process cannot be exported again. Where the driver says so of memory of our
/// own too, it says nothing.
Result<bool> is_import(SessionState& state, DevicePointer address, std::uint32_t gpu) {
  system::Cuda& cuda = state.contexts->table();
  Result<bool> exportable = may_be_exported(cuda, address);
  if (!exportable.ok() || *exportable) return exportable.ok() ? Result<bool>(false) : exportable;
  const Result<GpuMemory> own = allocate_gpu(state, gpu, 1);
  if (!own.ok()) return true;  // no room to compare: its word is taken
  Result<bool> tells = may_be_exported(cuda, own->address);
  free_gpu(state, *own);
  return tells;
}

}  // namespace

Result<PointerFacts> ask_pointer(SessionState& state, DevicePointer address) {
  if (state.contexts == nullptr) return *state.cuda_error;
  system::Cuda& cuda = state.contexts->table();
  unsigned type = 0;
  const system::cuda::CUresult code =
      cuda.pointer_get_attribute(&type, system::cuda::pointer_memory_type, address.value);
  if (code != system::cuda::success) {
    return no_answer(cuda, code);
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
      return no_answer(cuda, answer);
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
  if (facts.kind != AllocationKind::device) return facts;
  const Result<bool> mapping = is_mapping(cuda, address);
  if (!mapping.ok()) return mapping.error();
  const Result<bool> import = *mapping ? Result<bool>(false) : is_import(state, address, facts.gpu);
  if (!import.ok()) return import.error();
  if (*mapping) facts.kind = AllocationKind::vmm;
  if (*import) facts.kind = AllocationKind::ipc_import;
  return facts;
}

Result<std::uint64_t> mapped_bytes(SessionState& state, std::uint32_t gpu, DevicePointer address,
                                   std::uint64_t length_bytes) {
  Result<system::cuda::CUcontext> context = state.contexts->context(gpu);
  if (!context.ok()) return std::move(context).error();
  system::Cuda& cuda = state.contexts->table();
  const system::ContextGuard guard(cuda, *context);
  std::uint64_t reached = 0;
  while (reached < length_bytes) {
    CUdeviceptr start = 0;
    std::size_t bytes = 0;
    const std::uint64_t at = address.value + reached;
    if (cuda.mem_get_address_range(&start, &bytes, at) != system::cuda::success || start > at ||
        bytes <= at - start) {
      break;
    }
    reached = start + bytes - address.value;
  }
  return reached;
}

}  // namespace nobounce::session
