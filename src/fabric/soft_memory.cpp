// Host memory of a software machine.
#include "fabric/soft_memory.hpp"

#include <cerrno>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace nobounce::fabric {

namespace {

class SoftMemory final : public system::Memory {
 public:
  SoftMemory(Bus& bus, GpuAllocations& allocations) : bus_(bus), allocations_(allocations) {}
  ~SoftMemory() override {
    for (const auto& [view, buffer] : buffers_) bus_.free_dram(buffer);
  }

  Result<system::HostBuffer> allocate_pinned(std::uint64_t length_bytes, std::uint32_t numa,
                                             system::MemoryUse use) override {
    if (bus_.machine().gpus.empty()) {
      Error error = os_error(ENOENT, "load libcuda.so.1", Cause::machine_no_gpu);
      error.detail = "libcuda.so.1: not on this software machine, which has no GPU";
      return error;
    }
    return allocate(length_bytes, numa, true,
                    use == system::MemoryUse::bounce ? DramUse::bounce : DramUse::user);
  }
  Result<system::HostBuffer> allocate_plain(std::uint64_t length_bytes,
                                            std::uint32_t numa) override {
    return allocate(length_bytes, numa, false, DramUse::user);
  }
  void free(const system::HostBuffer& buffer) override {
    DramBuffer old;
    {
      const std::lock_guard lock(mutex_);
      const auto found = buffers_.find(buffer.address);
      if (found == buffers_.end()) return;
      old = found->second;
      buffers_.erase(found);
    }
    (void)allocations_.remove_host(old.view);
    bus_.free_dram(old);
  }
  void copy(std::byte* target, const std::byte* source, std::size_t length_bytes) override {
    (void)bus_.cpu_copy(bus_.address_of(target), bus_.address_of(source), length_bytes);
  }

 private:
  Result<system::HostBuffer> allocate(std::uint64_t length_bytes, std::uint32_t numa, bool pinned,
                                      DramUse use) {
    const std::string attempted = "allocate " + std::to_string(length_bytes) + " bytes of " +
                                  (pinned ? "pinned" : "plain") + " host memory";
    if (length_bytes == 0) return os_error(EINVAL, attempted);
    // A node that does not exist: where the kernel lets us, that is node 0.
    const std::uint32_t node = numa < bus_.machine().numa_nodes.size() ? numa : 0;
    Result<DramBuffer> made = bus_.allocate_dram(node, length_bytes, use);
    if (!made.ok()) {
      if (made.error().origin != ErrorOrigin::fabric) return std::move(made).error();
      Error error = os_error(ENOMEM, attempted);
      error.detail += ": " + made.error().detail;
      return error;
    }
    if (pinned) {
      (void)allocations_.add_host(made->view, length_bytes, AllocationKind::host_pinned);
    }
    const std::lock_guard lock(mutex_);
    buffers_[made->view] = *made;
    return system::HostBuffer{made->view, length_bytes, node, pinned};
  }

  Bus& bus_;
  GpuAllocations& allocations_;
  std::mutex mutex_;
  std::map<std::byte*, DramBuffer> buffers_;
};

}  // namespace

std::unique_ptr<system::Memory> make_soft_memory(Bus& bus, GpuAllocations& allocations) {
  return std::make_unique<SoftMemory>(bus, allocations);
}

}  // namespace nobounce::fabric
