// Host memory by NUMA node, pinned or plain, and the CPU copies that we make.
#pragma once

#include <cstddef>
#include <cstdint>

#include <nobounce/result.hpp>

namespace nobounce::system {

/// What pinned memory is for. A software machine makes `bounce` memory inaccessible to the CPU
/// between seam calls, so that a touch outside them is noticed; `user` memory may be read and
/// written freely.
enum class MemoryUse : std::uint8_t { bounce, user };

struct HostBuffer {
  std::byte* address = nullptr;
  std::uint64_t length_bytes = 0;
  std::uint32_t numa = 0;
  bool pinned = false;
};

class Memory {
 public:
  virtual ~Memory() = default;
  /// Page-aligned, zeroed, on that NUMA node where the kernel lets us, registered with CUDA for
  /// every device (portable). Fails with origin cuda where CUDA is absent or refuses, os where mmap
  /// does.
  [[nodiscard]] virtual Result<HostBuffer> allocate_pinned(std::uint64_t length_bytes,
                                                           std::uint32_t numa, MemoryUse use) = 0;
  /// Page-aligned and zeroed, not registered with anything.
  [[nodiscard]] virtual Result<HostBuffer> allocate_plain(std::uint64_t length_bytes,
                                                          std::uint32_t numa) = 0;
  virtual void free(const HostBuffer& buffer) = 0;
  /// A CPU copy between host buffers. The only way our movers touch payload with the CPU.
  virtual void copy(std::byte* target, const std::byte* source, std::size_t length_bytes) = 0;
};

}  // namespace nobounce::system
