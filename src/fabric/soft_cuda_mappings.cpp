// The soft CUDA driver: virtual memory management. Physical memory by handle, addresses by
// reservation, and mappings of the one at the other.
#include <iterator>

#include "fabric/soft_cuda_driver.hpp"

namespace nobounce::fabric {

namespace cuda = system::cuda;

namespace {

constexpr std::uint64_t granularity_bytes = 2u << 20;

bool whole(std::uint64_t bytes) {
  return bytes > 0 && bytes % granularity_bytes == 0;
}

}  // namespace

CUresult SoftCuda::mem_get_allocation_granularity(std::size_t* bytes,
                                                  const CUmemAllocationProp* properties,
                                                  int option) {
  if (!initialized_) return cuda::error_not_initialized;
  if (bytes == nullptr || properties == nullptr || option < cuda::granularity_minimum ||
      option > cuda::granularity_recommended) {
    return cuda::error_invalid_value;
  }
  // Whether there is such a device, or any memory of that kind, the real one does not look at.
  *bytes = granularity_bytes;
  return cuda::success;
}

CUresult SoftCuda::mem_create(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                              const CUmemAllocationProp* properties, unsigned long long flags) {
  if (!initialized_) return cuda::error_not_initialized;
  if (handle == nullptr || properties == nullptr || flags != 0 || !whole(bytes) ||
      properties->type != cuda::memory_allocation_pinned ||
      properties->location.type != cuda::memory_location_device) {
    return cuda::error_invalid_value;
  }
  if (gpu_of(properties->location.id) == nullptr) return cuda::error_invalid_device;
  // Export to other processes by file descriptor is not modelled.
  if (properties->requested_handle_types != 0) return cuda::error_not_supported;
  const std::uint32_t gpu = visible_[static_cast<std::size_t>(properties->location.id)];
  const auto memory = allocations_.allocate_hidden(gpu, bytes);
  if (!memory) return cuda::error_out_of_memory;
  const std::lock_guard lock(mutex_);
  *handle = reinterpret_cast<std::uintptr_t>(next_handle());
  constexpr std::size_t rdma_capable = 1;  // the flag's place
  physical_[*handle] = {*memory, bytes, gpu, 1, 0, properties->allocation_flags[rdma_capable] != 0};
  return cuda::success;
}

/// With mutex_ held.
void SoftCuda::drop_if_unused(std::uint64_t handle) {
  const auto found = physical_.find(handle);
  if (found == physical_.end() || found->second.references + found->second.mappings > 0) return;
  (void)allocations_.free(found->second.memory);
  physical_.erase(found);
}

CUresult SoftCuda::mem_release(CUmemGenericAllocationHandle handle) {
  if (!initialized_) return cuda::error_not_initialized;
  const std::lock_guard lock(mutex_);
  const auto found = physical_.find(handle);
  if (found == physical_.end() || found->second.references == 0) return cuda::error_invalid_value;
  --found->second.references;
  drop_if_unused(handle);
  return cuda::success;
}

CUresult SoftCuda::mem_retain_allocation_handle(CUmemGenericAllocationHandle* handle,
                                                void* address) {
  if (!initialized_) return cuda::error_not_initialized;
  if (handle == nullptr) return cuda::error_invalid_value;
  const auto allocation =
      allocations_.find(DevicePointer{reinterpret_cast<std::uintptr_t>(address)});
  if (!allocation || allocation->kind != AllocationKind::vmm) return cuda::error_invalid_value;
  const std::lock_guard lock(mutex_);
  const auto found = physical_.find(allocation->source);
  if (found == physical_.end()) return cuda::error_invalid_value;
  ++found->second.references;
  *handle = found->first;
  return cuda::success;
}

CUresult SoftCuda::mem_address_reserve(CUdeviceptr* pointer, std::size_t bytes,
                                       std::size_t alignment, CUdeviceptr,
                                       unsigned long long flags) {
  if (!initialized_) return cuda::error_not_initialized;
  constexpr std::uint64_t most_bytes = std::uint64_t{1} << 44;
  if (pointer == nullptr || flags != 0 || !whole(bytes) || (alignment & (alignment - 1)) != 0) {
    return cuda::error_invalid_value;
  }
  if (bytes > most_bytes) return cuda::error_out_of_memory;
  const auto base = allocations_.reserve_addresses(bytes, alignment);
  if (!base) return cuda::error_out_of_memory;
  const std::lock_guard lock(mutex_);
  reservations_[base->value] = bytes;
  *pointer = base->value;
  return cuda::success;
}

std::optional<std::pair<std::uint64_t, std::uint64_t>> SoftCuda::reservation_of(
    std::uint64_t address) const {
  const auto next = reservations_.upper_bound(address);
  if (next == reservations_.begin()) return std::nullopt;
  const auto& [begin, length] = *std::prev(next);
  if (address - begin >= length) return std::nullopt;
  return std::pair{begin, length};
}

CUresult SoftCuda::mem_address_free(CUdeviceptr pointer, std::size_t bytes) {
  if (!initialized_) return cuda::error_not_initialized;
  const std::lock_guard lock(mutex_);
  const auto found = reservations_.find(pointer);
  if (found == reservations_.end() || found->second != bytes) return cuda::error_invalid_value;
  const auto mapping = mappings_.lower_bound(pointer);
  if (mapping != mappings_.end() && mapping->first < pointer + bytes) {
    return cuda::error_invalid_value;
  }
  reservations_.erase(found);
  allocations_.release_addresses(DevicePointer{pointer});
  return cuda::success;
}

CUresult SoftCuda::mem_map(CUdeviceptr pointer, std::size_t bytes, std::size_t offset,
                           CUmemGenericAllocationHandle handle, unsigned long long flags) {
  if (!initialized_) return cuda::error_not_initialized;
  const std::lock_guard lock(mutex_);
  const auto physical = physical_.find(handle);
  const auto reserved = reservation_of(pointer);
  if (flags != 0 || physical == physical_.end() || !reserved || bytes == 0 ||
      pointer % granularity_bytes != 0 || bytes > reserved->first + reserved->second - pointer) {
    return cuda::error_invalid_value;
  }
  // A part of an allocation cannot be mapped.
  if (offset != 0 || bytes != physical->second.length_bytes) return cuda::error_not_supported;
  const auto next = mappings_.lower_bound(pointer);
  const bool meets_next = next != mappings_.end() && next->first < pointer + bytes;
  const bool meets_last = next != mappings_.begin() &&
                          std::prev(next)->first + std::prev(next)->second.length_bytes > pointer;
  if (meets_next || meets_last) return cuda::error_invalid_value;
  ++physical->second.mappings;
  mappings_[pointer] = {bytes, handle, {}};
  GpuAllocation mapping;
  mapping.base = DevicePointer{pointer};
  mapping.length_bytes = bytes;
  mapping.gpu = physical->second.gpu;
  mapping.kind = AllocationKind::vmm;
  mapping.source = handle;
  mapping.pinnable = physical->second.rdma_capable;
  mapping.memory = physical->second.memory;
  allocations_.add_mapping(mapping);
  return cuda::success;
}

CUresult SoftCuda::mem_unmap(CUdeviceptr pointer, std::size_t bytes) {
  if (!initialized_) return cuda::error_not_initialized;
  const std::lock_guard lock(mutex_);
  const auto reserved = reservation_of(pointer);
  if (!reserved || bytes == 0 || bytes > reserved->first + reserved->second - pointer) {
    return cuda::error_invalid_value;
  }
  // Holes are unmapped already; parts of mappings are not to be had.
  const auto first = mappings_.lower_bound(pointer);
  const auto last = mappings_.lower_bound(pointer + bytes);
  const bool cuts_first = first != mappings_.begin() &&
                          std::prev(first)->first + std::prev(first)->second.length_bytes > pointer;
  const bool cuts_last =
      first != last &&
      std::prev(last)->first + std::prev(last)->second.length_bytes > pointer + bytes;
  if (cuts_first || cuts_last) return cuda::error_invalid_value;
  for (auto at = first; at != last;) {
    const std::uint64_t handle = at->second.handle;
    allocations_.remove_mapping(DevicePointer{at->first});
    at = mappings_.erase(at);
    --physical_.at(handle).mappings;
    drop_if_unused(handle);
  }
  return cuda::success;
}

}  // namespace nobounce::fabric
