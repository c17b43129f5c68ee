// The soft CUDA driver: memory pools. One per device, with access of its own beside that of the
// contexts; its memory is freed in the order of a stream.
#include "fabric/soft_cuda_driver.hpp"

namespace nobounce::fabric {

namespace cuda = system::cuda;

SoftCuda::Pool* SoftCuda::pool_of(CUmemoryPool handle) const {
  for (const auto& pool : pools_) {
    if (pool.get() == handle) return pool.get();
  }
  return nullptr;
}

CUresult SoftCuda::device_get_default_mem_pool(CUmemoryPool* pool, CUdevice device) {
  if (!initialized_) return cuda::error_not_initialized;
  if (pool == nullptr) return cuda::error_invalid_value;
  if (gpu_of(device) == nullptr) return cuda::error_invalid_device;
  *pool = pools_[static_cast<std::size_t>(device)].get();
  return cuda::success;
}

CUresult SoftCuda::allocate_from(const Pool& pool, CUdeviceptr* pointer, std::size_t bytes,
                                 CUstream stream) {
  StreamEntry entry;
  if (const CUresult code = stream_of(stream, entry); code != cuda::success) return code;
  if (pointer == nullptr) return cuda::error_invalid_value;
  if (bytes == 0) {  // nothing for nothing; mem_free_async takes it back
    *pointer = 0;
    return cuda::success;
  }
  const auto base =
      allocations_.allocate_pooled(pool.gpu, bytes, reinterpret_cast<std::uintptr_t>(&pool));
  if (!base) return cuda::error_out_of_memory;
  *pointer = base->value;
  return cuda::success;
}

CUresult SoftCuda::mem_alloc_async(CUdeviceptr* pointer, std::size_t bytes, CUstream stream) {
  CUresult code = cuda::success;
  const Context* context = current(code);
  if (context == nullptr) return code;
  return allocate_from(*pools_[static_cast<std::size_t>(context->ordinal)], pointer, bytes, stream);
}

CUresult SoftCuda::mem_alloc_from_pool_async(CUdeviceptr* pointer, std::size_t bytes,
                                             CUmemoryPool pool, CUstream stream) {
  if (!initialized_) return cuda::error_not_initialized;
  const Pool* known = pool_of(pool);
  if (known == nullptr) return cuda::error_invalid_value;
  return allocate_from(*known, pointer, bytes, stream);
}

/// Takes memory of cuMemAlloc too, as the real one does.
CUresult SoftCuda::mem_free_async(CUdeviceptr pointer, CUstream stream) {
  StreamEntry entry;
  if (const CUresult code = stream_of(stream, entry); code != cuda::success) return code;
  if (pointer == 0) return cuda::success;
  const auto allocation = allocations_.find(DevicePointer{pointer});
  const bool ours =
      allocation && !allocation->internal && allocation->base.value == pointer &&
      (allocation->kind == AllocationKind::pool || allocation->kind == AllocationKind::device);
  if (!ours) return cuda::error_invalid_value;
  // The pointer is gone now, the memory once the stream has come here.
  allocations_.hide(allocation->base);
  return engines_.submit(entry.stream, [this, base = allocation->base] {
    (void)allocations_.free(base);
    return GpuWorkStep{};
  });
}

CUresult SoftCuda::mem_pool_get_access(int* flags, CUmemoryPool pool, CUmemLocation* location) {
  if (!initialized_) return cuda::error_not_initialized;
  const Pool* known = pool_of(pool);
  if (flags == nullptr || known == nullptr || location == nullptr ||
      location->type != cuda::memory_location_device || gpu_of(location->id) == nullptr) {
    return cuda::error_invalid_value;
  }
  const std::lock_guard lock(mutex_);
  const auto found = known->access.find(visible_[static_cast<std::size_t>(location->id)]);
  *flags = found == known->access.end() ? cuda::memory_access_none : found->second;
  return cuda::success;
}

CUresult SoftCuda::mem_pool_set_access(CUmemoryPool pool, const CUmemAccessDesc* descriptions,
                                       std::size_t count) {
  if (!initialized_) return cuda::error_not_initialized;
  Pool* known = pool_of(pool);
  if (known == nullptr || descriptions == nullptr) return cuda::error_invalid_value;
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < count; ++i) {
    const CUmemAccessDesc& wanted = descriptions[i];
    if (wanted.location.type != cuda::memory_location_device ||
        gpu_of(wanted.location.id) == nullptr ||
        (wanted.flags != cuda::memory_access_none && wanted.flags != cuda::memory_access_read &&
         wanted.flags != cuda::memory_access_read_write)) {
      return cuda::error_invalid_value;
    }
    const std::uint32_t gpu = visible_[static_cast<std::size_t>(wanted.location.id)];
    const bool own = gpu == known->gpu;
    // Reading alone is not to be had, neither for the pool's own device nor for a peer.
    if (wanted.flags == cuda::memory_access_read) return cuda::error_not_supported;
    // A device cannot lose the memory of its own pool, nor gain that of a GPU it cannot reach.
    if (own ? wanted.flags != cuda::memory_access_read_write
            : wanted.flags != cuda::memory_access_none && !peers_possible(gpu, known->gpu)) {
      return cuda::error_invalid_device;
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    known->access[visible_[static_cast<std::size_t>(descriptions[i].location.id)]] =
        descriptions[i].flags;
  }
  return cuda::success;
}

}  // namespace nobounce::fabric
