// Virtual memory: physical memory created, addresses reserved, mapped, given access, and all of it
// in every wrong order.
#include "conformance/sequence.hpp"

namespace nobounce::conformance {

namespace {

using Properties = cuda::CUmemAllocationProp;
using Handle = cuda::CUmemGenericAllocationHandle;

Properties properties_of(int device) {
  Properties properties{};
  properties.type = cuda::memory_allocation_pinned;
  properties.location = {cuda::memory_location_device, device};
  return properties;
}

std::size_t unit_of(Run& run) {
  const Properties properties = properties_of(0);
  std::size_t unit = 0;
  (void)run.quiet().mem_get_allocation_granularity(&unit, &properties, cuda::granularity_minimum);
  return unit == 0 ? std::size_t{2} << 20 : unit;
}

/// Two units of physical memory, and addresses for eight, taken without a trace.
struct Ready {
  explicit Ready(Run& in) : run(in), unit(unit_of(in)) {
    const Properties properties = properties_of(0);
    (void)run.quiet().mem_create(&handle, 2 * unit, &properties, 0);
    (void)run.quiet().mem_address_reserve(&address, 8 * unit, 0, 0, 0);
  }
  ~Ready() {
    (void)run.quiet().mem_unmap(address, 2 * unit);
    (void)run.quiet().mem_address_free(address, 8 * unit);
    if (handle != 0) (void)run.quiet().mem_release(handle);
  }
  Ready(const Ready&) = delete;
  Ready& operator=(const Ready&) = delete;
  void map() { (void)run.quiet().mem_map(address, 2 * unit, 0, handle, 0); }
  [[nodiscard]] cuda::CUresult grant(int device, int flags, bool traced = true) {
    const cuda::CUmemAccessDesc wanted{{cuda::memory_location_device, device}, flags};
    system::Cuda& table = traced ? static_cast<system::Cuda&>(run.cuda()) : run.quiet();
    return table.mem_set_access(address, 2 * unit, &wanted, 1);
  }
  Run& run;
  std::size_t unit;
  Handle handle = 0;
  cuda::CUdeviceptr address = 0;
};

void granularity(Run& run) {
  Properties properties = properties_of(0);
  for (const int option : {0, 1, 2, -1}) {
    std::size_t unit = 0;
    run.note("option " + std::to_string(option));
    if (run.cuda().mem_get_allocation_granularity(&unit, &properties, option) == cuda::success) {
      run.number("bytes", unit);
    }
  }
  std::size_t unit = 0;
  (void)run.cuda().mem_get_allocation_granularity(nullptr, &properties, 0);
  (void)run.cuda().mem_get_allocation_granularity(&unit, nullptr, 0);
  properties.location.id = 4711;
  (void)run.cuda().mem_get_allocation_granularity(&unit, &properties, 0);
  properties = properties_of(0);
  properties.type = 0;
  (void)run.cuda().mem_get_allocation_granularity(&unit, &properties, 0);
  properties = properties_of(0);
  properties.location.type = 0;
  (void)run.cuda().mem_get_allocation_granularity(&unit, &properties, 0);
}

void create(Run& run) {
  const std::size_t unit = unit_of(run);
  Properties properties = properties_of(0);
  const auto made = [&](const char* what, std::size_t bytes, const Properties* with,
                        unsigned long long flags) {
    Handle handle = 0;
    run.note(what);
    if (run.cuda().mem_create(&handle, bytes, with, flags) == cuda::success) {
      (void)run.cuda().mem_release(handle);
    }
  };
  made("a unit", unit, &properties, 0);
  made("three units", 3 * unit, &properties, 0);
  made("nothing", 0, &properties, 0);
  made("half a unit", unit / 2, &properties, 0);
  made("a unit and a byte", unit + 1, &properties, 0);
  made("flags", unit, &properties, 1);
  made("no properties", unit, nullptr, 0);
  made("more than there is", std::size_t{1} << 46, &properties, 0);
  properties.location.id = -1;
  made("no such device", unit, &properties, 0);
  properties = properties_of(0);
  properties.type = 0;
  made("no type", unit, &properties, 0);
  properties = properties_of(0);
  (void)run.cuda().mem_create(nullptr, unit, &properties, 0);
}

void releases(Run& run) {
  const std::size_t unit = unit_of(run);
  const Properties properties = properties_of(0);
  Handle handle = 0;
  (void)run.cuda().mem_create(&handle, unit, &properties, 0);
  (void)run.cuda().mem_release(handle);
  (void)run.cuda().mem_release(handle);
  (void)run.cuda().mem_release(0);
}

void reserve(Run& run) {
  const std::size_t unit = unit_of(run);
  const auto made = [&](const char* what, std::size_t bytes, std::size_t alignment,
                        unsigned long long flags) {
    cuda::CUdeviceptr address = 0;
    run.note(what);
    if (run.cuda().mem_address_reserve(&address, bytes, alignment, 0, flags) != cuda::success) {
      return;
    }
    run.yes("aligned to the unit", address % unit == 0);
    if (alignment > unit) run.yes("aligned as wanted", address % alignment == 0);
    (void)run.cuda().mem_address_free(address, bytes);
  };
  made("a unit", unit, 0, 0);
  made("a thousand units", 1000 * unit, 0, 0);
  made("aligned to 64 units", unit, 64 * unit, 0);
  made("aligned to three units", unit, 3 * unit, 0);
  made("nothing", 0, 0, 0);
  made("half a unit", unit / 2, 0, 0);
  made("flags", unit, 0, 1);
  (void)run.cuda().mem_address_reserve(nullptr, unit, 0, 0, 0);
}

void wrong_address_frees(Run& run) {
  const std::size_t unit = unit_of(run);
  cuda::CUdeviceptr address = 0;
  (void)run.cuda().mem_address_reserve(&address, 4 * unit, 0, 0, 0);
  run.note("a part, its end, another length, twice, zero");
  (void)run.cuda().mem_address_free(address, unit);
  (void)run.cuda().mem_address_free(address + unit, 3 * unit);
  (void)run.cuda().mem_address_free(address, 8 * unit);
  (void)run.cuda().mem_address_free(address, 4 * unit);
  (void)run.cuda().mem_address_free(address, 4 * unit);
  (void)run.cuda().mem_address_free(0, unit);
}

void whole_life(Run& run) {
  const std::size_t unit = unit_of(run);
  const Properties properties = properties_of(0);
  Handle handle = 0;
  cuda::CUdeviceptr address = 0;
  (void)run.cuda().mem_create(&handle, 2 * unit, &properties, 0);
  (void)run.cuda().mem_address_reserve(&address, 2 * unit, 0, 0, 0);
  (void)run.cuda().mem_map(address, 2 * unit, 0, handle, 0);
  const cuda::CUmemAccessDesc wanted{{cuda::memory_location_device, 0},
                                     cuda::memory_access_read_write};
  (void)run.cuda().mem_set_access(address, 2 * unit, &wanted, 1);
  (void)run.cuda().mem_release(handle);
  run.note("released, but mapped");
  run.plant(address, 2 * unit, 60);
  (void)run.cuda().memset_d8_async(address + unit - 5, 7, 10, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.device_bytes("all", address, 2 * unit);
  (void)run.cuda().mem_unmap(address, 2 * unit);
  (void)run.cuda().mem_address_free(address, 2 * unit);
}

void wrong_maps(Run& run) {
  Ready ready(run);
  run.note("half a unit; an offset of half a unit; past the end; flags; no handle");
  (void)run.cuda().mem_map(ready.address, ready.unit / 2, 0, ready.handle, 0);
  (void)run.cuda().mem_map(ready.address, ready.unit, ready.unit / 2, ready.handle, 0);
  (void)run.cuda().mem_map(ready.address, ready.unit, 2 * ready.unit, ready.handle, 0);
  (void)run.cuda().mem_map(ready.address, 4 * ready.unit, 0, ready.handle, 0);
  (void)run.cuda().mem_map(ready.address, ready.unit, 0, ready.handle, 1);
  (void)run.cuda().mem_map(ready.address, ready.unit, 0, 0, 0);
  run.note("nothing; an address not reserved");
  (void)run.cuda().mem_map(ready.address, 0, 0, ready.handle, 0);
  (void)run.cuda().mem_map(0, ready.unit, 0, ready.handle, 0);
  (void)run.cuda().mem_map(ready.address + 64 * ready.unit, 2 * ready.unit, 0, ready.handle, 0);
}

void mapped_twice(Run& run) {
  Ready ready(run);
  (void)run.cuda().mem_map(ready.address, 2 * ready.unit, 0, ready.handle, 0);
  run.note("the same addresses again; the same memory elsewhere");
  (void)run.cuda().mem_map(ready.address, 2 * ready.unit, 0, ready.handle, 0);
  (void)run.cuda().mem_map(ready.address + 4 * ready.unit, 2 * ready.unit, 0, ready.handle, 0);
  const cuda::CUmemAccessDesc wanted{{cuda::memory_location_device, 0},
                                     cuda::memory_access_read_write};
  (void)run.cuda().mem_set_access(ready.address, 2 * ready.unit, &wanted, 1);
  (void)run.cuda().mem_set_access(ready.address + 4 * ready.unit, 2 * ready.unit, &wanted, 1);
  run.plant(ready.address, 2 * ready.unit, 61);
  run.device_bytes("seen at the other address", ready.address + 4 * ready.unit, 2 * ready.unit);
  (void)run.cuda().mem_unmap(ready.address + 4 * ready.unit, 2 * ready.unit);
}

void mapped_in_part(Run& run) {
  Ready ready(run);
  (void)run.cuda().mem_map(ready.address, ready.unit, ready.unit, ready.handle, 0);
  (void)run.cuda().mem_map(ready.address + ready.unit, ready.unit, 0, ready.handle, 0);
}

void wrong_unmaps(Run& run) {
  Ready ready(run);
  run.note("nothing mapped there");
  (void)run.cuda().mem_unmap(ready.address, 2 * ready.unit);
  ready.map();
  run.note("a part; more; zero");
  (void)run.cuda().mem_unmap(ready.address, ready.unit);
  (void)run.cuda().mem_unmap(ready.address + ready.unit, ready.unit);
  (void)run.cuda().mem_unmap(ready.address, 0);
  (void)run.cuda().mem_unmap(ready.address, 2 * ready.unit);
  (void)run.cuda().mem_unmap(ready.address, 2 * ready.unit);
  (void)run.cuda().mem_unmap(0, ready.unit);
}

void freed_while_mapped(Run& run) {
  Ready ready(run);
  ready.map();
  (void)run.cuda().mem_address_free(ready.address, 8 * ready.unit);
  (void)run.cuda().mem_free(ready.address);
}

void access(Run& run) {
  Ready ready(run);
  run.note("before mapping");
  (void)ready.grant(0, cuda::memory_access_read_write);
  ready.map();
  unsigned long long flags = 7;
  cuda::CUmemLocation here{cuda::memory_location_device, 0};
  const auto ask = [&](cuda::CUdeviceptr pointer) {
    flags = 7;
    if (run.cuda().mem_get_access(&flags, &here, pointer) == cuda::success) {
      run.number("access", flags);
    }
  };
  run.note("mapped");
  ask(ready.address);
  for (const int wanted : {1, 3, 2, 7, 0, 3}) {
    run.note("wanted " + std::to_string(wanted));
    (void)ready.grant(0, wanted);
    ask(ready.address);
  }
  ask(ready.address + ready.unit + 77);
  (void)ready.grant(4711, cuda::memory_access_read_write);
  (void)run.cuda().mem_get_access(nullptr, &here, ready.address);
  (void)run.cuda().mem_get_access(&flags, nullptr, ready.address);
  here.id = 4711;
  (void)run.cuda().mem_get_access(&flags, &here, ready.address);
}

void wrong_access(Run& run) {
  Ready ready(run);
  ready.map();
  const cuda::CUmemAccessDesc wanted{{cuda::memory_location_device, 0},
                                     cuda::memory_access_read_write};
  (void)run.cuda().mem_set_access(ready.address, 2 * ready.unit, nullptr, 1);
  (void)run.cuda().mem_set_access(ready.address, 2 * ready.unit, &wanted, 0);
  (void)run.cuda().mem_set_access(ready.address, 0, &wanted, 1);
  run.note("a part; more than is mapped; inside");
  (void)run.cuda().mem_set_access(ready.address, ready.unit, &wanted, 1);
  (void)run.cuda().mem_set_access(ready.address, 4 * ready.unit, &wanted, 1);
  (void)run.cuda().mem_set_access(ready.address + 100, ready.unit, &wanted, 1);
}

void access_of_other_kinds(Run& run) {
  unsigned long long flags = 7;
  const cuda::CUmemLocation here{cuda::memory_location_device, 0};
  const cuda::CUdeviceptr device = run.allocate(std::size_t{4} << 20);
  run.note("cuMemAlloc");
  if (run.cuda().mem_get_access(&flags, &here, device) == cuda::success) {
    run.number("access", flags);
  }
  const cuda::CUmemAccessDesc wanted{here, cuda::memory_access_read_write};
  (void)run.cuda().mem_set_access(device, std::size_t{2} << 20, &wanted, 1);
  run.free(device);
  run.note("pageable, null");
  const auto host = pattern(4096, 1);
  (void)run.cuda().mem_get_access(&flags, &here, reinterpret_cast<cuda::CUdeviceptr>(host.data()));
  (void)run.cuda().mem_get_access(&flags, &here, 0);
}

void without_access(Run& run) {
  Ready ready(run);
  ready.map();
  (void)run.cuda().memset_d8_async(ready.address, 1, 16, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  std::byte* host = run.pinned(4096);
  (void)run.cuda().memcpy_htod_async(ready.address, host, 4096, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  (void)run.cuda().memcpy_dtoh_async(host, ready.address, 4096, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
}

void reserved_only(Run& run) {
  Ready ready(run);
  std::byte* host = run.pinned(4096);
  (void)run.cuda().memcpy_htod_async(ready.address, host, 4096, nullptr);
  (void)run.cuda().memcpy_dtoh_async(host, ready.address, 4096, nullptr);
  (void)run.cuda().memset_d8_async(ready.address, 1, 16, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
}

void pointers(Run& run) {
  Ready ready(run);
  const auto ask = [&](cuda::CUdeviceptr pointer) {
    for (const int attribute :
         {cuda::pointer_memory_type, cuda::pointer_is_managed, cuda::pointer_device_ordinal,
          cuda::pointer_is_legacy_cuda_ipc_capable, cuda::pointer_range_size}) {
      std::uint64_t value = 0;
      if (run.cuda().pointer_get_attribute(&value, attribute, pointer) == cuda::success) {
        run.number("value", value & 0xffffffff);
      }
    }
    std::uint64_t start = 0;
    if (run.cuda().pointer_get_attribute(&start, cuda::pointer_range_start, pointer) ==
        cuda::success) {
      run.yes("starts at the reservation", start == ready.address);
    }
    void* context = nullptr;
    if (run.cuda().pointer_get_attribute(&context, cuda::pointer_context, pointer) ==
        cuda::success) {
      run.note(context == nullptr       ? "no context"
               : context == run.context ? "our context"
                                        : "another context");
    }
    void* pool = nullptr;
    if (run.cuda().pointer_get_attribute(&pool, cuda::pointer_mempool_handle, pointer) ==
        cuda::success) {
      run.yes("a pool", pool != nullptr);
    }
  };
  run.note("reserved");
  ask(ready.address);
  ready.map();
  run.note("mapped");
  ask(ready.address);
  (void)ready.grant(0, cuda::memory_access_read_write, false);
  run.note("accessible, inside");
  ask(ready.address + ready.unit + 4242);
  run.note("reserved behind it");
  ask(ready.address + 4 * ready.unit);
  cuda::CUdeviceptr base = 0;
  std::size_t length = 0;
  run.note("its range");
  if (run.cuda().mem_get_address_range(&base, &length, ready.address + 99) == cuda::success) {
    run.yes("base", base == ready.address);
    run.number("units", length / ready.unit);
  }
}

void retained_handle(Run& run) {
  Ready ready(run);
  Handle again = 0;
  (void)run.cuda().mem_retain_allocation_handle(&again, reinterpret_cast<void*>(ready.address));
  ready.map();
  (void)run.cuda().mem_retain_allocation_handle(
      &again, reinterpret_cast<void*>(ready.address + ready.unit + 5));
  run.yes("the same handle", again == ready.handle);
  (void)run.cuda().mem_release(again);
  const cuda::CUdeviceptr device = run.allocate(4096);
  run.note("cuMemAlloc; null");
  (void)run.cuda().mem_retain_allocation_handle(&again, reinterpret_cast<void*>(device));
  (void)run.cuda().mem_retain_allocation_handle(&again, nullptr);
  run.free(device);
  (void)run.cuda().mem_retain_allocation_handle(nullptr, reinterpret_cast<void*>(ready.address));
}

void access_for_a_peer(Run& run) {
  Ready ready(run);
  ready.map();
  (void)ready.grant(0, cuda::memory_access_read_write);
  (void)ready.grant(1, cuda::memory_access_read_write);
  unsigned long long flags = 7;
  cuda::CUmemLocation there{cuda::memory_location_device, 1};
  (void)run.cuda().mem_get_access(&flags, &there, ready.address);
  run.number("access of the other", flags);
  (void)ready.grant(1, cuda::memory_access_none);
  (void)run.cuda().mem_get_access(&flags, &there, ready.address);
  run.number("access of the other", flags);
}

void copied_to_a_peer(Run& run, bool granted) {
  Ready ready(run);
  ready.map();
  (void)ready.grant(0, cuda::memory_access_read_write);
  if (granted) (void)ready.grant(1, cuda::memory_access_read_write);
  run.plant(ready.address, 4096, 62);
  cuda::CUcontext other = nullptr;
  (void)run.quiet().device_primary_ctx_retain(&other, 1);
  (void)run.quiet().ctx_push_current(other);
  const cuda::CUdeviceptr far = run.allocate(4096);
  run.plant(far, 4096, 63);
  run.note("by the other GPU");
  (void)run.cuda().memcpy_dtod_async(far, ready.address, 4096, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.device_bytes("there", far, 4096);
  run.note("by name");
  (void)run.cuda().memcpy_peer_async(far, other, ready.address, run.context, 4096, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.device_bytes("there", far, 4096);
  run.free(far);
  cuda::CUcontext popped = nullptr;
  (void)run.quiet().ctx_pop_current(&popped);
  (void)run.quiet().device_primary_ctx_release(1);
}

}  // namespace

void add_cuda_virtual(Catalogue& all) {
  const Needs alone{Start::alone};
  all.add("virtual.granularity", granularity);
  all.add("virtual.create", create);
  all.add("virtual.release", releases, alone);
  all.add("virtual.reserve", reserve);
  all.add("virtual.reserve.wrong_frees", wrong_address_frees, alone);
  all.add("virtual.whole_life", whole_life);
  all.add("virtual.map.wrong", wrong_maps, alone);
  all.add("virtual.map.twice", mapped_twice, alone);
  all.add("virtual.map.in_part", mapped_in_part, alone);
  all.add("virtual.unmap.wrong", wrong_unmaps, alone);
  all.add("virtual.freed_while_mapped", freed_while_mapped, alone);
  all.add("virtual.access", access, alone);
  all.add("virtual.access.wrong", wrong_access, alone);
  all.add("virtual.access.other_kinds", access_of_other_kinds, alone);
  all.add("virtual.without_access", without_access, alone);
  all.add("virtual.reserved_only", reserved_only, alone);
  all.add("virtual.pointers", pointers);
  all.add("virtual.retained_handle", retained_handle, alone);
  const Needs two{Start::alone, 2};
  all.add("virtual.two.access", access_for_a_peer, two);
  all.add(
      "virtual.two.copy.not_granted", [](Run& run) { copied_to_a_peer(run, false); }, two);
  all.add(
      "virtual.two.copy.granted", [](Run& run) { copied_to_a_peer(run, true); }, two);
}

}  // namespace nobounce::conformance
