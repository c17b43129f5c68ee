// Stream memory operations: words that streams write and wait for, and streams that are captured.
#include <atomic>

#include "conformance/sequence.hpp"

namespace nobounce::conformance {

namespace {

constexpr std::size_t page = 4096;

struct Words {
  explicit Words(Run& of) : run(of), memory(run.pinned(page)) {
    (void)run.quiet().stream_create(&stream, cuda::stream_non_blocking);
  }
  ~Words() {
    (void)run.quiet().stream_synchronize(stream);
    (void)run.quiet().stream_destroy(stream);
    run.free_pinned(memory);
  }
  [[nodiscard]] std::uint64_t* word(std::size_t index) const {
    return reinterpret_cast<std::uint64_t*>(memory) + index;
  }
  [[nodiscard]] cuda::CUdeviceptr address(std::size_t index = 0) const {
    return reinterpret_cast<cuda::CUdeviceptr>(word(index));
  }
  void set(std::size_t index, std::uint64_t value) const {
    std::atomic_ref<std::uint64_t>(*word(index)).store(value);
  }
  [[nodiscard]] std::uint64_t get(std::size_t index) const {
    return std::atomic_ref<std::uint64_t>(*word(index)).load();
  }
  /// Long enough for a stream that is not held up.
  [[nodiscard]] bool held() const {
    return !run.host.workers().wait([&] { return over(); }, run.host.clock().now_ns() + 20'000'000);
  }
  [[nodiscard]] bool ends() const {
    return run.host.workers().wait([&] { return over(); },
                                   run.host.clock().now_ns() + 10'000'000'000);
  }
  [[nodiscard]] bool over() const {
    return run.quiet().stream_query(stream) != cuda::error_not_ready;
  }

  Run& run;
  std::byte* memory;
  cuda::CUstream stream = nullptr;
};

void attributes(Run& run) {
  for (const int attribute : {cuda::attribute_can_use_host_pointer_for_registered_mem,
                              cuda::attribute_can_flush_remote_writes,
                              cuda::attribute_gpu_direct_rdma_flush_writes_options,
                              cuda::attribute_gpu_direct_rdma_writes_ordering,
                              cuda::attribute_can_use_64_bit_stream_mem_ops}) {
    int value = -1;
    (void)run.cuda().device_get_attribute(&value, attribute, 0);
    run.number("attribute " + std::to_string(attribute), static_cast<std::uint64_t>(value));
  }
}

void write(Run& run) {
  const Words words(run);
  (void)run.cuda().stream_write_value64(words.stream, words.address(), 0x1122334455667788, 0);
  (void)run.cuda().stream_write_value64(words.stream, words.address(1), 7, 1);
  (void)run.cuda().stream_synchronize(words.stream);
  run.number("first", words.get(0));
  run.number("second", words.get(1));
}

void wait_and_go(Run& run) {
  const Words words(run);
  (void)run.cuda().stream_wait_value64(words.stream, words.address(), 5, cuda::wait_value_geq);
  (void)run.cuda().stream_write_value64(words.stream, words.address(1), 1, 0);
  run.yes("held at 0", words.held());
  words.set(0, 4);
  run.yes("held at 4", words.held());
  words.set(0, 5);
  run.yes("ends at 5", words.ends());
  run.number("written behind it", words.get(1));
}

void cyclic(Run& run) {
  const Words words(run);
  words.set(0, 3);
  (void)run.cuda().stream_wait_value64(words.stream, words.address(), ~std::uint64_t{0} - 2, 0);
  run.yes("3 is beyond -3", words.ends());
  (void)run.cuda().stream_wait_value64(words.stream, words.address(), 100, 0);
  run.yes("3 is not 100", words.held());
  words.set(0, 100);
  run.yes("ends", words.ends());
}

void comparisons(Run& run) {
  const Words words(run);
  struct Case {
    unsigned compare;
    std::uint64_t value;
    std::uint64_t held;
    std::uint64_t free;
  };
  for (const Case& one :
       {Case{cuda::wait_value_eq, 8, 9, 8}, Case{cuda::wait_value_and, 6, 9, 2}}) {
    words.set(0, one.held);
    (void)run.cuda().stream_wait_value64(words.stream, words.address(), one.value, one.compare);
    run.yes("held", words.held());
    words.set(0, one.free);
    run.yes("ends", words.ends());
  }
}

void refusals(Run& run) {
  const Words words(run);
  std::uint64_t plain = 0;
  run.note("host memory that is not pinned");
  (void)run.cuda().stream_wait_value64(words.stream, reinterpret_cast<cuda::CUdeviceptr>(&plain), 0,
                                       0);
  (void)run.cuda().stream_write_value64(words.stream, reinterpret_cast<cuda::CUdeviceptr>(&plain),
                                        0, 0);
  run.note("addresses");
  (void)run.cuda().stream_wait_value64(words.stream, 0, 0, 0);
  (void)run.cuda().stream_wait_value64(words.stream, words.address() + 4, 0, 0);
  (void)run.cuda().stream_write_value64(words.stream, words.address() + 4, 0, 0);
  run.note("flags");
  for (const unsigned flags : {4u, 5u, 1u << 29}) {
    (void)run.cuda().stream_wait_value64(words.stream, words.address(), 0, flags);
    (void)run.cuda().stream_write_value64(words.stream, words.address(), 0, flags);
  }
  (void)run.cuda().stream_synchronize(words.stream);
}

void flush(Run& run) {
  const Words words(run);
  (void)run.cuda().stream_wait_value64(words.stream, words.address(), 0, cuda::wait_value_flush);
  (void)run.cuda().stream_synchronize(words.stream);
}

void managed(Run& run) {
  const Words words(run);
  cuda::CUdeviceptr memory = 0;
  (void)run.cuda().mem_alloc_managed(&memory, page, cuda::managed_attach_global);
  (void)run.cuda().stream_wait_value64(words.stream, memory, 0, 0);
  (void)run.cuda().stream_write_value64(words.stream, memory, 1, 0);
  (void)run.cuda().stream_synchronize(words.stream);
  run.free(memory);
}

void device_words(Run& run) {
  const Words words(run);
  const cuda::CUdeviceptr memory = run.allocate(page);
  (void)run.quiet().memset_d8_async(memory, 0, page, words.stream);
  (void)run.cuda().stream_wait_value64(words.stream, memory, 1, 0);
  (void)run.cuda().stream_write_value64(words.stream, words.address(), 9, 0);
  run.yes("held", words.held());
  cuda::CUstream other = nullptr;
  (void)run.quiet().stream_create(&other, cuda::stream_non_blocking);
  (void)run.cuda().stream_write_value64(other, memory, 1, 0);
  run.yes("ends", words.ends());
  run.number("written behind it", words.get(0));
  (void)run.quiet().stream_destroy(other);
  run.free(memory);
}

void other_streams_go_on(Run& run) {
  const Words words(run);
  (void)run.cuda().stream_wait_value64(words.stream, words.address(), 1, 0);
  cuda::CUstream other = nullptr;
  (void)run.quiet().stream_create(&other, cuda::stream_non_blocking);
  const cuda::CUdeviceptr memory = run.allocate(page);
  (void)run.cuda().memcpy_dtoh_async(words.memory + 1024, memory, 1024, other);
  (void)run.cuda().stream_synchronize(other);
  run.yes("held meanwhile", words.held());
  words.set(0, 1);
  run.yes("ends", words.ends());
  (void)run.quiet().stream_destroy(other);
  run.free(memory);
}

void capture_states(Run& run) {
  const Words words(run);
  int status = -1;
  (void)run.cuda().stream_is_capturing(words.stream, &status);
  run.number("before", static_cast<std::uint64_t>(status));
  (void)run.cuda().stream_begin_capture(words.stream, cuda::capture_mode_relaxed);
  (void)run.cuda().stream_is_capturing(words.stream, &status);
  run.number("within", static_cast<std::uint64_t>(status));
  cuda::CUgraph graph = nullptr;
  (void)run.cuda().stream_end_capture(words.stream, &graph);
  (void)run.cuda().graph_destroy(graph);
  (void)run.cuda().stream_is_capturing(words.stream, &status);
  run.number("after", static_cast<std::uint64_t>(status));
}

void capture_mistakes(Run& run) {
  const Words words(run);
  (void)run.cuda().stream_begin_capture(nullptr, cuda::capture_mode_relaxed);
  (void)run.cuda().stream_begin_capture(words.stream, 3);
  (void)run.cuda().stream_begin_capture(words.stream, -1);
  cuda::CUgraph graph = nullptr;
  (void)run.cuda().stream_end_capture(words.stream, &graph);
  (void)run.cuda().stream_is_capturing(words.stream, nullptr);
  (void)run.cuda().stream_begin_capture(words.stream, cuda::capture_mode_relaxed);
  (void)run.cuda().stream_begin_capture(words.stream, cuda::capture_mode_relaxed);
  (void)run.cuda().stream_end_capture(words.stream, &graph);
  (void)run.quiet().graph_destroy(graph);
}

void device_pointers(Run& run) {
  std::byte* const memory = run.pinned(page);
  cuda::CUdeviceptr pointer = 0;
  (void)run.cuda().mem_host_get_device_pointer(&pointer, memory, 0);
  run.yes("the same number", pointer == reinterpret_cast<cuda::CUdeviceptr>(memory));
  (void)run.cuda().mem_host_get_device_pointer(&pointer, memory + 64, 0);
  run.yes("inside too", pointer == reinterpret_cast<cuda::CUdeviceptr>(memory + 64));
  (void)run.cuda().mem_host_get_device_pointer(&pointer, memory, 1);
  (void)run.cuda().mem_host_get_device_pointer(nullptr, memory, 0);
  alignas(64) static std::byte plain[64]{};
  (void)run.cuda().mem_host_get_device_pointer(&pointer, plain, 0);
  run.free_pinned(memory);
}

void modules(Run& run) {
  cuda::CUmodule module = nullptr;
  (void)run.cuda().module_load_data(&module, "this is no kernel");
  (void)run.cuda().module_load_data(&module, nullptr);
  (void)run.cuda().module_load_data(
      &module,
      ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry nothing()\n{\nret;\n}\n");
  cuda::CUfunction function = nullptr;
  (void)run.cuda().module_get_function(&function, module, "another");
  (void)run.cuda().module_get_function(nullptr, module, "nothing");
  (void)run.cuda().module_unload(module);
}

}  // namespace

void add_cuda_stream_words(Catalogue& all) {
  all.add("words.attributes", attributes);
  all.add("words.write", write);
  all.add("words.wait", wait_and_go);
  all.add("words.cyclic", cyclic);
  all.add("words.comparisons", comparisons);
  all.add("words.refusals", refusals, {Start::alone});
  all.add("words.flush", flush, {Start::alone});
  all.add("words.managed", managed, {Start::alone});
  all.add("words.in_gpu_memory", device_words);
  all.add("words.other_streams", other_streams_go_on);
  all.add("words.capture", capture_states, {Start::alone});
  all.add("words.capture_mistakes", capture_mistakes, {Start::alone});
  all.add("words.device_pointers", device_pointers, {Start::alone});
  all.add("words.modules", modules, {Start::alone});
}

}  // namespace nobounce::conformance
