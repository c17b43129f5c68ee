// What the driver says of pointers: every kind of memory, at its base and inside, every attribute
// that we ask for.
#include <sys/mman.h>

#include <memory>

#include "conformance/sequence.hpp"

namespace nobounce::conformance {

namespace {

constexpr std::size_t length = 3u << 20;

/// An address as what it is to the memory it was asked of: addresses differ from run to run.
std::string relative(std::uint64_t address, std::uint64_t base) {
  if (address == 0) return "null";
  if (address >= base && address < base + length) {
    return "base + " + std::to_string(address - base);
  }
  return "elsewhere";
}

void ask(Run& run, std::uint64_t base, std::uint64_t offset) {
  const cuda::CUdeviceptr pointer = base + offset;
  std::uint64_t value = 0;
  const auto asked = [&](int attribute) {
    value = 0;
    return run.cuda().pointer_get_attribute(&value, attribute, pointer) == cuda::success;
  };
  if (asked(cuda::pointer_context)) {
    const auto context = reinterpret_cast<std::uint64_t>(run.context);
    run.note(value == context ? "context: ours"
             : value == 0     ? "context: none"
                              : "context: another");
  }
  if (asked(cuda::pointer_memory_type)) run.number("memory type", value & 0xffffffff);
  if (asked(cuda::pointer_device_pointer)) run.note("device pointer: " + relative(value, base));
  if (asked(cuda::pointer_host_pointer)) run.note("host pointer: " + relative(value, base));
  if (asked(cuda::pointer_is_managed)) run.yes("managed", (value & 0xff) != 0);
  if (asked(cuda::pointer_device_ordinal)) {
    run.note("ordinal " + std::to_string(static_cast<int>(value)));
  }
  if (asked(cuda::pointer_is_legacy_cuda_ipc_capable)) run.yes("legacy IPC", (value & 0xff) != 0);
  if (asked(cuda::pointer_range_start)) run.note("range start: " + relative(value, base));
  if (asked(cuda::pointer_range_size)) run.number("range size", value);
  if (asked(cuda::pointer_mempool_handle)) run.note(value == 0 ? "pool: none" : "pool: one");
}

struct Kind {
  const char* name;
  std::uint64_t (*make)(Run& run);
  void (*drop)(Run& run, std::uint64_t base);
};

void* address(std::uint64_t base) {
  return reinterpret_cast<void*>(base);
}

std::uint64_t pages() {
  return reinterpret_cast<std::uint64_t>(
      ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

const Kind kinds[] = {
    {"device", [](Run& run) { return run.allocate(length); },
     [](Run& run, std::uint64_t base) { run.free(base); }},
    {"pinned", [](Run& run) { return reinterpret_cast<std::uint64_t>(run.pinned(length)); },
     [](Run& run, std::uint64_t base) { run.free_pinned(address(base)); }},
    {"registered",
     [](Run& run) {
       const std::uint64_t base = pages();
       (void)run.quiet().mem_host_register(address(base), length, 0);
       return base;
     },
     [](Run& run, std::uint64_t base) {
       (void)run.quiet().mem_host_unregister(address(base));
       ::munmap(address(base), length);
     }},
    {"managed",
     [](Run& run) {
       cuda::CUdeviceptr base = 0;
       (void)run.quiet().mem_alloc_managed(&base, length, cuda::managed_attach_global);
       return static_cast<std::uint64_t>(base);
     },
     [](Run& run, std::uint64_t base) { run.free(base); }},
    {"pageable", [](Run&) { return pages(); },
     [](Run&, std::uint64_t base) { ::munmap(address(base), length); }},
    {"freed",
     [](Run& run) {
       const std::uint64_t base = run.allocate(64u << 20);
       run.free(base);
       return base;
     },
     [](Run&, std::uint64_t) {}},
};

void another_context(Run& run) {
  const cuda::CUdeviceptr pointer = run.allocate(4096);
  cuda::CUcontext popped = nullptr;
  (void)run.cuda().ctx_pop_current(&popped);
  unsigned type = 0;
  run.note("no context current");
  (void)run.cuda().pointer_get_attribute(&type, cuda::pointer_memory_type, pointer);
  run.number("memory type", type);
  (void)run.cuda().ctx_push_current(popped);
  run.free(pointer);
}

}  // namespace

void add_cuda_pointers(Catalogue& all) {
  for (const Kind& kind : kinds) {
    for (const auto& [where, offset] : {std::pair<const char*, std::uint64_t>{"base", 0},
                                        {"inside", 70000},
                                        {"last", length - 1}}) {
      all.add(std::string("pointers.") + kind.name + "." + where,
              [&kind, offset = offset](Run& run) {
                const std::uint64_t base = kind.make(run);
                ask(run, base, offset);
                kind.drop(run, base);
              });
    }
  }
  all.add("pointers.null", [](Run& run) { ask(run, 0, 0); });
  all.add("pointers.wild", [](Run& run) { ask(run, 0x1000, 0); });
  all.add("pointers.wrong_arguments", [](Run& run) {
    const cuda::CUdeviceptr pointer = run.allocate(4096);
    std::uint64_t value = 0;
    (void)run.cuda().pointer_get_attribute(nullptr, cuda::pointer_memory_type, pointer);
    (void)run.cuda().pointer_get_attribute(&value, 0, pointer);
    (void)run.cuda().pointer_get_attribute(&value, 4711, pointer);
    (void)run.cuda().pointer_get_attribute(&value, -1, pointer);
    run.free(pointer);
  });
  all.add("pointers.without_context", another_context);
}

}  // namespace nobounce::conformance
