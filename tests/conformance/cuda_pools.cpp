// Memory pools, stream-ordered, and handles for other processes.
#include "conformance/sequence.hpp"

namespace nobounce::conformance {

namespace {

constexpr std::size_t mib = 1u << 20;

cuda::CUmemoryPool default_pool(Run& run, int device = 0) {
  cuda::CUmemoryPool pool = nullptr;
  (void)run.quiet().device_get_default_mem_pool(&pool, device);
  return pool;
}

void default_pools(Run& run) {
  cuda::CUmemoryPool first = nullptr;
  cuda::CUmemoryPool second = nullptr;
  (void)run.cuda().device_get_default_mem_pool(&first, 0);
  (void)run.cuda().device_get_default_mem_pool(&second, 0);
  run.yes("one", first != nullptr);
  run.yes("the same", first == second);
  (void)run.cuda().device_get_default_mem_pool(nullptr, 0);
  (void)run.cuda().device_get_default_mem_pool(&first, -1);
  (void)run.cuda().device_get_default_mem_pool(&first, 4711);
}

void allocate(Run& run, std::size_t bytes) {
  cuda::CUdeviceptr pointer = 0;
  if (run.cuda().mem_alloc_async(&pointer, bytes, nullptr) != cuda::success) return;
  (void)run.cuda().memset_d8_async(pointer, 0x42, bytes, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  if (bytes > 0) run.device_bytes("filled", pointer, bytes);
  (void)run.cuda().mem_free_async(pointer, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
}

void in_order(Run& run) {
  cuda::CUstream stream = nullptr;
  (void)run.cuda().stream_create(&stream, cuda::stream_non_blocking);
  const cuda::CUdeviceptr target = run.allocate(mib);
  cuda::CUdeviceptr pointer = 0;
  (void)run.cuda().mem_alloc_async(&pointer, mib, stream);
  (void)run.cuda().memset_d8_async(pointer, 0x17, mib, stream);
  (void)run.cuda().memcpy_dtod_async(target, pointer, mib, stream);
  (void)run.cuda().mem_free_async(pointer, stream);
  (void)run.cuda().stream_synchronize(stream);
  run.device_bytes("copied before it was freed", target, mib);
  (void)run.cuda().stream_destroy(stream);
  run.free(target);
}

void from_pool(Run& run) {
  cuda::CUdeviceptr pointer = 0;
  cuda::CUmemoryPool pool = default_pool(run);
  (void)run.cuda().mem_alloc_from_pool_async(&pointer, mib, pool, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  cuda::CUmemoryPool of = nullptr;
  if (run.cuda().pointer_get_attribute(&of, cuda::pointer_mempool_handle, pointer) ==
      cuda::success) {
    run.yes("its pool", of == pool);
  }
  (void)run.cuda().mem_free_async(pointer, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.note("no pool");
  (void)run.cuda().mem_alloc_from_pool_async(&pointer, mib, nullptr, nullptr);
}

void wrong_arguments(Run& run) {
  cuda::CUdeviceptr pointer = 0;
  (void)run.cuda().mem_alloc_async(nullptr, mib, nullptr);
  (void)run.cuda().mem_alloc_async(&pointer, std::size_t{1} << 50, nullptr);
  (void)run.cuda().mem_free_async(0, nullptr);
  (void)run.cuda().mem_free_async(0x1000, nullptr);
  (void)run.cuda().mem_alloc_async(&pointer, mib, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.note("inside; twice");
  (void)run.cuda().mem_free_async(pointer + 512, nullptr);
  (void)run.cuda().mem_free_async(pointer, nullptr);
  (void)run.cuda().mem_free_async(pointer, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
}

void freed_by_the_other_call(Run& run) {
  cuda::CUdeviceptr pointer = 0;
  (void)run.cuda().mem_alloc_async(&pointer, mib, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.note("cuMemFree of memory of a pool");
  (void)run.cuda().mem_free(pointer);
  run.note("cuMemFreeAsync of memory of cuMemAlloc");
  const cuda::CUdeviceptr plain = run.allocate(mib);
  (void)run.cuda().mem_free_async(plain, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  (void)run.cuda().mem_free(plain);
}

void pointers(Run& run) {
  cuda::CUdeviceptr pointer = 0;
  (void)run.cuda().mem_alloc_async(&pointer, 3 * mib, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{70000}}) {
    run.note("offset " + std::to_string(offset));
    for (const int attribute :
         {cuda::pointer_memory_type, cuda::pointer_is_managed, cuda::pointer_device_ordinal,
          cuda::pointer_is_legacy_cuda_ipc_capable, cuda::pointer_range_size}) {
      std::uint64_t value = 0;
      if (run.cuda().pointer_get_attribute(&value, attribute, pointer + offset) == cuda::success) {
        run.number("value", value & 0xffffffff);
      }
    }
    std::uint64_t start = 0;
    (void)run.cuda().pointer_get_attribute(&start, cuda::pointer_range_start, pointer + offset);
    run.yes("starts at it", start == pointer);
    void* context = nullptr;
    if (run.cuda().pointer_get_attribute(&context, cuda::pointer_context, pointer + offset) ==
        cuda::success) {
      run.note(context == nullptr       ? "no context"
               : context == run.context ? "our context"
                                        : "another context");
    }
  }
  cuda::CUdeviceptr base = 0;
  std::size_t length = 0;
  if (run.cuda().mem_get_address_range(&base, &length, pointer + 99) == cuda::success) {
    run.yes("base", base == pointer);
    run.number("length", length);
  }
  (void)run.cuda().mem_free_async(pointer, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
}

void access(Run& run) {
  cuda::CUmemoryPool pool = default_pool(run);
  cuda::CUmemLocation here{cuda::memory_location_device, 0};
  int flags = 7;
  if (run.cuda().mem_pool_get_access(&flags, pool, &here) == cuda::success) {
    run.note("access " + std::to_string(flags));
  }
  for (const int wanted : {3, 1, 0, 2}) {
    const cuda::CUmemAccessDesc description{here, wanted};
    run.note("wanted " + std::to_string(wanted));
    (void)run.cuda().mem_pool_set_access(pool, &description, 1);
    if (run.cuda().mem_pool_get_access(&flags, pool, &here) == cuda::success) {
      run.note("access " + std::to_string(flags));
    }
  }
  const cuda::CUmemAccessDesc description{here, cuda::memory_access_read_write};
  run.note("wrong arguments");
  (void)run.cuda().mem_pool_set_access(pool, nullptr, 1);
  (void)run.cuda().mem_pool_set_access(pool, &description, 0);
  (void)run.cuda().mem_pool_get_access(nullptr, pool, &here);
  (void)run.cuda().mem_pool_get_access(&flags, pool, nullptr);
  here.id = 4711;
  (void)run.cuda().mem_pool_get_access(&flags, pool, &here);
}

void no_pool(Run& run) {
  const cuda::CUmemAccessDesc description{{cuda::memory_location_device, 0},
                                          cuda::memory_access_read_write};
  cuda::CUmemLocation here = description.location;
  int flags = 7;
  (void)run.cuda().mem_pool_get_access(&flags, nullptr, &here);
  (void)run.cuda().mem_pool_set_access(nullptr, &description, 1);
}

void access_for_a_peer(Run& run) {
  cuda::CUmemoryPool pool = default_pool(run);
  cuda::CUmemLocation there{cuda::memory_location_device, 1};
  int flags = 7;
  (void)run.cuda().mem_pool_get_access(&flags, pool, &there);
  run.note("access " + std::to_string(flags));
  for (const int wanted : {3, 1, 0}) {
    const cuda::CUmemAccessDesc description{there, wanted};
    (void)run.cuda().mem_pool_set_access(pool, &description, 1);
    (void)run.cuda().mem_pool_get_access(&flags, pool, &there);
    run.note("access " + std::to_string(flags));
  }
}

void copied_to_a_peer(Run& run, bool granted) {
  cuda::CUdeviceptr near = 0;
  (void)run.cuda().mem_alloc_async(&near, 4096, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.plant(near, 4096, 64);
  if (granted) {
    const cuda::CUmemAccessDesc description{{cuda::memory_location_device, 1},
                                            cuda::memory_access_read_write};
    (void)run.cuda().mem_pool_set_access(default_pool(run), &description, 1);
  }
  cuda::CUcontext other = nullptr;
  (void)run.quiet().device_primary_ctx_retain(&other, 1);
  (void)run.quiet().ctx_push_current(other);
  const cuda::CUdeviceptr far = run.allocate(4096);
  run.plant(far, 4096, 65);
  run.note("by the other GPU");
  (void)run.cuda().memcpy_dtod_async(far, near, 4096, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.device_bytes("there", far, 4096);
  run.note("by name");
  (void)run.cuda().memcpy_peer_async(far, other, near, run.context, 4096, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.device_bytes("there", far, 4096);
  run.free(far);
  cuda::CUcontext popped = nullptr;
  (void)run.quiet().ctx_pop_current(&popped);
  (void)run.quiet().device_primary_ctx_release(1);
}

void handles(Run& run) {
  cuda::CUipcMemHandle handle{};
  const cuda::CUdeviceptr device = run.allocate(4 * mib);
  (void)run.cuda().ipc_get_mem_handle(&handle, device);
  cuda::CUipcMemHandle again{};
  (void)run.cuda().ipc_get_mem_handle(&again, device);
  run.note("inside; null");
  (void)run.cuda().ipc_get_mem_handle(&again, device + 70000);
  (void)run.cuda().ipc_get_mem_handle(nullptr, device);
  (void)run.cuda().ipc_get_mem_handle(&again, 0);
  cuda::CUdeviceptr opened = 0;
  run.note("opened by the process that made it");
  (void)run.cuda().ipc_open_mem_handle(&opened, handle, cuda::ipc_memory_lazy_enable_peer_access);
  run.note("closed without being opened");
  (void)run.cuda().ipc_close_mem_handle(device);
  (void)run.cuda().ipc_close_mem_handle(0);
  run.free(device);
}

void handles_of_other_kinds(Run& run) {
  cuda::CUipcMemHandle handle{};
  run.note("pinned");
  std::byte* host = run.pinned(4096);
  (void)run.cuda().ipc_get_mem_handle(&handle, reinterpret_cast<cuda::CUdeviceptr>(host));
  run.free_pinned(host);
  run.note("managed");
  cuda::CUdeviceptr managed = 0;
  (void)run.quiet().mem_alloc_managed(&managed, 4096, cuda::managed_attach_global);
  (void)run.cuda().ipc_get_mem_handle(&handle, managed);
  run.free(managed);
  run.note("of a pool");
  cuda::CUdeviceptr pooled = 0;
  (void)run.quiet().mem_alloc_async(&pooled, mib, nullptr);
  (void)run.quiet().stream_synchronize(nullptr);
  (void)run.cuda().ipc_get_mem_handle(&handle, pooled);
  (void)run.quiet().mem_free_async(pooled, nullptr);
  (void)run.quiet().stream_synchronize(nullptr);
}

void wrong_handles(Run& run) {
  cuda::CUipcMemHandle nothing{};
  cuda::CUdeviceptr opened = 0;
  (void)run.cuda().ipc_open_mem_handle(&opened, nothing, cuda::ipc_memory_lazy_enable_peer_access);
  const cuda::CUdeviceptr device = run.allocate(mib);
  cuda::CUipcMemHandle handle{};
  (void)run.cuda().ipc_get_mem_handle(&handle, device);
  (void)run.cuda().ipc_open_mem_handle(&opened, handle, 0);
  (void)run.cuda().ipc_open_mem_handle(nullptr, handle, cuda::ipc_memory_lazy_enable_peer_access);
  run.free(device);
}

void before_init(Run& run) {
  cuda::CUmemoryPool pool = nullptr;
  cuda::CUdeviceptr pointer = 0;
  cuda::CUipcMemHandle handle{};
  std::size_t bytes = 0;
  const cuda::CUmemAllocationProp properties{};
  cuda::CUmemGenericAllocationHandle memory = 0;
  (void)run.cuda().device_get_default_mem_pool(&pool, 0);
  (void)run.cuda().mem_alloc_async(&pointer, 4096, nullptr);
  (void)run.cuda().mem_free_async(4096, nullptr);
  (void)run.cuda().mem_get_allocation_granularity(&bytes, &properties, 0);
  (void)run.cuda().mem_create(&memory, 4096, &properties, 0);
  (void)run.cuda().mem_address_reserve(&pointer, 2 * mib, 0, 0, 0);
  (void)run.cuda().mem_unmap(4096, 4096);
  (void)run.cuda().ipc_get_mem_handle(&handle, 4096);
}

}  // namespace

void add_cuda_pools(Catalogue& all) {
  const Needs alone{Start::alone};
  all.add("start.before_init.pools", before_init, {Start::fresh});
  all.add("pools.default", default_pools);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{100000}, 5 * mib}) {
    all.add("pools.allocate." + std::to_string(bytes), [bytes](Run& run) { allocate(run, bytes); });
  }
  all.add("pools.in_order", in_order);
  all.add("pools.from_pool", from_pool, alone);
  all.add("pools.wrong_arguments", wrong_arguments, alone);
  all.add("pools.freed_by_the_other_call", freed_by_the_other_call, alone);
  all.add("pools.pointers", pointers);
  all.add("pools.access", access, alone);
  all.add("pools.access.no_pool", no_pool, alone);
  all.add("ipc.handles", handles, alone);
  all.add("ipc.other_kinds", handles_of_other_kinds, alone);
  all.add("ipc.wrong_handles", wrong_handles, alone);
  const Needs two{Start::alone, 2};
  all.add("pools.two.access", access_for_a_peer, two);
  all.add(
      "pools.two.copy.not_granted", [](Run& run) { copied_to_a_peer(run, false); }, two);
  all.add(
      "pools.two.copy.granted", [](Run& run) { copied_to_a_peer(run, true); }, two);
}

}  // namespace nobounce::conformance
