// LiveMemory: host memory by NUMA node, registered with CUDA where it is to be pinned.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "system/cuda_contexts.hpp"
#include "system/live_parts.hpp"
#include "system/numa_pages.hpp"

namespace nobounce::system {
namespace {

/// The context that a buffer was registered under, and whether we hold a reference to keep it
/// alive.
struct Registration {
  cuda::CUcontext context = nullptr;
  cuda::CUdevice device = 0;
  bool retained = false;
  pid_t process = 0;
};

class LiveMemory final : public Memory {
 public:
  explicit LiveMemory(Host& host) : host_(host) {}
  Result<HostBuffer> allocate_pinned(std::uint64_t length_bytes, std::uint32_t numa,
                                     MemoryUse use) override;
  Result<HostBuffer> allocate_plain(std::uint64_t length_bytes, std::uint32_t numa) override;
  void free(const HostBuffer& buffer) override;
  void copy(std::byte* target, const std::byte* source, std::size_t length_bytes) override {
    std::memcpy(target, source, length_bytes);
  }

 private:
  Host& host_;
  std::mutex mutex_;
  std::map<std::byte*, Registration> registrations_;  // of pinned buffers, by address
};

/// The calling thread's context; where there is none, the retained primary context of device 0.
/// That reference is kept as long as the buffer: with the context its registrations would go.
Result<Registration> context_for_registration(Cuda& cuda) {
  Registration registration;
  registration.process = ::getpid();
  if (cuda.ctx_get_current(&registration.context) == cuda::success &&
      registration.context != nullptr) {
    return registration;
  }
  if (const int code = cuda.init(0); code != cuda::success) {
    return cuda_error(cuda, code, "initialise CUDA",
                      code == cuda::error_no_device ? Cause::machine_no_gpu : Cause::none);
  }
  if (const int code = cuda.device_get(&registration.device, 0); code != cuda::success) {
    return cuda_error(cuda, code, "find CUDA device 0", Cause::machine_no_gpu);
  }
  const int code = cuda.device_primary_ctx_retain(&registration.context, registration.device);
  if (code != cuda::success) {
    return cuda_error(cuda, code, "retain the primary context of CUDA device 0");
  }
  registration.retained = true;
  return registration;
}

void release_context(Cuda& cuda, const Registration& registration) {
  if (registration.retained) (void)cuda.device_primary_ctx_release(registration.device);
}

Result<HostBuffer> LiveMemory::allocate_plain(std::uint64_t length_bytes, std::uint32_t numa) {
  const auto pages = map_numa_pages(length_bytes, numa);
  if (!pages) return pages.error();
  return HostBuffer{pages->address, length_bytes, pages->numa, false};
}

Result<HostBuffer> LiveMemory::allocate_pinned(std::uint64_t length_bytes, std::uint32_t numa,
                                               MemoryUse) {
  const auto cuda = host_.cuda();
  if (!cuda) return cuda.error();
  const auto pages = map_numa_pages(length_bytes, numa);
  if (!pages) return pages.error();
  const auto registration = context_for_registration(**cuda);
  if (!registration) {
    unmap_numa_pages(pages->address, length_bytes);
    return registration.error();
  }
  int code = cuda::success;
  {
    const ContextGuard current(**cuda, registration->context);
    code = current.status();
    if (code == cuda::success) {
      code = (*cuda)->mem_host_register(pages->address, pages->mapped_bytes,
                                        cuda::host_register_portable);
    }
  }
  if (code != cuda::success) {
    release_context(**cuda, *registration);
    unmap_numa_pages(pages->address, length_bytes);
    return cuda_error(**cuda, code,
                      "register " + std::to_string(length_bytes) + " bytes of host memory");
  }
  const std::lock_guard lock(mutex_);
  registrations_[pages->address] = *registration;
  return HostBuffer{pages->address, length_bytes, pages->numa, true};
}

void LiveMemory::free(const HostBuffer& buffer) {
  Registration registration;
  if (buffer.pinned) {
    const std::lock_guard lock(mutex_);
    const auto found = registrations_.find(buffer.address);
    if (found == registrations_.end()) return;  // freed before: the address may be another's now
    registration = found->second;
    registrations_.erase(found);
  }
  // A forked child owns a copy of the pages but nothing of the driver.
  if (buffer.pinned && registration.process == ::getpid()) {
    if (const auto cuda = host_.cuda(); cuda) {
      {
        const ContextGuard current(**cuda, registration.context);
        // Refused where the context was destroyed before us, and the registration with it.
        (void)(*cuda)->mem_host_unregister(buffer.address);
      }
      release_context(**cuda, registration);
    }
  }
  unmap_numa_pages(buffer.address, buffer.length_bytes);
}

}  // namespace

std::unique_ptr<Memory> make_live_memory(Host& host) {
  return std::make_unique<LiveMemory>(host);
}

}  // namespace nobounce::system
