// The soft CUDA driver: stream memory operations, and streams that are being captured.
#include "fabric/soft_cuda_driver.hpp"

namespace nobounce::fabric {

namespace cuda = system::cuda;

namespace {

constexpr CUresult error_of_capture_state = 401;
constexpr int capture_mode_last = cuda::capture_mode_relaxed;
constexpr std::uint64_t word_bytes = 8;

}  // namespace

/// Device memory or pinned host memory that the stream's GPU reaches.
CUresult SoftCuda::word_of(const StreamEntry& entry, CUdeviceptr address, End& word) const {
  if (address == 0 || address % word_bytes != 0) return cuda::error_invalid_value;
  const auto inside = [&](const std::optional<GpuAllocation>& allocation) {
    return allocation && !allocation->internal &&
           address - allocation->base.value + word_bytes <= allocation->length_bytes;
  };
  if (const auto device = allocations_.find(DevicePointer{address}); inside(device)) {
    const std::lock_guard lock(mutex_);
    const int access = access_of(entry.context->gpu, *device);
    if (access != cuda::memory_access_read_write) return cuda::error_invalid_value;
    word = End::of(DevicePointer{address});
    return cuda::success;
  }
  const auto* host = reinterpret_cast<const void*>(address);
  const auto pinned = allocations_.find_host(host);
  if (!inside(pinned) || pinned->kind == AllocationKind::managed) return cuda::error_invalid_value;
  word = End::at(bus_.address_of(host));
  return cuda::success;
}

CUresult SoftCuda::stream_wait_value64(CUstream stream, CUdeviceptr address, std::uint64_t value,
                                       unsigned flags) {
  StreamEntry entry;
  CUresult code = stream_of(stream, entry);
  if (code != cuda::success) return code;
  const unsigned compare = flags & ~cuda::wait_value_flush;
  if (compare > cuda::wait_value_nor) return cuda::error_invalid_value;
  // This driver cannot flush by a memory operation, as its attribute says.
  if ((flags & cuda::wait_value_flush) != 0) return cuda::error_not_supported;
  End word;
  code = word_of(entry, address, word);
  return code == cuda::success ? engines_.wait_for_word(entry.stream, word, value, compare) : code;
}

CUresult SoftCuda::stream_write_value64(CUstream stream, CUdeviceptr address, std::uint64_t value,
                                        unsigned flags) {
  StreamEntry entry;
  CUresult code = stream_of(stream, entry);
  if (code != cuda::success) return code;
  // A write without its barrier is refused, as driver 580 was seen to.
  if (flags != cuda::write_value_default) return cuda::error_invalid_value;
  End word;
  code = word_of(entry, address, word);
  return code == cuda::success ? engines_.write_word(entry.stream, word, value) : code;
}

CUresult SoftCuda::stream_is_capturing(CUstream stream, int* status) {
  if (!initialized_) return cuda::error_not_initialized;
  if (status == nullptr) return cuda::error_invalid_value;
  bool capturing = false;
  if (is_handle(stream)) {
    const std::lock_guard lock(mutex_);
    if (streams_.find(stream) == streams_.end()) return cuda::error_invalid_handle;
    capturing = capturing_.count(stream) > 0;
  } else {
    StreamEntry entry;
    if (const CUresult code = stream_of(stream, entry); code != cuda::success) return code;
  }
  *status = capturing ? cuda::capture_status_active : cuda::capture_status_none;
  return cuda::success;
}

/// What is submitted to a stream while it is captured is refused, not recorded: software machines
/// have no graphs.
CUresult SoftCuda::stream_begin_capture(CUstream stream, int mode) {
  if (!initialized_) return cuda::error_not_initialized;
  if (mode < 0 || mode > capture_mode_last) return cuda::error_invalid_value;
  if (!is_handle(stream)) return cuda::error_stream_capture_unsupported;
  const std::lock_guard lock(mutex_);
  if (streams_.find(stream) == streams_.end()) return cuda::error_invalid_handle;
  return capturing_.insert(stream).second ? cuda::success : error_of_capture_state;
}

CUresult SoftCuda::stream_end_capture(CUstream stream, CUgraph* graph) {
  if (!initialized_) return cuda::error_not_initialized;
  if (graph == nullptr) return cuda::error_invalid_value;
  const std::lock_guard lock(mutex_);
  if (is_handle(stream) && streams_.find(stream) == streams_.end())
    return cuda::error_invalid_handle;
  if (capturing_.erase(stream) == 0) return error_of_capture_state;
  *graph = next_handle();
  graphs_.insert(*graph);
  return cuda::success;
}

CUresult SoftCuda::graph_destroy(CUgraph graph) {
  if (!initialized_) return cuda::error_not_initialized;
  const std::lock_guard lock(mutex_);
  return graphs_.erase(graph) > 0 ? cuda::success : cuda::error_invalid_value;
}

CUresult SoftCuda::mem_host_get_device_pointer(CUdeviceptr* pointer, void* host, unsigned flags) {
  CUresult code = cuda::success;
  if (current(code) == nullptr) return code;
  if (pointer == nullptr || host == nullptr || flags != 0) return cuda::error_invalid_value;
  const auto pinned = allocations_.find_host(host);
  if (!pinned || pinned->kind == AllocationKind::managed) return cuda::error_invalid_value;
  *pointer = reinterpret_cast<CUdeviceptr>(host);
  return cuda::success;
}

}  // namespace nobounce::fabric
