// GPU memory: sizes, wrong frees, ranges, running out of it, fills.
#include "conformance/sequence.hpp"

#include <algorithm>

namespace nobounce::conformance {

namespace {

constexpr std::size_t mib = 1u << 20;

void note_alignment(Run& run, cuda::CUdeviceptr pointer) {
  run.yes("aligned to 512", pointer % 512 == 0);
}

void allocate_and_free(Run& run, std::size_t bytes) {
  cuda::CUdeviceptr pointer = 0;
  if (run.cuda().mem_alloc(&pointer, bytes) != cuda::success) return;
  note_alignment(run, pointer);
  cuda::CUdeviceptr base = 0;
  std::size_t length = 0;
  (void)run.cuda().mem_get_address_range(&base, &length, pointer);
  run.yes("base", base == pointer);
  run.number("length", length);
  (void)run.cuda().mem_get_address_range(&base, &length, pointer + bytes - 1);
  run.yes("base of the last byte", base == pointer);
  (void)run.cuda().mem_free(pointer);
}

void wrong_frees(Run& run) {
  const cuda::CUdeviceptr pointer = run.allocate(mib);
  run.note("inside, twice, zero, nothing of ours");
  (void)run.cuda().mem_free(pointer + 512);
  (void)run.cuda().mem_free(pointer);
  (void)run.cuda().mem_free(pointer);
  (void)run.cuda().mem_free(0);
  (void)run.cuda().mem_free(0x1000);
  (void)run.cuda().mem_free(0x7f0000000000ull);
}

void freeing_host_memory(Run& run) {
  std::byte* host = run.pinned(4096);
  (void)run.cuda().mem_free(reinterpret_cast<cuda::CUdeviceptr>(host));
  (void)run.cuda().mem_free_host(host);
  const auto pageable = pattern(4096, 1);
  (void)run.cuda().mem_free(reinterpret_cast<cuda::CUdeviceptr>(pageable.data()));
}

void ranges(Run& run) {
  const cuda::CUdeviceptr pointer = run.allocate(4 * mib);
  cuda::CUdeviceptr base = 0;
  std::size_t length = 0;
  (void)run.cuda().mem_get_address_range(&base, nullptr, pointer + mib);
  run.yes("base alone", base == pointer);
  (void)run.cuda().mem_get_address_range(nullptr, &length, pointer + mib);
  run.number("length alone", length);
  (void)run.cuda().mem_get_address_range(nullptr, nullptr, pointer + mib);
  (void)run.cuda().mem_get_address_range(&base, &length, 0);
  (void)run.cuda().mem_get_address_range(&base, &length, 0x1000);
  run.free(pointer);
  (void)run.cuda().mem_get_address_range(&base, &length, pointer);
}

void ranges_of_host_memory(Run& run) {
  cuda::CUdeviceptr base = 0;
  std::size_t length = 0;
  std::byte* host = run.pinned(8192);
  const auto address = reinterpret_cast<cuda::CUdeviceptr>(host);
  run.note("pinned");
  if (run.cuda().mem_get_address_range(&base, &length, address + 100) == cuda::success) {
    run.yes("base", base == address);
    run.number("length", length);
  }
  run.free_pinned(host);
  run.note("pageable");
  const auto pageable = pattern(4096, 1);
  (void)run.cuda().mem_get_address_range(&base, &length,
                                         reinterpret_cast<cuda::CUdeviceptr>(pageable.data()));
}

void ranges_of_managed_memory(Run& run) {
  cuda::CUdeviceptr pointer = 0;
  cuda::CUdeviceptr base = 0;
  std::size_t length = 0;
  (void)run.cuda().mem_alloc_managed(&pointer, 8192, cuda::managed_attach_global);
  if (run.cuda().mem_get_address_range(&base, &length, pointer + 100) == cuda::success) {
    run.yes("base", base == pointer);
    run.number("length", length);
  }
  (void)run.cuda().mem_free(pointer);
}

void information(Run& run) {
  std::size_t before = 0;
  std::size_t total = 0;
  (void)run.cuda().mem_get_info(&before, &total);
  run.yes("free below total", before <= total);
  std::size_t device_total = 0;
  (void)run.cuda().device_total_mem(&device_total, 0);
  run.yes("total as the device's", total == device_total);
  cuda::CUdeviceptr pointer = 0;
  (void)run.cuda().mem_alloc(&pointer, 256 * mib);
  std::size_t during = 0;
  (void)run.cuda().mem_get_info(&during, &total);
  run.yes("256 MiB less", before - during >= 256 * mib && before - during < 300 * mib);
  (void)run.cuda().mem_free(pointer);
  std::size_t after = 0;
  (void)run.cuda().mem_get_info(&after, &total);
  run.yes("as before", after == before);
}

void information_null(Run& run) {
  std::size_t bytes = 0;
  (void)run.cuda().mem_get_info(nullptr, &bytes);
  (void)run.cuda().mem_get_info(&bytes, nullptr);
  (void)run.cuda().mem_get_info(nullptr, nullptr);
}

void too_much(Run& run) {
  std::size_t total = 0;
  (void)run.cuda().device_total_mem(&total, 0);
  cuda::CUdeviceptr pointer = 0;
  for (const std::size_t bytes : {total, total + mib, std::size_t{1} << 50, ~std::size_t{0}}) {
    (void)run.cuda().mem_alloc(&pointer, bytes);
  }
  run.note("and afterwards all is well");
  (void)run.cuda().mem_alloc(&pointer, mib);
  (void)run.cuda().memset_d8_async(pointer, 1, mib, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  (void)run.cuda().mem_free(pointer);
}

void all_that_is_free(Run& run) {
  // Half of what is free succeeds twice at most.
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  (void)run.quiet().mem_get_info(&free_bytes, &total);
  const std::size_t bytes = free_bytes / 2 + 256 * mib;
  cuda::CUdeviceptr first = 0;
  cuda::CUdeviceptr second = 0;
  (void)run.cuda().mem_alloc(&first, bytes);
  (void)run.cuda().mem_alloc(&second, bytes);
  (void)run.cuda().mem_free(first);
  if (run.cuda().mem_alloc(&second, bytes) == cuda::success) (void)run.cuda().mem_free(second);
}

void many(Run& run) {
  std::vector<cuda::CUdeviceptr> pointers(64);
  bool distinct = true;
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    (void)run.quiet().mem_alloc(&pointers[i], 1000 * (i + 1));
    for (std::size_t j = 0; j < i; ++j) {
      const cuda::CUdeviceptr low = std::min(pointers[i], pointers[j]);
      const std::size_t length = 1000 * ((low == pointers[i] ? i : j) + 1);
      distinct = distinct && low + length <= std::max(pointers[i], pointers[j]);
    }
  }
  run.yes("no two overlap", distinct);
  for (const cuda::CUdeviceptr pointer : pointers) (void)run.cuda().mem_free(pointer);
}

void fill(Run& run, std::size_t offset, std::size_t bytes) {
  const cuda::CUdeviceptr pointer = run.allocate(mib);
  run.plant(pointer, mib, 3);
  (void)run.cuda().memset_d8_async(pointer + offset, 0xa5, bytes, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.device_bytes("all", pointer, mib);
  run.free(pointer);
}

void fill_of_host_memory(Run& run) {
  std::byte* host = run.pinned(4096);
  const auto data = pattern(4096, 4);
  std::copy(data.begin(), data.end(), host);
  (void)run.cuda().memset_d8_async(reinterpret_cast<cuda::CUdeviceptr>(host), 0x11, 1000, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.bytes("host", {host, 4096});
  run.free_pinned(host);
}

void managed(Run& run, unsigned flags) {
  cuda::CUdeviceptr pointer = 0;
  if (run.cuda().mem_alloc_managed(&pointer, 10000, flags) != cuda::success) return;
  auto* host = reinterpret_cast<std::byte*>(pointer);
  if (flags == cuda::managed_attach_global) {
    const auto data = pattern(10000, 5);
    std::copy(data.begin(), data.end(), host);
    const cuda::CUdeviceptr target = run.allocate(10000);
    (void)run.cuda().memcpy_dtod_async(target, pointer, 10000, nullptr);
    (void)run.cuda().stream_synchronize(nullptr);
    run.device_bytes("copied from it", target, 10000);
    run.free(target);
  }
  (void)run.cuda().mem_free(pointer);
  (void)run.cuda().mem_free(pointer);
}

}  // namespace

void add_cuda_memory(Catalogue& all) {
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{511}, std::size_t{512}, std::size_t{4096}, std::size_t{1000003},
        mib, 2 * mib, 64 * mib}) {
    all.add("memory.allocate." + std::to_string(bytes),
            [bytes](Run& run) { allocate_and_free(run, bytes); });
  }
  all.add("memory.allocate.nothing", [](Run& run) {
    cuda::CUdeviceptr pointer = 7;
    (void)run.cuda().mem_alloc(&pointer, 0);
    run.number("pointer", pointer);
    (void)run.cuda().mem_alloc(nullptr, 4096);
    (void)run.cuda().mem_alloc(nullptr, 0);
  });
  all.add("memory.allocate.too_much", too_much);
  all.add("memory.allocate.half_twice", all_that_is_free);
  all.add("memory.allocate.many", many);
  all.add("memory.free.wrong", wrong_frees);
  all.add("memory.free.host", freeing_host_memory);
  all.add("memory.range", ranges);
  all.add("memory.range.host", ranges_of_host_memory);
  all.add("memory.range.managed", ranges_of_managed_memory);
  all.add("memory.information", information);
  all.add("memory.information.null", information_null);
  all.add("memory.fill.all", [](Run& run) { fill(run, 0, mib); });
  all.add("memory.fill.nothing", [](Run& run) { fill(run, 0, 0); });
  all.add("memory.fill.one_byte", [](Run& run) { fill(run, 12345, 1); });
  all.add("memory.fill.odd", [](Run& run) { fill(run, 4097, 70001); });
  all.add("memory.fill.past_the_end", [](Run& run) { fill(run, mib - 10, 3 * mib); });
  all.add("memory.fill.nowhere", [](Run& run) {
    (void)run.cuda().memset_d8_async(0, 1, 16, nullptr);
    (void)run.cuda().memset_d8_async(0x1000, 1, 16, nullptr);
    (void)run.cuda().stream_synchronize(nullptr);
  });
  all.add("memory.fill.host", fill_of_host_memory);
  all.add("memory.fill.freed",
          [](Run& run) {
            const cuda::CUdeviceptr pointer = run.allocate(64 * mib);
            run.free(pointer);
            (void)run.cuda().memset_d8_async(pointer, 1, 16, nullptr);
            (void)run.cuda().stream_synchronize(nullptr);
          },
          {Start::alone});
  all.add("memory.managed.global", [](Run& run) { managed(run, cuda::managed_attach_global); });
  all.add("memory.managed.host", [](Run& run) { managed(run, 2); });
  for (const unsigned flags : {0u, 3u, 4u, 8u}) {
    all.add("memory.managed.flags_" + std::to_string(flags),
            [flags](Run& run) { managed(run, flags); });
  }
  all.add("memory.managed.nothing", [](Run& run) {
    cuda::CUdeviceptr pointer = 0;
    (void)run.cuda().mem_alloc_managed(&pointer, 0, cuda::managed_attach_global);
    (void)run.cuda().mem_alloc_managed(nullptr, 4096, cuda::managed_attach_global);
  });
}

}  // namespace nobounce::conformance
