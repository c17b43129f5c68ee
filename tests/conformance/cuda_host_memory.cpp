// Host memory that CUDA knows: allocated pinned, and registered, with every way to get it wrong.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "conformance/sequence.hpp"

namespace nobounce::conformance {

namespace {

constexpr std::size_t page = 4096;

/// Page-aligned pageable memory.
class Pages {
 public:
  explicit Pages(std::size_t count)
      : bytes_(count * page),
        base_(static_cast<std::byte*>(
            ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Pages() { ::munmap(base_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  [[nodiscard]] std::byte* at(std::size_t index) const { return base_ + index * page; }

 private:
  std::size_t bytes_;
  std::byte* base_;
};

void host_alloc(Run& run, unsigned flags) {
  void* pointer = nullptr;
  if (run.cuda().mem_host_alloc(&pointer, 10000, flags) != cuda::success) return;
  run.yes("page aligned", reinterpret_cast<std::uintptr_t>(pointer) % page == 0);
  auto* bytes = static_cast<std::byte*>(pointer);
  bytes[0] = std::byte{1};
  bytes[9999] = std::byte{2};
  (void)run.cuda().mem_free_host(pointer);
  (void)run.cuda().mem_free_host(pointer);
}

void wrong_host_frees(Run& run) {
  std::byte* pinned = run.pinned(2 * page);
  run.note("inside, null, pageable");
  (void)run.cuda().mem_free_host(pinned + page);
  (void)run.cuda().mem_free_host(nullptr);
  const auto pageable = pattern(page, 1);
  (void)run.cuda().mem_free_host(const_cast<std::byte*>(pageable.data()));
  run.note("registered");
  const Pages pages(1);
  (void)run.cuda().mem_host_register(pages.at(0), page, 0);
  (void)run.cuda().mem_free_host(pages.at(0));
  (void)run.cuda().mem_host_unregister(pages.at(0));
  run.note("unregistering what was allocated");
  (void)run.cuda().mem_host_unregister(pinned);
  (void)run.cuda().mem_free_host(pinned);
}

void registered(Run& run, unsigned flags) {
  const Pages pages(4);
  if (run.cuda().mem_host_register(pages.at(0), 4 * page, flags) != cuda::success) return;
  const auto data = pattern(4 * page, 6);
  std::copy(data.begin(), data.end(), pages.at(0));
  const cuda::CUdeviceptr target = run.allocate(4 * page);
  (void)run.cuda().memcpy_htod_async(target, pages.at(0), 4 * page, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.device_bytes("copied from it", target, 4 * page);
  run.free(target);
  (void)run.cuda().mem_host_unregister(pages.at(0));
  (void)run.cuda().mem_host_unregister(pages.at(0));
}

void overlapping(Run& run) {
  const Pages pages(8);
  (void)run.cuda().mem_host_register(pages.at(2), 2 * page, 0);
  run.note("the same, inside, around, ends in it, begins in it, beside it");
  (void)run.cuda().mem_host_register(pages.at(2), 2 * page, 0);
  (void)run.cuda().mem_host_register(pages.at(3), page, 0);
  (void)run.cuda().mem_host_register(pages.at(0), 8 * page, 0);
  (void)run.cuda().mem_host_register(pages.at(1), 2 * page, 0);
  (void)run.cuda().mem_host_register(pages.at(3), 2 * page, 0);
  (void)run.cuda().mem_host_register(pages.at(4), page, 0);
  (void)run.cuda().mem_host_unregister(pages.at(2));
  (void)run.cuda().mem_host_unregister(pages.at(4));
}

void unaligned(Run& run) {
  const Pages pages(4);
  (void)run.cuda().mem_host_register(pages.at(0) + 100, 5000, 0);
  run.note("the next page's other half");
  (void)run.cuda().mem_host_register(pages.at(1) + 3000, 500, 0);
  (void)run.cuda().mem_host_unregister(pages.at(1) + 3000);
  run.note("its page instead of it");
  (void)run.cuda().mem_host_unregister(pages.at(0));
  (void)run.cuda().mem_host_unregister(pages.at(0) + 100);
}

void wrong_registrations(Run& run) {
  const Pages pages(1);
  (void)run.cuda().mem_host_register(nullptr, page, 0);
  (void)run.cuda().mem_host_register(pages.at(0), 0, 0);
  (void)run.cuda().mem_host_unregister(nullptr);
  (void)run.cuda().mem_host_unregister(pages.at(0));
  const cuda::CUdeviceptr device = run.allocate(page);
  run.note("GPU memory");
  (void)run.cuda().mem_host_register(reinterpret_cast<void*>(device), page, 0);
  run.free(device);
  run.note("already pinned");
  std::byte* pinned = run.pinned(page);
  (void)run.cuda().mem_host_register(pinned, page, 0);
  run.free_pinned(pinned);
}

void unmapped(Run& run) {
  std::byte* gone = nullptr;
  {
    const Pages pages(4);
    gone = pages.at(0);
  }
  (void)run.cuda().mem_host_register(gone, page, 0);
}

/// A shared mapping of a real file. A private read-only one is never registered: it hangs the
/// driver.
void file_mapping(Run& run, int protection, unsigned flags) {
  const std::string path = run.folder + "/mapped";
  {
    const auto data = pattern(4 * page, 7);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(data.data()),
               static_cast<std::streamsize>(data.size()));
  }
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  void* mapping = ::mmap(nullptr, 4 * page, protection, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  if (run.cuda().mem_host_register(mapping, 4 * page, flags) == cuda::success) {
    const cuda::CUdeviceptr target = run.allocate(4 * page);
    (void)run.cuda().memcpy_htod_async(target, mapping, 4 * page, nullptr);
    (void)run.cuda().stream_synchronize(nullptr);
    run.device_bytes("copied from it", target, 4 * page);
    run.free(target);
    (void)run.cuda().mem_host_unregister(mapping);
  }
  ::munmap(mapping, 4 * page);
  ::unlink(path.c_str());
}

}  // namespace

void add_cuda_host_memory(Catalogue& all) {
  for (const unsigned flags : {0u, 1u, 2u, 3u, 4u, 7u, 8u, 16u, 1u << 30}) {
    all.add("host_memory.allocate.flags_" + std::to_string(flags),
            [flags](Run& run) { host_alloc(run, flags); });
  }
  all.add("host_memory.allocate.nothing", [](Run& run) {
    void* pointer = nullptr;
    (void)run.cuda().mem_host_alloc(&pointer, 0, 0);
    run.yes("a pointer", pointer != nullptr);
    (void)run.cuda().mem_host_alloc(nullptr, page, 0);
  });
  all.add("host_memory.allocate.too_much", [](Run& run) {
    void* pointer = nullptr;
    (void)run.cuda().mem_host_alloc(&pointer, std::size_t{1} << 50, 0);
  });
  all.add("host_memory.free.wrong", wrong_host_frees);
  for (const unsigned flags : {0u, 1u, 2u, 3u, 4u, 8u, 15u, 16u, 1u << 30}) {
    all.add("host_memory.register.flags_" + std::to_string(flags),
            [flags](Run& run) { registered(run, flags); });
  }
  all.add("host_memory.register.overlapping", overlapping);
  all.add("host_memory.register.unaligned", unaligned);
  all.add("host_memory.register.wrong", wrong_registrations);
  all.add("host_memory.register.unmapped", unmapped, {Start::alone});
  all.add("host_memory.register.file.read_only",
          [](Run& run) { file_mapping(run, PROT_READ, cuda::host_register_read_only); });
  all.add("host_memory.register.file.writable",
          [](Run& run) { file_mapping(run, PROT_READ | PROT_WRITE, 0); });
}

}  // namespace nobounce::conformance
