// The soft CUDA driver: which GPU reaches which memory, by the kind of its allocation. As measured
// on two H200 with driver 580: peer access of contexts covers cuMemAlloc alone; mappings and pools
// have access of their own; an import is its importing context's alone.
#include "fabric/soft_cuda_driver.hpp"

namespace nobounce::fabric {

namespace cuda = system::cuda;

int SoftCuda::access_of(std::uint32_t gpu, const GpuAllocation& allocation) const {
  const auto of = [gpu](const AccessByGpu& access) {
    const auto found = access.find(gpu);
    return found == access.end() ? cuda::memory_access_none : found->second;
  };
  const bool sick = gpu != allocation.gpu && bus_.planted(Mutant::cuda_contexts_cover_all);
  if (sick) return access_of_contexts(gpu, allocation);
  if (allocation.kind == AllocationKind::vmm) {
    const auto mapping = mappings_.find(allocation.base.value);
    return mapping == mappings_.end() ? cuda::memory_access_none : of(mapping->second.access);
  }
  if (allocation.kind == AllocationKind::pool) {
    return of(reinterpret_cast<const Pool*>(allocation.source)->access);
  }
  if (gpu == allocation.gpu) return cuda::memory_access_read_write;
  if (allocation.kind != AllocationKind::device) return cuda::memory_access_none;
  return access_of_contexts(gpu, allocation);
}

int SoftCuda::access_of_contexts(std::uint32_t gpu, const GpuAllocation& allocation) const {
  const auto ordinal = ordinal_of(gpu);
  const bool enabled =
      ordinal && contexts_[static_cast<std::size_t>(*ordinal)]->peers.count(allocation.gpu) > 0;
  return enabled ? cuda::memory_access_read_write : cuda::memory_access_none;
}

bool SoftCuda::may_copy(std::uint32_t gpu, const GpuAllocation& allocation,
                        Contexts contexts) const {
  const bool has_own_access =
      allocation.kind == AllocationKind::vmm || allocation.kind == AllocationKind::pool;
  // Memory of cuMemAlloc and imports is copied from any context: the driver finds a way.
  if (!has_own_access) return true;
  const std::uint32_t by = contexts == Contexts::named ? allocation.gpu : gpu;
  return access_of(by, allocation) != cuda::memory_access_none;
}

CUresult SoftCuda::mem_get_access(unsigned long long* flags, const CUmemLocation* location,
                                  CUdeviceptr pointer) {
  if (!initialized_) return cuda::error_not_initialized;
  if (flags == nullptr || location == nullptr || location->type != cuda::memory_location_device) {
    return cuda::error_invalid_value;
  }
  if (gpu_of(location->id) == nullptr) return cuda::error_invalid_device;
  const auto allocation = allocations_.find(DevicePointer{pointer});
  if (!allocation || allocation->internal) return cuda::error_invalid_value;
  const std::uint32_t gpu = visible_[static_cast<std::size_t>(location->id)];
  *flags = cuda::memory_access_none;
  const std::lock_guard lock(mutex_);
  // Of other kinds it knows nothing: a peer's access to a pool does not show here.
  if (allocation->kind == AllocationKind::vmm) {
    *flags = static_cast<unsigned long long>(access_of(gpu, *allocation));
  }
  return cuda::success;
}

/// True where the range begins and ends with mappings and has no hole.
bool SoftCuda::whole_mappings(std::uint64_t begin, std::uint64_t length_bytes) const {
  std::uint64_t at = begin;
  const std::uint64_t end = begin + length_bytes;
  while (at < end) {
    const auto mapping = mappings_.find(at);
    if (mapping == mappings_.end()) return false;
    at += mapping->second.length_bytes;
  }
  return length_bytes > 0 && at == end;
}

CUresult SoftCuda::mem_set_access(CUdeviceptr pointer, std::size_t bytes,
                                  const CUmemAccessDesc* descriptions, std::size_t count) {
  if (!initialized_) return cuda::error_not_initialized;
  if (descriptions == nullptr || count == 0) return cuda::error_invalid_value;
  const std::lock_guard lock(mutex_);
  if (!whole_mappings(pointer, bytes)) return cuda::error_invalid_value;
  for (std::size_t i = 0; i < count; ++i) {
    const CUmemAccessDesc& wanted = descriptions[i];
    const bool known = wanted.flags == cuda::memory_access_none ||
                       wanted.flags == cuda::memory_access_read ||
                       wanted.flags == cuda::memory_access_read_write;
    if (!known || wanted.location.type != cuda::memory_location_device ||
        gpu_of(wanted.location.id) == nullptr) {
      return cuda::error_invalid_value;
    }
    const std::uint32_t gpu = visible_[static_cast<std::size_t>(wanted.location.id)];
    for (auto at = mappings_.find(pointer); at != mappings_.end() && at->first < pointer + bytes;
         ++at) {
      const std::uint32_t owner = physical_.at(at->second.handle).gpu;
      if (gpu != owner && wanted.flags != cuda::memory_access_none && !peers_possible(gpu, owner)) {
        return cuda::error_invalid_device;
      }
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t gpu = visible_[static_cast<std::size_t>(descriptions[i].location.id)];
    for (auto at = mappings_.find(pointer); at != mappings_.end() && at->first < pointer + bytes;
         ++at) {
      at->second.access[gpu] = descriptions[i].flags;
    }
  }
  return cuda::success;
}

}  // namespace nobounce::fabric
