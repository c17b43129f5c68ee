// The soft CUDA driver: asynchronous copies and fills, told apart by what their pointers name.
#include "fabric/soft_cuda_driver.hpp"

namespace nobounce::fabric {

namespace cuda = system::cuda;

namespace {

bool holds(const GpuAllocation& allocation, std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t inside = address - allocation.base.value;
  return inside <= allocation.length_bytes && bytes <= allocation.length_bytes - inside;
}

}  // namespace

std::optional<SoftCuda::Side> SoftCuda::device_side(CUdeviceptr pointer, std::size_t bytes) const {
  Side side;
  side.address = pointer;
  if (const auto allocation = allocations_.find(DevicePointer{pointer})) {
    if (allocation->internal || !holds(*allocation, pointer, bytes)) return std::nullopt;
    side.device = true;
    side.gpu = allocation->gpu;
    return side;
  }
  // Unified addressing: pinned and managed host memory has device pointers too.
  const auto host = allocations_.find_host(reinterpret_cast<const void*>(pointer));
  if (!host || !holds(*host, pointer, bytes)) return std::nullopt;
  side.pinned = true;
  return side;
}

std::optional<SoftCuda::Side> SoftCuda::host_side(const void* pointer, std::size_t bytes) const {
  Side side;
  side.address = reinterpret_cast<std::uint64_t>(pointer);
  if (pointer == nullptr || bus_.gpu_of(DevicePointer{side.address})) return std::nullopt;
  const auto host = allocations_.find_host(pointer);
  side.pinned = host && holds(*host, side.address, bytes);
  return side;
}

CUresult SoftCuda::copy(const std::optional<Side>& target, const std::optional<Side>& source,
                        std::size_t bytes, CUstream stream) {
  StreamEntry entry;
  const CUresult code = stream_of(stream, entry);
  if (code != cuda::success) return code;
  if (bytes == 0) return cuda::success;
  if (!target || !source) return cuda::error_invalid_value;
  GpuCopy order;
  order.length_bytes = bytes;
  if (source->device) order.source = DevicePointer{source->address};
  if (target->device) order.target = DevicePointer{target->address};
  if (source->device && target->device) {
    order.kind = GpuCopy::Kind::on_device;
    if (source->gpu != target->gpu) {
      // Without peer access from the side that does the work the driver stages, and says nothing.
      const std::lock_guard lock(mutex_);
      const bool owns_target = entry.context->gpu == target->gpu;
      const std::uint32_t worker = owns_target ? target->gpu : source->gpu;
      const std::uint32_t other = owns_target ? source->gpu : target->gpu;
      const auto ordinal = ordinal_of(worker);
      const bool asked = !bus_.planted(Mutant::cuda_access_ignored);
      order.staged =
          asked &&
          (!ordinal || contexts_[static_cast<std::size_t>(*ordinal)]->peers.count(other) == 0);
    }
  } else if (target->device || source->device) {
    const Side& host = target->device ? *source : *target;
    order.kind = target->device ? GpuCopy::Kind::to_device : GpuCopy::Kind::to_host;
    order.host = reinterpret_cast<std::byte*>(host.address);
    order.pageable = !host.pinned;
  } else {
    order.kind = GpuCopy::Kind::on_host;
    order.host = reinterpret_cast<std::byte*>(target->address);
    order.host_source = reinterpret_cast<const std::byte*>(source->address);
  }
  const CUresult queued = engines_.submit(entry.stream, order);
  // Pageable memory is the caller's again on return: the driver waits.
  if (queued == cuda::success && order.pageable) return engines_.synchronize(*entry.stream);
  return queued;
}

CUresult SoftCuda::memcpy_htod_async(CUdeviceptr target, const void* source, std::size_t bytes,
                                     CUstream stream) {
  return copy(device_side(target, bytes), host_side(source, bytes), bytes, stream);
}

CUresult SoftCuda::memcpy_dtoh_async(void* target, CUdeviceptr source, std::size_t bytes,
                                     CUstream stream) {
  return copy(host_side(target, bytes), device_side(source, bytes), bytes, stream);
}

CUresult SoftCuda::memcpy_dtod_async(CUdeviceptr target, CUdeviceptr source, std::size_t bytes,
                                     CUstream stream) {
  return copy(device_side(target, bytes), device_side(source, bytes), bytes, stream);
}

CUresult SoftCuda::memcpy_peer_async(CUdeviceptr target, CUcontext target_context,
                                     CUdeviceptr source, CUcontext source_context,
                                     std::size_t bytes, CUstream stream) {
  if (!initialized_) return cuda::error_not_initialized;
  {
    const std::lock_guard lock(mutex_);
    const Context* to = context_of(target_context);
    const Context* from = context_of(source_context);
    if (to == nullptr || from == nullptr || to->references == 0 || from->references == 0) {
      return cuda::error_invalid_context;
    }
  }
  return copy(device_side(target, bytes), device_side(source, bytes), bytes, stream);
}

CUresult SoftCuda::memset_d8_async(CUdeviceptr target, unsigned char value, std::size_t bytes,
                                   CUstream stream) {
  StreamEntry entry;
  const CUresult code = stream_of(stream, entry);
  if (code != cuda::success) return code;
  if (bytes == 0) return cuda::success;
  const auto side = device_side(target, bytes);
  if (!side || !side->device) return cuda::error_invalid_value;
  GpuCopy order;
  order.kind = GpuCopy::Kind::fill;
  order.target = DevicePointer{target};
  order.value = value;
  order.length_bytes = bytes;
  return engines_.submit(entry.stream, order);
}

}  // namespace nobounce::fabric
