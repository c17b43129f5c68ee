// The soft CUDA driver: streams and events as handles, and the calls that wait for them.
#include "fabric/soft_cuda_driver.hpp"

namespace nobounce::fabric {

namespace cuda = system::cuda;

namespace {

// Handles that are numbers: CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
void* const stream_legacy = reinterpret_cast<void*>(std::uintptr_t{1});
void* const stream_per_thread = reinterpret_cast<void*>(std::uintptr_t{2});
constexpr unsigned event_interprocess = 4;
constexpr unsigned wait_external = 1;
constexpr CUresult error_illegal_state = 401;

}  // namespace

/// With mutex_ held. Numbers, never reused: a stale handle names nothing.
void* SoftCuda::next_handle() {
  next_handle_ += 16;
  return reinterpret_cast<void*>(next_handle_);
}

bool SoftCuda::is_handle(CUstream stream) {
  return stream != nullptr && stream != stream_legacy && stream != stream_per_thread;
}

/// A handle carries its context; the default streams are those of the current one.
CUresult SoftCuda::stream_of(CUstream handle, StreamEntry& entry) {
  if (!initialized_) return cuda::error_not_initialized;
  const bool of_thread = handle == stream_per_thread;
  if (is_handle(handle)) {
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(handle);
    if (found == streams_.end()) return cuda::error_invalid_handle;
    if (capturing_.count(handle) > 0) return cuda::error_stream_capture_unsupported;
    entry = found->second;
    return engines_.fault();
  }
  CUresult code = cuda::success;
  Context* context = current(code);
  if (context == nullptr) return code;
  const std::lock_guard lock(mutex_);
  entry = {context->default_stream, context};
  if (!of_thread) return cuda::success;
  auto& own = context->thread_streams[std::this_thread::get_id()];
  if (!own) own = engines_.make_stream(context->gpu, true, false);
  entry.stream = own;
  return cuda::success;
}

CUresult SoftCuda::event_of(CUevent handle, EventEntry& entry) {
  if (!initialized_) return cuda::error_not_initialized;
  const std::lock_guard lock(mutex_);
  const auto found = events_.find(handle);
  if (found == events_.end()) return cuda::error_invalid_handle;
  entry = found->second;
  return cuda::success;
}

CUresult SoftCuda::stream_create(CUstream* stream, unsigned flags) {
  CUresult code = cuda::success;
  Context* context = current(code);
  if (context == nullptr) return code;
  if (stream == nullptr || (flags & ~cuda::stream_non_blocking) != 0) {
    return cuda::error_invalid_value;
  }
  auto made = engines_.make_stream(context->gpu, (flags & cuda::stream_non_blocking) == 0, false);
  const std::lock_guard lock(mutex_);
  void* handle = next_handle();
  streams_[handle] = {std::move(made), context};
  *stream = handle;
  return cuda::success;
}

CUresult SoftCuda::stream_destroy(CUstream stream) {
  if (!initialized_) return cuda::error_not_initialized;
  const std::lock_guard lock(mutex_);
  capturing_.erase(stream);
  // What it still holds is carried out: the engine keeps it.
  return streams_.erase(stream) > 0 ? cuda::success : cuda::error_invalid_handle;
}

CUresult SoftCuda::stream_query(CUstream stream) {
  StreamEntry entry;
  const CUresult code = stream_of(stream, entry);
  return code == cuda::success ? engines_.query(*entry.stream) : code;
}

CUresult SoftCuda::stream_synchronize(CUstream stream) {
  StreamEntry entry;
  const CUresult code = stream_of(stream, entry);
  return code == cuda::success ? engines_.synchronize(*entry.stream) : code;
}

CUresult SoftCuda::stream_wait_event(CUstream stream, CUevent event, unsigned flags) {
  StreamEntry entry;
  CUresult code = stream_of(stream, entry);
  if (code != cuda::success) return code;
  if (flags > wait_external) return cuda::error_invalid_value;
  if (flags == wait_external) return error_illegal_state;  // but for streams that are captured
  EventEntry waited;
  code = event_of(event, waited);
  return code == cuda::success ? engines_.wait_in_stream(entry.stream, waited.event) : code;
}

CUresult SoftCuda::event_create(CUevent* event, unsigned flags) {
  CUresult code = cuda::success;
  Context* context = current(code);
  if (context == nullptr) return code;
  constexpr unsigned known =
      cuda::event_blocking_sync | cuda::event_disable_timing | event_interprocess;
  const bool untimed = (flags & cuda::event_disable_timing) != 0;
  if (event == nullptr || (flags & ~known) != 0 ||
      ((flags & event_interprocess) != 0 && !untimed)) {
    return cuda::error_invalid_value;
  }
  const std::lock_guard lock(mutex_);
  void* handle = next_handle();
  events_[handle] = {std::make_shared<GpuEvent>(), context};
  *event = handle;
  return cuda::success;
}

CUresult SoftCuda::event_destroy(CUevent event) {
  if (!initialized_) return cuda::error_not_initialized;
  const std::lock_guard lock(mutex_);
  return events_.erase(event) > 0 ? cuda::success : cuda::error_invalid_handle;
}

CUresult SoftCuda::event_record(CUevent event, CUstream stream) {
  EventEntry recorded;
  CUresult code = event_of(event, recorded);
  if (code != cuda::success) return code;
  StreamEntry entry;
  code = stream_of(stream, entry);
  if (code != cuda::success) return code;
  if (entry.context != recorded.context) return cuda::error_invalid_handle;
  return engines_.record(entry.stream, recorded.event);
}

CUresult SoftCuda::event_query(CUevent event) {
  EventEntry entry;
  const CUresult code = event_of(event, entry);
  return code == cuda::success ? engines_.query(*entry.event) : code;
}

CUresult SoftCuda::event_synchronize(CUevent event) {
  EventEntry entry;
  const CUresult code = event_of(event, entry);
  return code == cuda::success ? engines_.synchronize(*entry.event) : code;
}

}  // namespace nobounce::fabric
