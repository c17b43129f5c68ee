// Kinds of GPU memory: virtual memory mappings, pools and exports, and who reaches them. What two
// GPUs are needed for is asked of pairs alone.
#include "conformance/sequence.hpp"

namespace nobounce::conformance {

namespace {

constexpr std::size_t slab = 2u << 20;

cuda::CUmemAllocationProp on_device(int device) {
  cuda::CUmemAllocationProp properties{};
  properties.type = cuda::memory_allocation_pinned;
  properties.location = {cuda::memory_location_device, device};
  return properties;
}

cuda::CUmemGenericAllocationHandle created(Run& run, std::size_t bytes) {
  cuda::CUmemGenericAllocationHandle handle = 0;
  const auto properties = on_device(0);
  (void)run.cuda().mem_create(&handle, bytes, &properties, 0);
  return handle;
}

cuda::CUdeviceptr reserved(Run& run, std::size_t bytes) {
  cuda::CUdeviceptr pointer = 0;
  (void)run.cuda().mem_address_reserve(&pointer, bytes, 0, 0, 0);
  return pointer;
}

void set(Run& run, cuda::CUdeviceptr pointer, std::size_t bytes, int device, int flags) {
  const cuda::CUmemAccessDesc access{{cuda::memory_location_device, device}, flags};
  (void)run.cuda().mem_set_access(pointer, bytes, &access, 1);
}

void ask_access(Run& run, cuda::CUdeviceptr pointer, int device) {
  unsigned long long flags = 9;
  const cuda::CUmemLocation location{cuda::memory_location_device, device};
  if (run.cuda().mem_get_access(&flags, &location, pointer) == cuda::success) {
    run.number("access", flags);
  }
}

void ask_pointer(Run& run, cuda::CUdeviceptr pointer, cuda::CUdeviceptr base) {
  std::uint64_t value = 0;
  const auto asked = [&](int attribute) {
    value = 0;
    return run.cuda().pointer_get_attribute(&value, attribute, pointer) == cuda::success;
  };
  if (asked(cuda::pointer_memory_type)) run.number("memory type", value & 0xffffffff);
  if (asked(cuda::pointer_context)) run.yes("a context's", value != 0);
  if (asked(cuda::pointer_is_legacy_cuda_ipc_capable)) run.yes("legacy IPC", (value & 0xff) != 0);
  if (asked(cuda::pointer_mempool_handle)) run.yes("a pool's", value != 0);
  if (asked(cuda::pointer_range_start)) run.yes("range starts at the base", value == base);
  if (asked(cuda::pointer_range_size)) run.number("range size", value);
  cuda::CUdeviceptr start = 0;
  std::size_t bytes = 0;
  if (run.cuda().mem_get_address_range(&start, &bytes, pointer) == cuda::success) {
    run.number("from the base", start - base);
    run.number("bytes", bytes);
  }
  cuda::CUmemGenericAllocationHandle handle = 0;
  void* address = reinterpret_cast<void*>(static_cast<std::uintptr_t>(pointer));
  if (run.cuda().mem_retain_allocation_handle(&handle, address) == cuda::success) {
    (void)run.quiet().mem_release(handle);
  }
}

void wrong_units(Run& run) {
  std::size_t unit = 0;
  const auto properties = on_device(0);
  for (const int option : {0, 1}) {
    if (run.cuda().mem_get_allocation_granularity(&unit, &properties, option) == cuda::success) {
      run.number("unit", unit);
    }
  }
  cuda::CUmemGenericAllocationHandle handle = 0;
  (void)run.cuda().mem_create(&handle, 4096, &properties, 0);
  (void)run.cuda().mem_create(&handle, std::size_t{1} << 50, &properties, 0);
  const auto nowhere = on_device(99);
  (void)run.cuda().mem_create(&handle, slab, &nowhere, 0);
  (void)reserved(run, 4096);
}

void life_of_a_mapping(Run& run) {
  const cuda::CUdeviceptr base = reserved(run, 8 * slab);
  ask_pointer(run, base, base);
  const auto handle = created(run, 2 * slab);
  (void)run.cuda().mem_map(base, 2 * slab, 0, handle, 0);
  run.note("mapped, no access");
  ask_pointer(run, base + slab, base);
  ask_access(run, base, 0);
  (void)run.cuda().memset_d8_async(base, 1, 64, nullptr);
  set(run, base, 2 * slab, 0, cuda::memory_access_read_write);
  run.note("with access");
  ask_pointer(run, base + slab + 4096, base);
  ask_access(run, base + slab, 0);
  (void)run.cuda().memset_d8_async(base, 1, 64, nullptr);
  (void)run.cuda().ctx_synchronize();
  run.device_bytes("filled", base, 64);
  (void)run.cuda().mem_free(base);
  (void)run.cuda().mem_address_free(base, 8 * slab);
  (void)run.cuda().mem_release(handle);
  (void)run.cuda().mem_unmap(base, slab);
  (void)run.cuda().mem_unmap(base, 2 * slab);
  run.note("unmapped");
  (void)run.cuda().mem_unmap(base, 2 * slab);
  ask_pointer(run, base, base);
  (void)run.cuda().mem_address_free(base, slab);
  (void)run.cuda().mem_address_free(base, 8 * slab);
}

void wrong_mappings(Run& run) {
  const cuda::CUdeviceptr base = reserved(run, 8 * slab);
  const auto handle = created(run, 2 * slab);
  (void)run.cuda().mem_map(base, 2 * slab, 0, handle, 0);
  run.note("taken, a part, beyond the reservation");
  (void)run.cuda().mem_map(base, 2 * slab, 0, handle, 0);
  (void)run.cuda().mem_map(base + 4 * slab, slab, 0, handle, 0);
  (void)run.cuda().mem_map(base + 7 * slab, 2 * slab, 0, handle, 0);
  run.note("access: a part, the other part, a hole, a device that is not, flags that are not");
  set(run, base, slab, 0, cuda::memory_access_read_write);
  set(run, base + slab, slab, 0, cuda::memory_access_read_write);
  set(run, base, 4 * slab, 0, cuda::memory_access_read_write);
  set(run, base, 2 * slab, 99, cuda::memory_access_read_write);
  set(run, base, 2 * slab, 0, 2);
  set(run, base + 4 * slab, slab, 0, cuda::memory_access_read_write);
  (void)run.cuda().mem_unmap(base, 2 * slab);
  (void)run.cuda().mem_release(handle);
  (void)run.cuda().mem_address_free(base, 8 * slab);
}

void copies_across_mappings(Run& run) {
  const cuda::CUdeviceptr base = reserved(run, 2 * slab);
  const auto first = created(run, slab);
  const auto second = created(run, slab);
  (void)run.cuda().mem_map(base, slab, 0, first, 0);
  (void)run.cuda().mem_map(base + slab, slab, 0, second, 0);
  set(run, base, 2 * slab, 0, cuda::memory_access_read_write);
  const cuda::CUdeviceptr plain = run.allocate(slab);
  run.plant(plain, slab, 5);
  (void)run.cuda().memcpy_dtod_async(base + slab / 2, plain, slab, nullptr);
  (void)run.cuda().ctx_synchronize();
  run.device_bytes("across", base + slab / 2, slab);
  run.free(plain);
  (void)run.cuda().mem_unmap(base, 2 * slab);
  (void)run.cuda().mem_release(first);
  (void)run.cuda().mem_release(second);
  (void)run.cuda().mem_address_free(base, 2 * slab);
}

void pools(Run& run) {
  cuda::CUmemoryPool pool = nullptr;
  if (run.cuda().device_get_default_mem_pool(&pool, 0) != cuda::success) return;
  int flags = 9;
  cuda::CUmemLocation location{cuda::memory_location_device, 0};
  (void)run.cuda().mem_pool_get_access(&flags, pool, &location);
  run.number("access", static_cast<std::uint64_t>(flags));
  for (const int wanted : {cuda::memory_access_none, cuda::memory_access_read_write}) {
    const cuda::CUmemAccessDesc access{{cuda::memory_location_device, 0}, wanted};
    (void)run.cuda().mem_pool_set_access(pool, &access, 1);
  }
  cuda::CUdeviceptr memory = 0;
  (void)run.cuda().mem_alloc_from_pool_async(&memory, slab, pool, nullptr);
  ask_pointer(run, memory + 512, memory);
  (void)run.cuda().memset_d8_async(memory, 3, 64, nullptr);
  (void)run.cuda().ctx_synchronize();
  run.device_bytes("filled", memory, 64);
  (void)run.cuda().mem_free_async(memory, nullptr);
  (void)run.cuda().ctx_synchronize();
  (void)run.cuda().mem_alloc_async(&memory, slab, nullptr);
  (void)run.cuda().mem_free(memory);
  (void)run.cuda().mem_free_async(memory, nullptr);
  (void)run.cuda().mem_free_async(run.allocate(slab), nullptr);
  (void)run.cuda().ctx_synchronize();
}

void exports(Run& run) {
  cuda::CUipcMemHandle handle{};
  const cuda::CUdeviceptr plain = run.allocate(slab);
  (void)run.cuda().ipc_get_mem_handle(&handle, plain + 4096);
  cuda::CUdeviceptr opened = 0;
  run.note("in the process that exported it; a pointer that was not opened");
  (void)run.cuda().ipc_open_mem_handle(&opened, handle, cuda::ipc_memory_lazy_enable_peer_access);
  (void)run.cuda().ipc_close_mem_handle(plain);
  cuda::CUdeviceptr pooled = 0;
  (void)run.cuda().mem_alloc_async(&pooled, slab, nullptr);
  (void)run.cuda().ipc_get_mem_handle(&handle, pooled);
  (void)run.cuda().mem_free(pooled);
  run.free(plain);
}

/// Who copies between two GPUs directly is not to be seen here; what is refused is.
void access_of_a_peer(Run& run) {
  cuda::CUcontext other = nullptr;
  if (run.cuda().device_primary_ctx_retain(&other, 1) != cuda::success) return;
  const cuda::CUdeviceptr base = reserved(run, slab);
  const auto handle = created(run, slab);
  (void)run.cuda().mem_map(base, slab, 0, handle, 0);
  set(run, base, slab, 0, cuda::memory_access_read_write);
  ask_access(run, base, 1);
  (void)run.cuda().ctx_push_current(other);
  run.note("in the other GPU's context: no access, access of contexts, access of its own");
  (void)run.cuda().memset_d8_async(base, 1, 4, nullptr);
  (void)run.cuda().ctx_enable_peer_access(run.context, 0);
  (void)run.cuda().memset_d8_async(base, 1, 4, nullptr);
  ask_access(run, base, 1);
  set(run, base, slab, 1, cuda::memory_access_read_write);
  (void)run.cuda().memset_d8_async(base, 1, 4, nullptr);
  (void)run.cuda().ctx_synchronize();
  ask_access(run, base, 1);
  set(run, base, slab, 1, cuda::memory_access_none);
  ask_access(run, base, 1);
  (void)run.cuda().ctx_disable_peer_access(run.context);
  (void)run.cuda().ctx_pop_current(nullptr);
  (void)run.cuda().mem_unmap(base, slab);
  (void)run.cuda().mem_release(handle);
  (void)run.cuda().mem_address_free(base, slab);
  (void)run.cuda().device_primary_ctx_release(1);
}

}  // namespace

void add_cuda_kinds(Catalogue& all) {
  all.add("kinds.mapping.units", wrong_units);
  all.add("kinds.mapping.life", life_of_a_mapping);
  // In processes of their own: what the first leaves mapped answers others, on a live machine.
  all.add("kinds.mapping.wrong", wrong_mappings, {Start::alone});
  all.add("kinds.mapping.copies", copies_across_mappings, {Start::alone});
  all.add("kinds.pool", pools);
  all.add("kinds.export", exports);
  all.add("kinds.peer_access", access_of_a_peer, {.gpus = 2});
}

}  // namespace nobounce::conformance
