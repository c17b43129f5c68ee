// Streams for copies by the GPUs' copy engines.
#include "system/copy_streams.hpp"

#include <algorithm>
#include <utility>

namespace nobounce::system {

using cuda::success;

Result<CopyStream*> CopyStreams::find(const CopyLane& lane) {
  CopyStream* reopen = nullptr;
  for (const auto& stream : streams_) {
    if (!(stream->lane == lane)) continue;
    if (!stream->broken) return stream.get();
    if (stream->in_flight == 0 && stream->resting == 0) reopen = stream.get();
  }
  const Result<cuda::CUcontext> context = contexts_.context(lane.gpu);
  if (!context.ok()) return context.error();
  const bool to_peer = lane.kind == CopyKind::to_peer;
  const Result<cuda::CUcontext> peer = to_peer ? contexts_.context(lane.peer) : context;
  if (!peer.ok()) return peer.error();
  Cuda& cuda = contexts_.table();
  const ContextGuard guard(cuda, *context);
  if (reopen != nullptr) close(*reopen, guard);
  cuda::CUstream stream = nullptr;
  const auto code = cuda.stream_create(&stream, cuda::stream_non_blocking);
  if (code != success) return cuda_error(cuda, code, "create a stream for copies");
  if (reopen == nullptr) {
    streams_.push_back(std::make_unique<CopyStream>());
    reopen = streams_.back().get();
  }
  reopen->lane = lane;
  reopen->context = *context;
  reopen->peer_context = *peer;
  reopen->stream = stream;
  reopen->marks.clear();
  reopen->last = 0;
  reopen->landed = 0;
  reopen->broken = false;
  return reopen;
}

Result<CopyInFlight> CopyStreams::start(const CopyLane& lane, const CopyEnds& ends,
                                        std::uint64_t length_bytes) {
  Result<CopyStream*> found = find(lane);
  if (!found.ok()) return std::move(found).error();
  CopyStream& on = **found;
  Cuda& cuda = contexts_.table();
  std::optional<ContextGuard> guard;
  if (ends.current != on.context) guard.emplace(cuda, on.context);
  if (on.in_flight > 0) mark_last(on);
  cuda::CUresult code = success;
  switch (lane.kind) {
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
    case CopyKind::to_peer:
      if (ends.by_address) {
        code = cuda.memcpy_dtod_async(ends.gpu_target.value, ends.gpu_source.value, length_bytes,
                                      on.stream);
        break;
      }
      // The driver dies of a peer's context that is gone (seen with driver 580).
      code =
          ContextGuard(cuda, on.peer_context).alive()
              ? cuda.memcpy_peer_async(ends.gpu_target.value, on.peer_context,
                                       ends.gpu_source.value, on.context, length_bytes, on.stream)
              : cuda::error_context_is_destroyed;
      break;
  }
  if (code != success) {
    on.broken = true;
    return cuda_error(cuda, code, "start a copy by the GPU's copy engine");
  }
  ++on.in_flight;
  return CopyInFlight{&on, ++on.last};
}

/// Behind the last copy, before another one follows. Without the mark it lands with its followers.
void CopyStreams::mark_last(CopyStream& on) {
  if (!on.marks.empty() && on.marks.back().behind == on.last) return;
  Cuda& cuda = contexts_.table();
  cuda::CUevent event = nullptr;
  if (!on.free_events.empty()) {
    event = on.free_events.back();
    on.free_events.pop_back();
  } else if (cuda.event_create(&event, cuda::event_disable_timing) != success) {
    return;
  }
  if (cuda.event_record(event, on.stream) == success) {
    on.marks.push_back({on.last, event});
  } else {
    (void)cuda.event_destroy(event);
  }
}

void CopyStreams::forget_marks(CopyStream& on) {
  for (const CopyStream::Mark& mark : on.marks) on.free_events.push_back(mark.event);
  on.marks.clear();
}

Landing CopyStreams::look(CopyInFlight& copy, std::optional<Error>& error) {
  CopyStream& on = *copy.on;
  Cuda& cuda = contexts_.table();
  const auto mark = std::find_if(on.marks.begin(), on.marks.end(),
                                 [&](const auto& each) { return each.behind >= copy.number; });
  const bool marked = mark != on.marks.end();
  cuda::CUresult code = success;
  if (copy.number > on.landed) {
    const ContextGuard guard(cuda, on.context);
    code = marked ? cuda.event_query(mark->event) : cuda.stream_query(on.stream);
    if (code == cuda::error_not_ready) return Landing::flying;
    if (code != success) {
      // One failed question proves nothing about the copy; the stream is asked once more.
      on.broken = true;
      code = cuda.stream_query(on.stream);
      if (code == cuda::error_not_ready) return Landing::flying;
    }
    if (code == success && copy.number <= on.failed) code = on.failure;
  }
  --on.in_flight;
  if (marked && mark->behind == copy.number) {
    on.free_events.push_back(mark->event);
    on.marks.erase(mark);
  }
  if (on.in_flight == 0) forget_marks(on);  // of copies that were seen to land before their mark
  copy = {};
  if (code == success) return Landing::landed;
  error = cuda_error(cuda, code, "copy by the GPU's copy engine");
  return Landing::failed;
}

CopyStreams::Rest CopyStreams::begin_rest(const CopyInFlight& copy) {
  ++copy.on->resting;
  return {copy.on, copy.on->last};
}

void CopyStreams::wait(Rest& rest) const {
  Cuda& cuda = contexts_.table();
  const ContextGuard guard(cuda, rest.on->context);
  rest.code = cuda.stream_synchronize(rest.on->stream);
}

void CopyStreams::end_rest(const Rest& rest) {
  --rest.on->resting;
  if (rest.code == success) {
    rest.on->landed = std::max(rest.on->landed, rest.last);
    return;
  }
  // The driver may tell an error once only: no later answer makes these copies good.
  rest.on->broken = true;
  rest.on->failure = rest.code;
  rest.on->failed = std::max(rest.on->failed, rest.last);
}

void CopyStreams::close(CopyStream& stream, const ContextGuard& guard) {
  Cuda& cuda = contexts_.table();
  forget_marks(stream);
  if (!guard.alive()) {
    stream.free_events.clear();
    stream.stream = nullptr;
  }
  for (const cuda::CUevent event : stream.free_events) (void)cuda.event_destroy(event);
  stream.free_events.clear();
  if (stream.stream != nullptr) (void)cuda.stream_destroy(stream.stream);
  stream.stream = nullptr;
}

bool CopyStreams::release() {
  bool all = true;
  for (const auto& stream : streams_) {
    if (stream->in_flight > 0 || stream->resting > 0) {
      all = false;
      continue;
    }
    const ContextGuard guard(contexts_.table(), stream->context);
    close(*stream, guard);
  }
  return all;
}

}  // namespace nobounce::system
