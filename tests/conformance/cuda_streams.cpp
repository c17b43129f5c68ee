// Streams and events: handles, order between streams, and what the default stream waits for.
#include "conformance/sequence.hpp"

namespace nobounce::conformance {

namespace {

constexpr std::size_t mib = 1u << 20;
constexpr std::size_t large = 64 * mib;  // over a millisecond on the fastest bus there is

cuda::CUstream stream(Run& run, unsigned flags = cuda::stream_non_blocking) {
  cuda::CUstream made = nullptr;
  (void)run.cuda().stream_create(&made, flags);
  return made;
}

cuda::CUevent event(Run& run, unsigned flags = cuda::event_disable_timing) {
  cuda::CUevent made = nullptr;
  (void)run.cuda().event_create(&made, flags);
  return made;
}

void create_streams(Run& run) {
  for (const unsigned flags : {0u, 1u, 2u, 3u, 4u, 1u << 31}) {
    run.note("flags " + std::to_string(flags));
    cuda::CUstream made = nullptr;
    if (run.cuda().stream_create(&made, flags) != cuda::success) continue;
    (void)run.cuda().stream_query(made);
    (void)run.cuda().stream_synchronize(made);
    (void)run.cuda().stream_destroy(made);
  }
  (void)run.cuda().stream_create(nullptr, 0);
}

void create_events(Run& run) {
  for (const unsigned flags : {0u, 1u, 2u, 3u, 4u, 6u, 8u, 1u << 31}) {
    run.note("flags " + std::to_string(flags));
    cuda::CUevent made = nullptr;
    if (run.cuda().event_create(&made, flags) != cuda::success) continue;
    (void)run.cuda().event_query(made);
    (void)run.cuda().event_synchronize(made);
    (void)run.cuda().event_destroy(made);
  }
  (void)run.cuda().event_create(nullptr, 0);
}

void default_stream(Run& run) {
  (void)run.cuda().stream_query(nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  cuda::CUevent made = event(run);
  (void)run.cuda().event_record(made, nullptr);
  (void)run.cuda().event_synchronize(made);
  (void)run.cuda().event_query(made);
  (void)run.cuda().stream_wait_event(nullptr, made, 0);
  (void)run.cuda().stream_synchronize(nullptr);
  (void)run.cuda().event_destroy(made);
}

void special_streams(Run& run) {
  run.note("legacy and per-thread default stream by number");
  for (const std::uintptr_t number : {1u, 2u}) {
    auto* handle = reinterpret_cast<cuda::CUstream>(number);
    (void)run.cuda().stream_query(handle);
    (void)run.cuda().stream_synchronize(handle);
    const cuda::CUdeviceptr device = run.allocate(4096);
    (void)run.cuda().memset_d8_async(device, 7, 4096, handle);
    (void)run.cuda().stream_synchronize(handle);
    run.device_bytes("filled", device, 4096);
    run.free(device);
  }
}

void null_handles(Run& run) {
  (void)run.cuda().stream_destroy(nullptr);
  (void)run.cuda().event_destroy(nullptr);
  (void)run.cuda().event_query(nullptr);
  (void)run.cuda().event_synchronize(nullptr);
  (void)run.cuda().event_record(nullptr, nullptr);
  (void)run.cuda().stream_wait_event(nullptr, nullptr, 0);
}

void wait_flags(Run& run) {
  cuda::CUstream made = stream(run);
  cuda::CUevent waited = event(run);
  (void)run.cuda().event_record(waited, nullptr);
  for (const unsigned flags : {0u, 1u, 2u, 4u}) {
    run.note("flags " + std::to_string(flags));
    (void)run.cuda().stream_wait_event(made, waited, flags);
  }
  (void)run.cuda().stream_synchronize(made);
  (void)run.cuda().event_destroy(waited);
  (void)run.cuda().stream_destroy(made);
}

void never_recorded(Run& run) {
  cuda::CUstream made = stream(run);
  cuda::CUevent waited = event(run);
  (void)run.cuda().event_query(waited);
  (void)run.cuda().event_synchronize(waited);
  (void)run.cuda().stream_wait_event(made, waited, 0);
  (void)run.cuda().stream_synchronize(made);
  (void)run.cuda().event_destroy(waited);
  (void)run.cuda().stream_destroy(made);
}

/// Work that is still running when it is asked about, on any machine that carries it out at all.
struct Long {
  explicit Long(Run& in) : run(in), source(in.pinned(large)), target(in.allocate(large)) {}
  ~Long() {
    run.free(target);
    run.free_pinned(source);
  }
  Long(const Long&) = delete;
  Long& operator=(const Long&) = delete;
  void start(cuda::CUstream in) { (void)run.cuda().memcpy_htod_async(target, source, large, in); }
  Run& run;
  std::byte* source;
  cuda::CUdeviceptr target;
};

/// Whether a question is answered by "not ready" or "done" is a matter of time; nothing else may
/// be.
void note_state(Run& run, const char* what, cuda::CUresult code) {
  run.yes(what, code == cuda::success || code == cuda::error_not_ready);
}

void while_it_runs(Run& run) {
  Long work(run);
  cuda::CUstream made = stream(run);
  cuda::CUevent done = event(run);
  work.start(made);
  (void)run.cuda().event_record(done, made);
  note_state(run, "stream busy or done", run.quiet().stream_query(made));
  note_state(run, "event pending or passed", run.quiet().event_query(done));
  (void)run.cuda().event_synchronize(done);
  (void)run.cuda().event_query(done);
  (void)run.cuda().stream_query(made);
  (void)run.cuda().event_destroy(done);
  (void)run.cuda().stream_destroy(made);
}

void destroyed_while_it_runs(Run& run) {
  const cuda::CUdeviceptr device = run.allocate(mib);
  Long work(run);
  cuda::CUstream made = stream(run);
  cuda::CUevent done = event(run);
  work.start(made);
  (void)run.cuda().memset_d8_async(device, 0x77, mib, made);
  (void)run.cuda().event_record(done, made);
  (void)run.cuda().stream_destroy(made);
  (void)run.cuda().event_synchronize(done);
  run.device_bytes("carried out", device, mib);
  (void)run.cuda().event_destroy(done);
  run.free(device);
}

void event_destroyed_while_pending(Run& run) {
  Long work(run);
  cuda::CUstream made = stream(run);
  cuda::CUevent done = event(run);
  work.start(made);
  (void)run.cuda().event_record(done, made);
  (void)run.cuda().event_destroy(done);
  (void)run.cuda().stream_synchronize(made);
  (void)run.cuda().stream_destroy(made);
}

void order_by_event(Run& run) {
  const cuda::CUdeviceptr device = run.allocate(mib);
  Long work(run);
  cuda::CUstream first = stream(run);
  cuda::CUstream second = stream(run);
  cuda::CUevent filled = event(run);
  work.start(first);
  (void)run.cuda().memset_d8_async(device, 1, mib, first);
  (void)run.cuda().event_record(filled, first);
  (void)run.cuda().stream_wait_event(second, filled, 0);
  (void)run.cuda().memset_d8_async(device, 2, mib / 2, second);
  (void)run.cuda().stream_synchronize(second);
  run.device_bytes("second after first", device, mib);
  (void)run.cuda().stream_query(first);
  (void)run.cuda().event_destroy(filled);
  (void)run.cuda().stream_destroy(first);
  (void)run.cuda().stream_destroy(second);
  run.free(device);
}

void ping_pong(Run& run) {
  const cuda::CUdeviceptr device = run.allocate(8 * mib);
  (void)run.quiet().memset_d8_async(device, 0, 8 * mib, nullptr);
  (void)run.quiet().stream_synchronize(nullptr);
  cuda::CUstream streams[2] = {stream(run), stream(run)};
  cuda::CUevent turn = event(run);
  for (unsigned i = 0; i < 8; ++i) {
    cuda::CUstream mine = streams[i % 2];
    (void)run.cuda().memset_d8_async(device, static_cast<unsigned char>(i + 1), (8 - i) * mib,
                                     mine);
    (void)run.cuda().event_record(turn, mine);
    (void)run.cuda().stream_wait_event(streams[(i + 1) % 2], turn, 0);
  }
  (void)run.cuda().stream_synchronize(streams[0]);
  run.device_bytes("steps", device, 8 * mib);
  (void)run.cuda().event_destroy(turn);
  for (cuda::CUstream one : streams) (void)run.cuda().stream_destroy(one);
  run.free(device);
}

void recorded_again(Run& run) {
  const cuda::CUdeviceptr device = run.allocate(mib);
  Long work(run);
  cuda::CUstream made = stream(run);
  cuda::CUevent done = event(run);
  (void)run.cuda().event_record(done, made);
  work.start(made);
  (void)run.cuda().memset_d8_async(device, 9, mib, made);
  (void)run.cuda().event_record(done, made);
  (void)run.cuda().event_synchronize(done);
  (void)run.cuda().stream_query(made);
  run.device_bytes("behind the second record", device, mib);
  (void)run.cuda().event_destroy(done);
  (void)run.cuda().stream_destroy(made);
  run.free(device);
}

/// Blocking streams and the default stream take turns.
void default_waits_for_blocking(Run& run) {
  const cuda::CUdeviceptr device = run.allocate(mib);
  Long work(run);
  cuda::CUstream blocking = stream(run, 0);
  work.start(blocking);
  (void)run.cuda().memset_d8_async(device, 1, mib, blocking);
  (void)run.cuda().memset_d8_async(device, 2, mib / 2, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.device_bytes("default after blocking", device, mib);
  (void)run.cuda().stream_query(blocking);
  (void)run.cuda().stream_destroy(blocking);
  run.free(device);
}

void blocking_waits_for_default(Run& run) {
  const cuda::CUdeviceptr device = run.allocate(mib);
  Long work(run);
  cuda::CUstream blocking = stream(run, 0);
  work.start(nullptr);
  (void)run.cuda().memset_d8_async(device, 1, mib, nullptr);
  (void)run.cuda().memset_d8_async(device, 2, mib / 2, blocking);
  (void)run.cuda().stream_synchronize(blocking);
  run.device_bytes("blocking after default", device, mib);
  (void)run.cuda().stream_destroy(blocking);
  run.free(device);
}

void context_synchronize(Run& run) {
  const cuda::CUdeviceptr device = run.allocate(mib);
  Long work(run);
  cuda::CUstream made = stream(run);
  work.start(made);
  (void)run.cuda().memset_d8_async(device, 3, mib, made);
  (void)run.cuda().ctx_synchronize();
  (void)run.cuda().stream_query(made);
  run.device_bytes("done", device, mib);
  (void)run.cuda().stream_destroy(made);
  run.free(device);
}

/// Freeing waits for what still uses the memory.
void free_while_it_runs(Run& run) {
  cuda::CUstream made = stream(run);
  std::byte* source = run.pinned(large);
  cuda::CUdeviceptr target = run.allocate(large);
  (void)run.cuda().memcpy_htod_async(target, source, large, made);
  (void)run.cuda().mem_free(target);
  (void)run.cuda().stream_query(made);
  run.free_pinned(source);
  (void)run.cuda().stream_destroy(made);
}

void many_streams(Run& run) {
  std::vector<cuda::CUstream> streams(64);
  const cuda::CUdeviceptr device = run.allocate(64 * 4096);
  bool distinct = true;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    (void)run.quiet().stream_create(&streams[i], cuda::stream_non_blocking);
    for (std::size_t j = 0; j < i; ++j) distinct = distinct && streams[i] != streams[j];
    (void)run.quiet().memset_d8_async(device + i * 4096, static_cast<unsigned char>(i), 4096,
                                      streams[i]);
  }
  run.yes("distinct", distinct);
  for (cuda::CUstream one : streams) (void)run.cuda().stream_synchronize(one);
  run.device_bytes("all", device, 64 * 4096);
  for (cuda::CUstream one : streams) (void)run.cuda().stream_destroy(one);
  run.free(device);
}

void without_context(Run& run) {
  cuda::CUstream made = stream(run);
  cuda::CUevent done = event(run);
  (void)run.cuda().event_record(done, made);
  (void)run.quiet().stream_synchronize(made);
  cuda::CUcontext popped = nullptr;
  (void)run.cuda().ctx_pop_current(&popped);
  run.note("no context current");
  (void)run.cuda().stream_query(made);
  (void)run.cuda().stream_synchronize(made);
  (void)run.cuda().event_query(done);
  (void)run.cuda().event_synchronize(done);
  (void)run.cuda().event_record(done, made);
  (void)run.cuda().stream_wait_event(made, done, 0);
  (void)run.cuda().event_destroy(done);
  (void)run.cuda().stream_destroy(made);
}

void copies_without_context(Run& run) {
  cuda::CUstream made = stream(run);
  const cuda::CUdeviceptr device = run.allocate(4096);
  std::byte* host = run.pinned(4096);
  cuda::CUcontext popped = nullptr;
  (void)run.cuda().ctx_pop_current(&popped);
  run.note("no context current, but a stream of one");
  (void)run.cuda().memcpy_htod_async(device, host, 4096, made);
  (void)run.cuda().memset_d8_async(device, 4, 4096, made);
  (void)run.cuda().memcpy_dtoh_async(host, device, 4096, made);
  (void)run.cuda().stream_synchronize(made);
  (void)run.cuda().ctx_push_current(popped);
  run.free(device);
  run.free_pinned(host);
  (void)run.cuda().stream_destroy(made);
}

void destroyed_twice(Run& run) {
  cuda::CUstream made = stream(run);
  (void)run.cuda().stream_destroy(made);
  (void)run.cuda().stream_destroy(made);
}

}  // namespace

void add_cuda_streams(Catalogue& all) {
  all.add("streams.create", create_streams);
  all.add("streams.default", default_stream);
  all.add("streams.default.by_number", special_streams, {Start::alone});
  all.add("streams.null_handles", null_handles, {Start::alone});
  all.add("streams.many", many_streams);
  all.add("streams.while_it_runs", while_it_runs);
  all.add("streams.destroyed_while_it_runs", destroyed_while_it_runs);
  all.add("streams.destroyed_twice", destroyed_twice, {Start::alone});
  all.add("streams.used_after_destroying",
          [](Run& run) {
            cuda::CUstream made = stream(run);
            (void)run.cuda().stream_destroy(made);
            (void)run.cuda().stream_query(made);
          },
          {Start::alone});
  all.add("streams.wild",
          [](Run& run) {
            alignas(64) static std::byte nothing[4096]{};
            (void)run.cuda().stream_query(reinterpret_cast<cuda::CUstream>(nothing));
          },
          {Start::alone});
  all.add("streams.default_waits_for_blocking", default_waits_for_blocking);
  all.add("streams.blocking_waits_for_default", blocking_waits_for_default);
  all.add("streams.context_synchronize", context_synchronize);
  all.add("streams.free_while_it_runs", free_while_it_runs);
  all.add("streams.without_context", without_context, {Start::alone});
  all.add("streams.without_context.copies", copies_without_context, {Start::alone});
  all.add("events.create", create_events);
  all.add("events.wait_flags", wait_flags);
  all.add("events.never_recorded", never_recorded);
  all.add("events.destroyed_while_pending", event_destroyed_while_pending);
  all.add("events.destroyed_twice",
          [](Run& run) {
            cuda::CUevent made = event(run);
            (void)run.cuda().event_destroy(made);
            (void)run.cuda().event_destroy(made);
          },
          {Start::alone});
  all.add("events.used_after_destroying",
          [](Run& run) {
            cuda::CUevent made = event(run);
            (void)run.cuda().event_destroy(made);
            (void)run.cuda().event_query(made);
          },
          {Start::alone});
  all.add("events.order", order_by_event);
  all.add("events.ping_pong", ping_pong);
  all.add("events.recorded_again", recorded_again);
}

}  // namespace nobounce::conformance
