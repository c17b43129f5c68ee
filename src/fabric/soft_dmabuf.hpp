// dma-bufs of a software machine: file descriptors that stand for ranges of GPU memory.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include <nobounce/units.hpp>

namespace nobounce::fabric {

struct DmaBuf {
  DevicePointer memory;  ///< where it lies, whatever mapping it was named by
  std::uint64_t length_bytes = 0;
  std::uint64_t allocation = 0;  ///< its id
};

/// The descriptors are real ones of this process, known again by their inode: what is forgotten to
/// be closed shows as a leak, and a number that was closed and used again stands for nothing.
/// Thread-safe.
class DmaBufs {
 public:
  DmaBufs() = default;
  DmaBufs(const DmaBufs&) = delete;
  DmaBufs& operator=(const DmaBufs&) = delete;

  /// Nothing where the system has no descriptor left.
  [[nodiscard]] std::optional<int> add(const DmaBuf& buffer);
  [[nodiscard]] std::optional<DmaBuf> find(int descriptor) const;
  /// 0, or an errno as close(2) answers.
  int close(int descriptor);

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, DmaBuf> by_inode_;
};

}  // namespace nobounce::fabric
