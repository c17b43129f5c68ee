// Peer calls: on one GPU with itself, and on two.
#include <thread>

#include "conformance/sequence.hpp"

namespace nobounce::conformance {

namespace {

constexpr std::size_t mib = 1u << 20;

void with_itself(Run& run) {
  int possible = -7;
  (void)run.cuda().device_can_access_peer(&possible, 0, 0);
  run.number("can access", static_cast<std::uint64_t>(possible));
  (void)run.cuda().ctx_enable_peer_access(run.context, 0);
  (void)run.cuda().ctx_disable_peer_access(run.context);
}

void wrong_arguments(Run& run) {
  int possible = -7;
  (void)run.cuda().device_can_access_peer(nullptr, 0, 0);
  (void)run.cuda().device_can_access_peer(&possible, 0, -1);
  (void)run.cuda().device_can_access_peer(&possible, 4711, 0);
  (void)run.cuda().ctx_enable_peer_access(nullptr, 0);
  (void)run.cuda().ctx_disable_peer_access(nullptr);
  (void)run.cuda().ctx_enable_peer_access(run.context, 1);
}

void copy_within(Run& run) {
  const cuda::CUdeviceptr source = run.allocate(mib);
  const cuda::CUdeviceptr target = run.allocate(mib);
  run.plant(source, mib, 30);
  (void)run.cuda().memcpy_peer_async(target, run.context, source, run.context, mib, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.device_bytes("target", target, mib);
  (void)run.cuda().memcpy_peer_async(target, run.context, source, run.context, 0, nullptr);
  run.free(source);
  run.free(target);
}

void copy_with_wrong_arguments(Run& run) {
  const cuda::CUdeviceptr source = run.allocate(mib);
  const cuda::CUdeviceptr target = run.allocate(mib);
  (void)run.cuda().memcpy_peer_async(target, nullptr, source, run.context, mib, nullptr);
  (void)run.cuda().memcpy_peer_async(target, run.context, source, nullptr, mib, nullptr);
  (void)run.cuda().memcpy_peer_async(0, run.context, source, run.context, mib, nullptr);
  (void)run.cuda().memcpy_peer_async(target, run.context, 0x1000, run.context, mib, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.free(source);
  run.free(target);
}

/// Two GPUs with their contexts; that of GPU 0 is current, and the run's own.
struct Pair {
  explicit Pair(Run& in) : run(in) {
    (void)run.quiet().device_primary_ctx_retain(&other, 1);
    near = run.allocate(mib);
    (void)run.quiet().ctx_push_current(other);
    far = run.allocate(mib);
    pop();
  }
  ~Pair() {
    run.free(near);
    push();
    run.free(far);
    pop();
    (void)run.quiet().device_primary_ctx_release(1);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  void push() const { (void)run.quiet().ctx_push_current(other); }
  void pop() const {
    cuda::CUcontext popped = nullptr;
    (void)run.quiet().ctx_pop_current(&popped);
  }
  void plant() const {
    run.plant(near, mib, 31);
    push();
    run.plant(far, mib, 32);
    pop();
  }
  void look() const {
    run.device_bytes("near", near, mib);
    push();
    run.device_bytes("far", far, mib);
    pop();
  }
  Run& run;
  cuda::CUcontext other = nullptr;
  cuda::CUdeviceptr near = 0;
  cuda::CUdeviceptr far = 0;
};

void capability(Run& run) {
  int possible = -7;
  (void)run.cuda().device_can_access_peer(&possible, 0, 1);
  run.number("0 to 1", static_cast<std::uint64_t>(possible));
  (void)run.cuda().device_can_access_peer(&possible, 1, 0);
  run.number("1 to 0", static_cast<std::uint64_t>(possible));
}

void enabling(Run& run) {
  const Pair pair(run);
  (void)run.cuda().ctx_disable_peer_access(pair.other);
  (void)run.cuda().ctx_enable_peer_access(pair.other, 1);
  (void)run.cuda().ctx_enable_peer_access(pair.other, 0);
  (void)run.cuda().ctx_enable_peer_access(pair.other, 0);
  (void)run.cuda().ctx_disable_peer_access(pair.other);
  (void)run.cuda().ctx_disable_peer_access(pair.other);
}

void enabling_by_another_thread(Run& run) {
  const Pair pair(run);
  std::thread thread([&] {
    (void)run.quiet().ctx_push_current(run.context);
    (void)run.cuda().ctx_enable_peer_access(pair.other, 0);
    pair.pop();
  });
  thread.join();
  (void)run.cuda().ctx_enable_peer_access(pair.other, 0);
  (void)run.cuda().ctx_disable_peer_access(pair.other);
}

void copies(Run& run, bool enabled) {
  const Pair pair(run);
  pair.plant();
  if (enabled) (void)run.cuda().ctx_enable_peer_access(pair.other, 0);
  (void)run.cuda().memcpy_peer_async(pair.far, pair.other, pair.near, run.context, mib / 2,
                                     nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  pair.look();
  (void)run.cuda().memcpy_peer_async(pair.near + mib / 2, run.context, pair.far + 3, pair.other,
                                     mib / 4, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  pair.look();
  run.note("by unified addressing");
  (void)run.cuda().memcpy_dtod_async(pair.far + mib / 2, pair.near, 1000, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  pair.look();
  if (enabled) (void)run.cuda().ctx_disable_peer_access(pair.other);
}

void contexts_swapped(Run& run) {
  const Pair pair(run);
  pair.plant();
  (void)run.cuda().memcpy_peer_async(pair.far, run.context, pair.near, pair.other, mib, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  pair.look();
}

void events_across(Run& run) {
  const Pair pair(run);
  pair.plant();
  cuda::CUevent here = nullptr;
  (void)run.cuda().event_create(&here, cuda::event_disable_timing);
  (void)run.cuda().memset_d8_async(pair.near, 5, mib, nullptr);
  (void)run.cuda().event_record(here, nullptr);
  pair.push();
  cuda::CUstream there = nullptr;
  (void)run.cuda().stream_create(&there, cuda::stream_non_blocking);
  (void)run.cuda().stream_wait_event(there, here, 0);
  (void)run.cuda().memcpy_peer_async(pair.far, pair.other, pair.near, run.context, mib, there);
  (void)run.cuda().stream_synchronize(there);
  run.note("an event of one GPU, recorded in a stream of the other");
  (void)run.cuda().event_record(here, there);
  (void)run.cuda().stream_destroy(there);
  pair.pop();
  (void)run.cuda().event_destroy(here);
  pair.look();
}

void pointers_of_the_other(Run& run) {
  const Pair pair(run);
  int ordinal = -7;
  (void)run.cuda().pointer_get_attribute(&ordinal, cuda::pointer_device_ordinal, pair.far);
  run.number("ordinal", static_cast<std::uint64_t>(ordinal));
  void* context = nullptr;
  (void)run.cuda().pointer_get_attribute(&context, cuda::pointer_context, pair.far);
  run.yes("its context", context == pair.other);
  run.note("freed in the other's context");
  (void)run.cuda().mem_free(pair.far);
}

/// Whether the driver has a pointer for kernels of the current context tells of peer access what
/// CU_POINTER_ATTRIBUTE_ACCESS_FLAGS does not.
void reach(Run& run) {
  const Pair pair(run);
  const auto ask = [&](const char* when) {
    run.note(when);
    for (const cuda::CUdeviceptr memory : {pair.near, pair.far}) {
      cuda::CUdeviceptr pointer = 0;
      const auto code =
          run.cuda().pointer_get_attribute(&pointer, cuda::pointer_device_pointer, memory);
      if (code == cuda::success) run.yes("the same address", pointer == memory);
      // One question for both: it succeeds, and gives no pointer where there is none.
      unsigned long long number = 0;
      int which[] = {cuda::pointer_buffer_id, cuda::pointer_device_pointer};
      void* answers[] = {&number, &pointer};
      pointer = 1;
      (void)run.cuda().pointer_get_attributes(2, which, answers, memory);
      run.yes("a number", number != 0);
      run.number("its distance from the address", pointer == 0 ? 1 : pointer - memory);
    }
  };
  ask("nobody may reach the other");
  (void)run.cuda().ctx_enable_peer_access(pair.other, 0);
  ask("the first may, asked there");
  pair.push();
  ask("the first may, asked in the other context");
  (void)run.cuda().ctx_enable_peer_access(run.context, 0);
  ask("both may");
  pair.pop();
  (void)run.cuda().ctx_disable_peer_access(pair.other);
  ask("the other may, asked in the first");
  pair.push();
  (void)run.cuda().ctx_disable_peer_access(run.context);
  ask("nobody may again");
  pair.pop();
}

void released_while_enabled(Run& run) {
  cuda::CUcontext other = nullptr;
  (void)run.cuda().device_primary_ctx_retain(&other, 1);
  (void)run.cuda().ctx_enable_peer_access(other, 0);
  (void)run.cuda().device_primary_ctx_release(1);
  (void)run.cuda().ctx_disable_peer_access(other);
  (void)run.cuda().device_primary_ctx_retain(&other, 1);
  (void)run.cuda().ctx_enable_peer_access(other, 0);
  (void)run.cuda().ctx_disable_peer_access(other);
  (void)run.cuda().device_primary_ctx_release(1);
}

void nvml_status(Run& run) {
  (void)run.nvml().init();
  nvml::nvmlDevice_t first = nullptr;
  nvml::nvmlDevice_t second = nullptr;
  (void)run.nvml().device_get_handle_by_index(0, &first);
  (void)run.nvml().device_get_handle_by_index(1, &second);
  for (const int capability_number : {0, 1, 2, 3, 4, 5, 6, -1}) {
    int status = -7;
    const auto code = run.nvml().device_get_p2p_status(first, second, capability_number, &status);
    run.note("capability " + std::to_string(capability_number) + ": " +
             (code == nvml::success ? std::to_string(status) : "no answer"));
  }
  (void)run.nvml().device_get_p2p_status(first, second, 0, nullptr);
  (void)run.nvml().shutdown();
}

}  // namespace

void add_cuda_peers(Catalogue& all) {
  all.add("peers.one.with_itself", with_itself, {Start::alone});
  all.add("peers.one.wrong_arguments", wrong_arguments, {Start::alone});
  all.add("peers.one.copy", copy_within);
  all.add("peers.one.copy.wrong_arguments", copy_with_wrong_arguments, {Start::alone});
  const Needs two{Start::alone, 2};
  all.add("peers.two.capability", capability, two);
  all.add("peers.two.enabling", enabling, two);
  all.add("peers.two.enabling.thread", enabling_by_another_thread, two);
  all.add(
      "peers.two.copy.not_enabled", [](Run& run) { copies(run, false); }, two);
  all.add(
      "peers.two.copy.enabled", [](Run& run) { copies(run, true); }, two);
  all.add("peers.two.copy.contexts_swapped", contexts_swapped, two);
  all.add("peers.two.events", events_across, two);
  all.add("peers.two.pointers", pointers_of_the_other, two);
  all.add("peers.two.reach", reach, two);
  all.add("peers.two.released_while_enabled", released_while_enabled, two);
  all.add("peers.two.nvml_status", nvml_status, two);
}

}  // namespace nobounce::conformance
