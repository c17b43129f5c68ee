// The soft CUDA driver: memory of all kinds, and what it answers about pointers.
#include <cstring>

#include "fabric/soft_cuda_driver.hpp"
#include "fabric/soft_process_pages.hpp"

namespace nobounce::fabric {

namespace cuda = system::cuda;

namespace {

constexpr unsigned host_register_io_memory = 4;

/// Of an attribute's answer, in bytes; 0: no such attribute.
std::size_t width_of(int attribute) {
  switch (attribute) {
    case cuda::pointer_context:
    case cuda::pointer_device_pointer:
    case cuda::pointer_host_pointer:
    case cuda::pointer_buffer_id:
    case cuda::pointer_range_start:
    case cuda::pointer_range_size:
    case cuda::pointer_mempool_handle:
      return sizeof(std::uint64_t);
    case cuda::pointer_memory_type:
    case cuda::pointer_is_managed:
    case cuda::pointer_device_ordinal:
      return sizeof(unsigned);
    case cuda::pointer_is_legacy_cuda_ipc_capable:
      return sizeof(bool);
    default:
      return 0;
  }
}

template <typename Value>
CUresult give(void* data, Value value) {
  *static_cast<Value*>(data) = value;
  return cuda::success;
}

}  // namespace

CUresult SoftCuda::mem_alloc(CUdeviceptr* pointer, std::size_t bytes) {
  CUresult code = cuda::success;
  const Context* context = current(code);
  if (context == nullptr) return code;
  if (pointer == nullptr) return cuda::error_invalid_value;
  *pointer = 0;
  if (bytes == 0) return cuda::error_invalid_value;
  const auto base = allocations_.allocate(context->gpu, bytes);
  if (!base) return cuda::error_out_of_memory;
  *pointer = base->value;
  return cuda::success;
}

CUresult SoftCuda::mem_free(CUdeviceptr pointer) {
  const CUresult refusal = refusal_without_context();
  if (refusal != cuda::success || pointer == 0) return refusal;
  const auto allocation = allocations_.find(DevicePointer{pointer});
  const bool freeable = allocation && (allocation->kind == AllocationKind::device ||
                                       allocation->kind == AllocationKind::pool);
  if (freeable && !allocation->internal && allocation->base.value == pointer) {
    // Freeing waits for the device, as the real driver does.
    (void)engines_.synchronize_gpu(allocation->gpu);
    return allocations_.free(allocation->base) ? cuda::success : cuda::error_invalid_value;
  }
  // Managed memory is freed by the same call.
  void* host = reinterpret_cast<void*>(pointer);
  const auto managed = allocations_.find_host(host);
  if (!managed || managed->kind != AllocationKind::managed) return cuda::error_invalid_value;
  return mem_free_host(host);
}

CUresult SoftCuda::mem_alloc_managed(CUdeviceptr* pointer, std::size_t bytes, unsigned flags) {
  CUresult code = cuda::success;
  const Context* context = current(code);
  if (context == nullptr) return code;
  if (pointer == nullptr || bytes == 0 || (flags != cuda::managed_attach_global && flags != 2)) {
    return cuda::error_invalid_value;
  }
  const DeviceRef device{DeviceRef::Kind::gpu, static_cast<std::uint16_t>(context->gpu)};
  const auto buffer = bus_.allocate_dram(numa_of(bus_.machine(), device), bytes, DramUse::user);
  if (!buffer.ok()) return cuda::error_out_of_memory;
  (void)allocations_.add_host(buffer->view, bytes, AllocationKind::managed, context->gpu);
  const std::lock_guard lock(mutex_);
  host_buffers_[buffer->view] = *buffer;
  *pointer = reinterpret_cast<CUdeviceptr>(buffer->view);
  return cuda::success;
}

CUresult SoftCuda::mem_get_info(std::size_t* free_bytes, std::size_t* total_bytes) {
  CUresult code = cuda::success;
  const Context* context = current(code);
  if (context == nullptr) return code;
  const std::uint64_t total = bus_.machine().gpus[context->gpu].memory_bytes;
  if (total_bytes != nullptr) *total_bytes = total;
  if (free_bytes != nullptr) *free_bytes = total - allocations_.used_bytes(context->gpu);
  return cuda::success;
}

CUresult SoftCuda::mem_get_address_range(CUdeviceptr* base, std::size_t* bytes,
                                         CUdeviceptr pointer) {
  CUresult code = cuda::success;
  const Context* context = current(code);
  if (context == nullptr) return code;
  auto allocation = allocations_.find(DevicePointer{pointer});
  if (allocation && allocation->internal) return cuda::error_not_found;
  if (allocation) {
    // Known only where the current context reaches it.
    const std::lock_guard lock(mutex_);
    if (access_of(context->gpu, *allocation) == cuda::memory_access_none) {
      return cuda::error_not_found;
    }
  }
  if (!allocation) allocation = allocations_.find_host(reinterpret_cast<const void*>(pointer));
  if (!allocation) return cuda::error_not_found;
  if (base != nullptr) *base = allocation->base.value;
  if (bytes != nullptr) *bytes = allocation->length_bytes;
  return cuda::success;
}

CUresult SoftCuda::mem_host_alloc(void** pointer, std::size_t bytes, unsigned flags) {
  CUresult code = cuda::success;
  const Context* context = current(code);
  if (context == nullptr) return code;
  if (pointer == nullptr || flags > 7) return cuda::error_invalid_value;
  *pointer = nullptr;
  if (bytes == 0) return cuda::success;
  const DeviceRef device{DeviceRef::Kind::gpu, static_cast<std::uint16_t>(context->gpu)};
  const auto buffer = bus_.allocate_dram(numa_of(bus_.machine(), device), bytes, DramUse::user);
  if (!buffer.ok()) return cuda::error_out_of_memory;
  (void)allocations_.add_host(buffer->view, bytes, AllocationKind::host_pinned, context->gpu);
  const std::lock_guard lock(mutex_);
  host_buffers_[buffer->view] = *buffer;
  *pointer = buffer->view;
  return cuda::success;
}

void SoftCuda::synchronize_all() {
  for (const std::uint32_t gpu : visible_) (void)engines_.synchronize_gpu(gpu);
}

CUresult SoftCuda::mem_free_host(void* pointer) {
  const CUresult refusal = refusal_without_context();
  if (refusal != cuda::success || pointer == nullptr) return refusal;
  DramBuffer buffer;
  {
    const std::lock_guard lock(mutex_);
    const auto found = host_buffers_.find(pointer);
    if (found == host_buffers_.end()) return cuda::error_invalid_value;
    buffer = found->second;
    host_buffers_.erase(found);
  }
  synchronize_all();
  (void)allocations_.remove_host(pointer);
  bus_.free_dram(buffer);
  return cuda::success;
}

CUresult SoftCuda::mem_host_register(void* pointer, std::size_t bytes, unsigned flags) {
  CUresult code = cuda::success;
  const Context* context = current(code);
  if (context == nullptr) return code;
  if (pointer == nullptr || bytes == 0 || flags > 15) return cuda::error_invalid_value;
  // Not GPU memory, not memory of the driver, not ordinary pages given out as a device's.
  const auto known = allocations_.find_host(pointer);
  const auto address = DevicePointer{reinterpret_cast<std::uintptr_t>(pointer)};
  const bool registers = bus_.is_register_view(pointer, bytes);
  if (bus_.is_device_address(address) || registers != ((flags & host_register_io_memory) != 0)) {
    return cuda::error_invalid_value;
  }
  if (registers) {
    // A device's registers: what kernels may reach of it from now on, through the IOMMU too.
    bus_.map_iommu(bus_.address_of(pointer), bytes);
    return allocations_.add_host(pointer, bytes, AllocationKind::host_pinned, context->gpu)
               ? cuda::success
               : cuda::error_host_memory_already_registered;
  }
  if (known) {
    const std::lock_guard lock(mutex_);
    if (host_buffers_.count(reinterpret_cast<void*>(known->base.value)) > 0) {
      return cuda::error_invalid_value;
    }
    return cuda::error_host_memory_already_registered;
  }
  const bool read_only = (flags & cuda::host_register_read_only) != 0;
  if (!pinnable_pages(bus_.machine(), pointer, bytes, read_only)) return cuda::error_invalid_value;
  return allocations_.add_host(pointer, bytes, AllocationKind::host_pinned, context->gpu)
             ? cuda::success
             : cuda::error_host_memory_already_registered;
}

CUresult SoftCuda::mem_host_unregister(void* pointer) {
  const CUresult refusal = refusal_without_context();
  if (refusal != cuda::success) return refusal;
  if (pointer == nullptr) return cuda::error_invalid_value;
  {
    const std::lock_guard lock(mutex_);
    if (host_buffers_.count(pointer) > 0) return cuda::error_invalid_value;
  }
  return allocations_.remove_host(pointer) ? cuda::success : cuda::error_host_memory_not_registered;
}

CUresult SoftCuda::pointer_get_attribute(void* data, int attribute, CUdeviceptr pointer) {
  if (!initialized_) return cuda::error_not_initialized;
  if (data == nullptr) return cuda::error_invalid_value;
  const auto device = allocations_.find(DevicePointer{pointer});
  if (device && !device->internal) {
    return device_pointer_attribute(data, attribute, *device, pointer);
  }
  const auto host = allocations_.find_host(reinterpret_cast<const void*>(pointer));
  if (!host) return cuda::error_invalid_value;
  return host_pointer_attribute(data, attribute, *host, pointer);
}

CUresult SoftCuda::pointer_get_attributes(unsigned count, int* attributes, void** data,
                                          CUdeviceptr pointer) {
  if (!initialized_) return cuda::error_not_initialized;
  if (count == 0 || attributes == nullptr || data == nullptr) return cuda::error_invalid_value;
  for (unsigned i = 0; i < count; ++i) {
    // Where there is no answer the call succeeds and gives zero.
    if (pointer_get_attribute(data[i], attributes[i], pointer) == cuda::success) continue;
    const std::size_t width = width_of(attributes[i]);
    if (width == 0 || data[i] == nullptr) return cuda::error_invalid_value;
    std::memset(data[i], 0, width);  // layers: an answer, not an array of memory
  }
  return cuda::success;
}

bool SoftCuda::reached_here(const GpuAllocation& allocation) {
  if (allocation.kind != AllocationKind::device) return true;
  CUresult code = cuda::success;
  const Context* context = current(code);
  if (context == nullptr) return true;
  const std::lock_guard lock(mutex_);
  return access_of(context->gpu, allocation) != cuda::memory_access_none;
}

CUresult SoftCuda::device_pointer_attribute(void* data, int attribute,
                                            const GpuAllocation& allocation, CUdeviceptr pointer) {
  const auto ordinal = ordinal_of(allocation.gpu);
  const bool of_context =
      allocation.kind == AllocationKind::device || allocation.kind == AllocationKind::ipc_import;
  std::pair<std::uint64_t, std::uint64_t> range{allocation.base.value, allocation.length_bytes};
  if (allocation.kind == AllocationKind::vmm) {
    // Of mappings the driver tells the reservation, mapped or not.
    const std::lock_guard lock(mutex_);
    range = reservation_of(pointer).value_or(range);
  }
  switch (attribute) {
    case cuda::pointer_context:
      return give<CUcontext>(data, of_context && ordinal
                                       ? contexts_[static_cast<std::size_t>(*ordinal)].get()
                                       : nullptr);
    case cuda::pointer_memory_type:
      return give<unsigned>(data, cuda::memory_type_device);
    case cuda::pointer_device_pointer:
      // There is none where the current context's GPU does not reach it.
      return reached_here(allocation) ? give<CUdeviceptr>(data, pointer)
                                      : cuda::error_invalid_value;
    case cuda::pointer_buffer_id:
      return give<unsigned long long>(data, allocation.id);
    case cuda::pointer_is_managed:
      return give<unsigned>(data, 0);
    case cuda::pointer_device_ordinal:
      return give<int>(data, ordinal.value_or(-2));
    case cuda::pointer_is_legacy_cuda_ipc_capable:
      return give<bool>(data, allocation.kind == AllocationKind::device);
    case cuda::pointer_range_start:
      return give<CUdeviceptr>(data, range.first);
    case cuda::pointer_range_size:
      return give<std::size_t>(data, range.second);
    case cuda::pointer_mempool_handle:
      return give<void*>(data, allocation.kind == AllocationKind::pool
                                   ? reinterpret_cast<void*>(allocation.source)
                                   : nullptr);
    default:
      return cuda::error_invalid_value;  // also the host pointer: there is none
  }
}

CUresult SoftCuda::host_pointer_attribute(void* data, int attribute,
                                          const GpuAllocation& allocation,
                                          CUdeviceptr pointer) const {
  const bool managed = allocation.kind == AllocationKind::managed;
  switch (attribute) {
    case cuda::pointer_context: {
      // That it was made in; memory pinned without one has none to tell.
      const auto ordinal = ordinal_of(allocation.gpu);
      const std::lock_guard lock(mutex_);
      Context* context = ordinal ? contexts_[static_cast<std::size_t>(*ordinal)].get() : nullptr;
      const bool lives = context != nullptr && context->references > 0;
      return give<CUcontext>(data, lives ? context : nullptr);
    }
    case cuda::pointer_memory_type:
      return give<unsigned>(data, managed ? cuda::memory_type_device : cuda::memory_type_host);
    case cuda::pointer_device_pointer:
      return give<CUdeviceptr>(data, pointer);
    case cuda::pointer_host_pointer:
      return give<void*>(data, reinterpret_cast<void*>(pointer));
    case cuda::pointer_is_managed:
      return give<unsigned>(data, managed ? 1 : 0);
    case cuda::pointer_device_ordinal:
      return give<int>(data, 0);
    case cuda::pointer_is_legacy_cuda_ipc_capable:
      return give<bool>(data, false);
    case cuda::pointer_range_start:
      return give<CUdeviceptr>(data, allocation.base.value);
    case cuda::pointer_range_size:
      return give<std::size_t>(data, allocation.length_bytes);
    case cuda::pointer_mempool_handle:
      return give<void*>(data, nullptr);
    default:
      return cuda::error_invalid_value;
  }
}

}  // namespace nobounce::fabric
