// Primary contexts: references, the stack of each thread, and what outlives the last release.
#include <thread>

#include "conformance/sequence.hpp"

namespace nobounce::conformance {

namespace {

constexpr Needs bare{Start::bare};
constexpr Needs fresh{Start::fresh};

/// A context of its own process, whose references this sequence alone holds.
cuda::CUcontext first_retain(Run& run) {
  cuda::CUcontext context = nullptr;
  (void)run.cuda().init(0);
  (void)run.cuda().device_primary_ctx_retain(&context, 0);
  return context;
}

void no_context(Run& run) {
  cuda::CUcontext context = nullptr;
  int device = -7;
  cuda::CUdeviceptr pointer = 0;
  cuda::CUstream stream = nullptr;
  cuda::CUevent event = nullptr;
  std::size_t bytes = 0;
  (void)run.cuda().ctx_get_current(&context);
  run.yes("none current", context == nullptr);
  (void)run.cuda().ctx_get_device(&device);
  (void)run.cuda().ctx_synchronize();
  (void)run.cuda().mem_alloc(&pointer, 4096);
  (void)run.cuda().mem_get_info(&bytes, &bytes);
  (void)run.cuda().stream_create(&stream, 0);
  (void)run.cuda().event_create(&event, 0);
}

void no_context_to_copy(Run& run) {
  std::byte host[64]{};
  (void)run.cuda().memcpy_htod_async(4096, host, sizeof host, nullptr);
  (void)run.cuda().memcpy_dtoh_async(host, 4096, sizeof host, nullptr);
  (void)run.cuda().memcpy_dtod_async(4096, 8192, sizeof host, nullptr);
  (void)run.cuda().memset_d8_async(4096, 0, sizeof host, nullptr);
  (void)run.cuda().stream_query(nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
}

void no_context_for_host_memory(Run& run) {
  void* host = nullptr;
  alignas(4096) static std::byte page[4096];
  cuda::CUdeviceptr pointer = 0;
  (void)run.cuda().mem_host_alloc(&host, 4096, 0);
  (void)run.cuda().mem_host_register(page, sizeof page, 0);
  (void)run.cuda().mem_host_unregister(page);
  (void)run.cuda().mem_alloc_managed(&pointer, 4096, cuda::managed_attach_global);
  (void)run.cuda().mem_free_host(page);
  (void)run.cuda().mem_free(0);
}

void references(Run& run) {
  const cuda::CUcontext first = first_retain(run);
  cuda::CUcontext second = nullptr;
  (void)run.cuda().device_primary_ctx_retain(&second, 0);
  run.yes("the same", first == second);
  for (int i = 0; i < 3; ++i) (void)run.cuda().device_primary_ctx_release(0);
}

void last_release_takes_memory(Run& run) {
  const cuda::CUcontext context = first_retain(run);
  (void)run.cuda().ctx_push_current(context);
  cuda::CUdeviceptr pointer = 0;
  (void)run.cuda().mem_alloc(&pointer, 1 << 20);
  (void)run.cuda().device_primary_ctx_release(0);
  unsigned type = 0;
  (void)run.cuda().pointer_get_attribute(&type, cuda::pointer_memory_type, pointer);
  (void)run.cuda().mem_free(pointer);
}

void after_last_release(Run& run) {
  const cuda::CUcontext context = first_retain(run);
  (void)run.cuda().ctx_push_current(context);
  (void)run.cuda().device_primary_ctx_release(0);
  cuda::CUcontext current = nullptr;
  (void)run.cuda().ctx_get_current(&current);
  run.yes("still on the stack", current == context);
  int device = -7;
  (void)run.cuda().ctx_get_device(&device);
  cuda::CUdeviceptr pointer = 0;
  (void)run.cuda().mem_alloc(&pointer, 4096);
  (void)run.cuda().ctx_synchronize();
  cuda::CUstream stream = nullptr;
  (void)run.cuda().stream_create(&stream, 0);
  (void)run.cuda().ctx_pop_current(&current);
  run.yes("popped", current == context);
}

void pushing_a_released_one(Run& run) {
  const cuda::CUcontext context = first_retain(run);
  (void)run.cuda().device_primary_ctx_release(0);
  (void)run.cuda().ctx_push_current(context);
}

void retained_anew(Run& run) {
  const cuda::CUcontext context = first_retain(run);
  (void)run.cuda().ctx_push_current(context);
  (void)run.cuda().device_primary_ctx_release(0);
  cuda::CUcontext again = nullptr;
  (void)run.cuda().device_primary_ctx_retain(&again, 0);
  run.yes("the same handle", again == context);
  cuda::CUdeviceptr pointer = 0;
  run.note("with the old one still on the stack");
  (void)run.cuda().mem_alloc(&pointer, 4096);
  (void)run.cuda().ctx_push_current(again);
  run.note("with the new one pushed");
  (void)run.cuda().mem_alloc(&pointer, 4096);
  (void)run.cuda().mem_free(pointer);
}

void stack(Run& run) {
  cuda::CUcontext popped = nullptr;
  cuda::CUcontext context = nullptr;
  (void)run.cuda().device_primary_ctx_retain(&context, 0);
  (void)run.cuda().ctx_push_current(context);
  (void)run.cuda().ctx_push_current(context);
  int device = -7;
  (void)run.cuda().ctx_get_device(&device);
  run.number("device", static_cast<std::uint64_t>(device));
  for (int i = 0; i < 3; ++i) {
    popped = nullptr;
    (void)run.cuda().ctx_pop_current(&popped);
    run.yes("it", popped == context);
  }
  (void)run.cuda().device_primary_ctx_release(0);
}

void threads(Run& run) {
  std::thread other([&] {
    cuda::CUcontext current = nullptr;
    (void)run.cuda().ctx_get_current(&current);
    run.yes("none in another thread", current == nullptr);
    (void)run.cuda().ctx_push_current(run.context);
    cuda::CUdeviceptr pointer = 0;
    (void)run.cuda().mem_alloc(&pointer, 4096);
    (void)run.cuda().mem_free(pointer);
  });
  other.join();
  cuda::CUcontext current = nullptr;
  (void)run.cuda().ctx_get_current(&current);
  run.yes("ours in ours", current == run.context);
}

void memory_of_another_thread(Run& run) {
  cuda::CUdeviceptr pointer = 0;
  (void)run.cuda().mem_alloc(&pointer, 4096);
  std::thread other([&] {
    (void)run.cuda().ctx_push_current(run.context);
    (void)run.cuda().memset_d8_async(pointer, 0x5a, 4096, nullptr);
    (void)run.cuda().stream_synchronize(nullptr);
    (void)run.cuda().mem_free(pointer);
  });
  other.join();
  (void)run.cuda().mem_free(pointer);
}

void freed_without_context(Run& run) {
  cuda::CUdeviceptr pointer = 0;
  (void)run.cuda().mem_alloc(&pointer, 4096);
  cuda::CUcontext popped = nullptr;
  (void)run.cuda().ctx_pop_current(&popped);
  (void)run.cuda().mem_free(pointer);
  (void)run.cuda().ctx_push_current(popped);
  (void)run.cuda().mem_free(pointer);
}

}  // namespace

void add_cuda_contexts(Catalogue& all) {
  all.add("contexts.none", no_context, bare);
  all.add("contexts.none.copies", no_context_to_copy, bare);
  all.add("contexts.none.host_memory", no_context_for_host_memory, bare);
  all.add(
      "contexts.pop.empty",
      [](Run& run) {
        cuda::CUcontext popped = nullptr;
        (void)run.cuda().ctx_pop_current(&popped);
        (void)run.cuda().ctx_pop_current(nullptr);
      },
      bare);
  all.add(
      "contexts.push.null", [](Run& run) { (void)run.cuda().ctx_push_current(nullptr); }, bare);
  all.add("contexts.push.null.over_another", [](Run& run) {
    (void)run.cuda().ctx_push_current(nullptr);
    cuda::CUcontext current = nullptr;
    (void)run.cuda().ctx_get_current(&current);
    run.yes("ours", current == run.context);
  });
  all.add("contexts.get_current.null", [](Run& run) { (void)run.cuda().ctx_get_current(nullptr); });
  all.add("contexts.get_device.null", [](Run& run) { (void)run.cuda().ctx_get_device(nullptr); });
  all.add("contexts.pop.no_target", [](Run& run) { (void)run.cuda().ctx_pop_current(nullptr); });
  all.add("contexts.synchronize", [](Run& run) { (void)run.cuda().ctx_synchronize(); });
  all.add(
      "contexts.retain.wrong_arguments",
      [](Run& run) {
        cuda::CUcontext context = nullptr;
        (void)run.cuda().device_primary_ctx_retain(nullptr, 0);
        (void)run.cuda().device_primary_ctx_retain(&context, -1);
        (void)run.cuda().device_primary_ctx_retain(&context, 4711);
        (void)run.cuda().device_primary_ctx_release(-1);
        (void)run.cuda().device_primary_ctx_release(4711);
      },
      fresh);
  all.add("contexts.retain.wrong_arguments.initialised",
          [](Run& run) {
            cuda::CUcontext context = nullptr;
            (void)run.cuda().device_primary_ctx_retain(nullptr, 0);
            (void)run.cuda().device_primary_ctx_retain(&context, -1);
            (void)run.cuda().device_primary_ctx_retain(&context, 4711);
            (void)run.cuda().device_primary_ctx_release(-1);
            (void)run.cuda().device_primary_ctx_release(4711);
          },
          {Start::alone});
  all.add(
      "contexts.release.unretained",
      [](Run& run) {
        (void)run.cuda().init(0);
        (void)run.cuda().device_primary_ctx_release(0);
      },
      fresh);
  all.add("contexts.references", references, fresh);
  all.add("contexts.last_release.memory", last_release_takes_memory, fresh);
  all.add("contexts.last_release.current", after_last_release, fresh);
  all.add("contexts.last_release.push", pushing_a_released_one, fresh);
  all.add("contexts.last_release.retained_anew", retained_anew, fresh);
  all.add("contexts.stack", stack, bare);
  all.add("contexts.threads", threads);
  all.add("contexts.threads.memory", memory_of_another_thread);
  all.add("contexts.free_without", freed_without_context);
}

}  // namespace nobounce::conformance
