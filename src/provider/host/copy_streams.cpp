// The streams of the host provider.
#include "provider/host/copy_streams.hpp"

#include <utility>

namespace nobounce::provider::host {

using system::cuda::success;

Result<CopyStream*> CopyStreams::find(std::uint32_t gpu, CopyKind kind) {
  CopyStream* reopen = nullptr;
  for (const auto& stream : streams_) {
    if (stream->gpu != gpu || stream->kind != kind) continue;
    if (!stream->broken) return stream.get();
    if (stream->in_flight == 0) reopen = stream.get();
  }
  const Result<system::cuda::CUcontext> context = contexts_.context(gpu);
  if (!context.ok()) return context.error();
  system::Cuda& cuda = contexts_.table();
  const system::ContextGuard guard(cuda, *context);
  if (reopen != nullptr) close(*reopen);
  system::cuda::CUstream stream = nullptr;
  const auto code = cuda.stream_create(&stream, system::cuda::stream_non_blocking);
  if (code != success) return system::cuda_error(cuda, code, "create a stream for copies");
  if (reopen == nullptr) {
    streams_.push_back(std::make_unique<CopyStream>());
    reopen = streams_.back().get();
  }
  reopen->gpu = gpu;
  reopen->kind = kind;
  reopen->context = *context;
  reopen->stream = stream;
  reopen->broken = false;
  return reopen;
}

Result<CopyInFlight> CopyStreams::start(std::uint32_t gpu, CopyKind kind, const CopyEnds& ends,
                                        std::uint64_t length_bytes) {
  Result<CopyStream*> found = find(gpu, kind);
  if (!found.ok()) return std::move(found).error();
  CopyStream& on = **found;
  system::Cuda& cuda = contexts_.table();
  const system::ContextGuard guard(cuda, on.context);
  system::cuda::CUresult code = success;
  switch (kind) {
    case CopyKind::to_gpu:
      code = cuda.memcpy_htod_async(ends.gpu_target.value, ends.host, length_bytes, on.stream);
      break;
    case CopyKind::to_host:
      code = cuda.memcpy_dtoh_async(ends.host, ends.gpu_source.value, length_bytes, on.stream);
      break;
    case CopyKind::inside_gpu:
      code = cuda.memcpy_dtod_async(ends.gpu_target.value, ends.gpu_source.value, length_bytes,
                                    on.stream);
      break;
  }
  if (code != success) {
    on.broken = true;
    return system::cuda_error(cuda, code, "start a copy by the GPU's copy engine");
  }
  CopyInFlight copy{&on, nullptr};
  ++on.in_flight;
  if (!on.free_events.empty()) {
    copy.event = on.free_events.back();
    on.free_events.pop_back();
  } else if (cuda.event_create(&copy.event, system::cuda::event_disable_timing) != success) {
    copy.event = nullptr;
  }
  // The copy runs from here on, whatever happens to the event: without one the stream is asked.
  if (copy.event != nullptr && cuda.event_record(copy.event, on.stream) != success) {
    (void)cuda.event_destroy(copy.event);
    copy.event = nullptr;
  }
  return copy;
}

Landing CopyStreams::look(CopyInFlight& copy, std::optional<Error>& error) {
  CopyStream& on = *copy.on;
  system::Cuda& cuda = contexts_.table();
  const system::ContextGuard guard(cuda, on.context);
  auto code = copy.event != nullptr ? cuda.event_query(copy.event) : cuda.stream_query(on.stream);
  if (code == system::cuda::error_not_ready) return Landing::flying;
  if (code != success) {
    // One failed question proves nothing about the copy; the stream is asked as well.
    on.broken = true;
    code = cuda.stream_query(on.stream);
    if (code == system::cuda::error_not_ready) return Landing::flying;
  }
  --on.in_flight;
  if (copy.event != nullptr) on.free_events.push_back(copy.event);
  copy = {};
  if (code == success) return Landing::landed;
  error = system::cuda_error(cuda, code, "copy by the GPU's copy engine");
  return Landing::failed;
}

void CopyStreams::close(CopyStream& stream) {
  system::Cuda& cuda = contexts_.table();
  for (const system::cuda::CUevent event : stream.free_events) (void)cuda.event_destroy(event);
  stream.free_events.clear();
  if (stream.stream != nullptr) (void)cuda.stream_destroy(stream.stream);
  stream.stream = nullptr;
}

bool CopyStreams::release() {
  bool all = true;
  for (const auto& stream : streams_) {
    if (stream->in_flight > 0) {
      all = false;
      continue;
    }
    const system::ContextGuard guard(contexts_.table(), stream->context);
    close(*stream);
  }
  return all;
}

}  // namespace nobounce::provider::host
