// The soft CUDA driver: asynchronous copies and fills, told apart by what their pointers name.
#include <algorithm>
#include <span>
#include <utility>

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
    if (allocation->internal) return std::nullopt;
    side.device = true;
    side.gpu = allocation->gpu;
    // Mappings side by side are one range to a copy.
    for (std::uint64_t at = pointer; at - pointer < bytes;) {
      const auto next = allocations_.find(DevicePointer{at});
      if (!next || next->kind != allocation->kind || next->gpu != side.gpu) return std::nullopt;
      at = next->base.value + next->length_bytes;
      if (at - pointer >= bytes) break;
      if (next->kind != AllocationKind::vmm) return std::nullopt;
    }
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
  if (pointer == nullptr) return std::nullopt;
  // Unified addressing: a host end may name GPU memory.
  if (bus_.is_device_address(DevicePointer{side.address})) return device_side(side.address, bytes);
  const auto host = allocations_.find_host(pointer);
  side.pinned = host && holds(*host, side.address, bytes);
  return side;
}

/// Bytes of one piece of a copy: none crosses from one mapping to the next.
std::uint64_t SoftCuda::run_at(const Side& side, std::uint64_t at) const {
  if (!side.device) return UINT64_MAX;
  const auto allocation = allocations_.find(DevicePointer{side.address + at});
  if (!allocation) return UINT64_MAX;
  return allocation->length_bytes - (side.address + at - allocation->base.value);
}

CUresult SoftCuda::allow(const Side& side, std::size_t bytes, std::uint32_t gpu,
                         Contexts contexts) const {
  if (!side.device) return cuda::success;
  const std::lock_guard lock(mutex_);
  for (std::uint64_t at = 0; at < bytes;) {
    const auto allocation = allocations_.find(DevicePointer{side.address + at});
    if (!allocation || !may_copy(gpu, *allocation, contexts)) return cuda::error_invalid_value;
    at = allocation->base.value + allocation->length_bytes - side.address;
  }
  return cuda::success;
}

/// Two GPUs: either may do the work that reaches the other's memory. Where neither does the driver
/// stages, and says nothing.
void SoftCuda::choose_engine(std::uint32_t stream_gpu, GpuCopy& order) const {
  const auto source = allocations_.find(order.source);
  const auto target = allocations_.find(order.target);
  if (!source || !target || source->gpu == target->gpu) return;
  const std::lock_guard lock(mutex_);
  const bool source_reaches = access_of(source->gpu, *target) == cuda::memory_access_read_write;
  const bool target_reaches = access_of(target->gpu, *source) != cuda::memory_access_none;
  order.staged = !source_reaches && !target_reaches && !bus_.planted(Mutant::cuda_access_ignored);
  if (order.staged) return;
  const bool by_target = target_reaches && (!source_reaches || stream_gpu == target->gpu);
  order.engine = by_target ? target->gpu : source->gpu;
}

CUresult SoftCuda::copy(const std::optional<Side>& target, const std::optional<Side>& source,
                        std::size_t bytes, CUstream stream, Contexts contexts) {
  StreamEntry entry;
  const CUresult code = stream_of(stream, entry);
  if (code != cuda::success) return code;
  if (bytes == 0) return cuda::success;
  if (!target || !source) return cuda::error_invalid_value;
  const std::uint32_t gpu = entry.context->gpu;
  for (const Side* side : {&*source, &*target}) {
    const CUresult allowed = allow(*side, bytes, gpu, contexts);
    if (allowed != cuda::success) return allowed;
  }
  bool pageable = false;
  for (std::uint64_t at = 0; at < bytes;) {
    GpuCopy order;
    order.length_bytes = std::min({bytes - at, run_at(*source, at), run_at(*target, at)});
    if (source->device) order.source = DevicePointer{source->address + at};
    if (target->device) order.target = DevicePointer{target->address + at};
    if (source->device && target->device) {
      order.kind = GpuCopy::Kind::on_device;
      choose_engine(gpu, order);
    } else if (target->device || source->device) {
      const Side& host = target->device ? *source : *target;
      order.kind = target->device ? GpuCopy::Kind::to_device : GpuCopy::Kind::to_host;
      order.host = reinterpret_cast<std::byte*>(host.address + at);
      order.pageable = !host.pinned;
    } else {
      order.kind = GpuCopy::Kind::on_host;
      order.host = reinterpret_cast<std::byte*>(target->address + at);
      order.host_source = reinterpret_cast<const std::byte*>(source->address + at);
    }
    pageable = pageable || order.pageable;
    const CUresult queued = engines_.submit(entry.stream, order);
    if (queued != cuda::success) return queued;
    at += order.length_bytes;
  }
  // Pageable memory is the caller's again on return: the driver waits.
  return pageable ? engines_.synchronize(*entry.stream) : cuda::success;
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
    // The pointers tell where memory is; contexts are only looked at where they are given.
    for (const auto& [handle, known] : {std::pair{target_context, to}, {source_context, from}}) {
      if (handle != nullptr && (known == nullptr || known->references == 0)) {
        return cuda::error_invalid_context;
      }
    }
  }
  return copy(device_side(target, bytes), device_side(source, bytes), bytes, stream,
              Contexts::named);
}

/// Pinned and managed memory: the GPU writes it over the bus.
CUresult SoftCuda::fill_host(const StreamEntry& entry, const Side& target, unsigned char value,
                             std::size_t bytes) {
  static constexpr std::size_t chunk_bytes = 1u << 20;
  return engines_.submit(entry.stream, [this, gpu = entry.context->gpu, target, value, bytes] {
    const std::vector<std::byte> chunk(std::min(bytes, chunk_bytes), std::byte{value});
    for (std::size_t at = 0; at < bytes; at += chunk.size()) {
      const auto* here = reinterpret_cast<const std::byte*>(target.address + at);
      const std::size_t length = std::min(chunk.size(), bytes - at);
      const Carried carried =
          bus_.kernel_store(gpu, std::span(chunk.data(), length), End::at(bus_.address_of(here)));
      if (!carried.ok()) return GpuWorkStep{true, cuda::error_illegal_address};
    }
    return GpuWorkStep{};
  });
}

CUresult SoftCuda::memset_d8_async(CUdeviceptr target, unsigned char value, std::size_t bytes,
                                   CUstream stream) {
  StreamEntry entry;
  const CUresult code = stream_of(stream, entry);
  if (code != cuda::success) return code;
  if (bytes == 0) return cuda::success;
  const auto side = device_side(target, bytes);
  if (!side) return cuda::error_invalid_value;
  if (!side->device) return fill_host(entry, *side, value, bytes);
  for (std::uint64_t at = 0; at < bytes;) {
    GpuCopy order;
    order.kind = GpuCopy::Kind::fill;
    order.target = DevicePointer{target + at};
    order.value = value;
    order.length_bytes = std::min<std::uint64_t>(bytes - at, run_at(*side, at));
    const auto memory = allocations_.find(order.target);
    {
      // The stream's own GPU fills: it must reach the memory.
      const std::lock_guard lock(mutex_);
      if (!memory || access_of(entry.context->gpu, *memory) != cuda::memory_access_read_write) {
        return cuda::error_invalid_value;
      }
    }
    const CUresult queued = engines_.submit(entry.stream, order);
    if (queued != cuda::success) return queued;
    at += order.length_bytes;
  }
  return cuda::success;
}

}  // namespace nobounce::fabric
