// The soft CUDA driver: GPU memory of other processes, by their handles.
#include <algorithm>
#include <cstring>

#include "fabric/soft_cuda_driver.hpp"

namespace nobounce::fabric {

namespace cuda = system::cuda;

namespace {

/// What lies in a handle's 64 bytes.
struct HandleContent {
  char mark[16];
  std::uint64_t process;  ///< 0: this one
  std::uint64_t memory;
  std::uint64_t length_bytes;
};

constexpr char handle_mark[16] = "soft ipc handle";
constexpr std::uint64_t this_process = 0;
constexpr std::uint64_t other_process = 1;

cuda::CUipcMemHandle handle_of(std::uint64_t process, DevicePointer memory, std::uint64_t length) {
  HandleContent content{{}, process, memory.value, length};
  std::copy_n(handle_mark, sizeof handle_mark, content.mark);
  cuda::CUipcMemHandle handle{};
  std::memcpy(handle.reserved, &content, sizeof content);  // layers: a handle is no memory
  return handle;
}

}  // namespace

std::optional<OtherProcessMemory> SoftCuda::export_from_other_process(std::uint32_t gpu,
                                                                      std::uint64_t length_bytes) {
  const auto memory = allocations_.allocate_hidden(gpu, length_bytes);
  if (!memory) return std::nullopt;
  const std::lock_guard lock(mutex_);
  other_processes_[memory->value] = length_bytes;
  return OtherProcessMemory{handle_of(other_process, *memory, length_bytes), *memory};
}

CUresult SoftCuda::ipc_get_mem_handle(CUipcMemHandle* handle, CUdeviceptr pointer) {
  CUresult code = cuda::success;
  if (current(code) == nullptr) return code;
  const auto allocation = allocations_.find(DevicePointer{pointer});
  // Neither mappings nor pools nor what was imported itself.
  if (handle == nullptr || !allocation || allocation->internal ||
      allocation->kind != AllocationKind::device) {
    return cuda::error_invalid_value;
  }
  *handle = handle_of(this_process, allocation->memory, allocation->length_bytes);
  return cuda::success;
}

CUresult SoftCuda::ipc_open_mem_handle(CUdeviceptr* pointer, CUipcMemHandle handle,
                                       unsigned flags) {
  CUresult code = cuda::success;
  const Context* context = current(code);
  if (context == nullptr) return code;
  HandleContent content{};
  std::memcpy(&content, handle.reserved, sizeof content);  // layers: a handle is no memory
  if (pointer == nullptr || flags != cuda::ipc_memory_lazy_enable_peer_access ||
      std::memcmp(content.mark, handle_mark, sizeof handle_mark) != 0) {
    return cuda::error_invalid_value;
  }
  if (content.process == this_process) return cuda::error_invalid_context;
  const DevicePointer memory{content.memory};
  const auto home = bus_.gpu_of(memory);
  const std::lock_guard lock(mutex_);
  const auto exported = other_processes_.find(memory.value);
  if (exported == other_processes_.end() || !home) return cuda::error_invalid_value;
  for (auto& [base, import] : imports_) {
    const auto known = allocations_.find(DevicePointer{base});
    if (import.memory != memory || !known || known->gpu != context->gpu) continue;
    ++import.opens;
    *pointer = base;
    return cuda::success;
  }
  if (*home != context->gpu && !peers_possible(context->gpu, *home)) {
    return cuda::error_peer_access_unsupported;
  }
  const auto base = allocations_.reserve_addresses(exported->second);
  if (!base) return cuda::error_out_of_memory;
  GpuAllocation mapping;
  mapping.base = *base;
  mapping.length_bytes = exported->second;
  mapping.gpu = context->gpu;  // whose context opened it, wherever it lies
  mapping.kind = AllocationKind::ipc_import;
  mapping.memory = memory;
  mapping.pinnable = false;  // that is the owner's business
  allocations_.add_mapping(mapping);
  imports_[base->value] = {memory, 1};
  *pointer = base->value;
  return cuda::success;
}

CUresult SoftCuda::ipc_close_mem_handle(CUdeviceptr pointer) {
  CUresult code = cuda::success;
  if (current(code) == nullptr) return code;
  const auto allocation = allocations_.find(DevicePointer{pointer});
  if (!allocation || allocation->kind != AllocationKind::ipc_import ||
      allocation->base.value != pointer) {
    return cuda::error_invalid_value;
  }
  (void)engines_.synchronize_gpu(allocation->gpu);
  const std::lock_guard lock(mutex_);
  const auto import = imports_.find(pointer);
  if (import == imports_.end()) return cuda::error_invalid_value;
  if (--import->second.opens > 0) return cuda::success;
  imports_.erase(import);
  allocations_.remove_mapping(DevicePointer{pointer});
  allocations_.release_addresses(DevicePointer{pointer});
  return cuda::success;
}

}  // namespace nobounce::fabric
