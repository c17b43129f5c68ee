// The arrays behind the bus: DRAM buffers with the bus's own alias beside the process's view, and
// sparse GPU memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <vector>

#include <nobounce/machine.hpp>
#include <nobounce/result.hpp>
#include "fabric/bus.hpp"
#include "fabric/bus_trap.hpp"

namespace nobounce::fabric {

/// A mapping of this process, unmapped with its last user.
class BusMapping {
 public:
  BusMapping() = default;
  /// `pages` are the mapping's; protection as mmap takes it. Null begin() where the system refuses
  /// (errno is set).
  static std::shared_ptr<BusMapping> of_file(int descriptor, std::uint64_t length_bytes,
                                             int protection);
  /// Addresses that nobody else gets, with nothing behind them: every touch faults.
  static std::shared_ptr<BusMapping> of_nothing(std::uint64_t length_bytes);
  ~BusMapping();
  BusMapping(const BusMapping&) = delete;
  BusMapping& operator=(const BusMapping&) = delete;
  [[nodiscard]] std::byte* begin() const { return begin_; }
  [[nodiscard]] std::uint64_t length_bytes() const { return length_bytes_; }

 private:
  std::byte* begin_ = nullptr;
  std::uint64_t length_bytes_ = 0;
};

/// Memory that a request found at an address.
struct BusMemory {
  std::byte* pointer = nullptr;      ///< the bus's own alias
  Extent extent;                     ///< as the ledger writes it
  std::optional<std::uint32_t> gpu;  ///< whose memory; empty: DRAM of node extent.space.index
  std::shared_ptr<const void> alive;
};

/// Host DRAM. Addresses are never given out twice. Thread-safe.
class BusDram {
 public:
  BusDram(const Machine& machine, BusTrap* trap);
  ~BusDram();

  [[nodiscard]] Result<DramBuffer> allocate(std::uint32_t node, std::uint64_t length_bytes,
                                            DramUse use);
  void free(const DramBuffer& buffer);
  [[nodiscard]] BusAddress address_of(const void* pointer) const;
  [[nodiscard]] std::optional<BusMemory> at(BusAddress address, std::uint64_t length_bytes) const;

 private:
  struct Buffer {
    DramBuffer pub;
    std::shared_ptr<BusMapping> alias;
    std::shared_ptr<BusMapping> view;
  };
  struct Node {
    std::uint64_t size_bytes = 0;
    std::uint64_t used_bytes = 0;
    std::uint64_t next_offset = 0;
  };
  mutable std::shared_mutex mutex_;
  std::vector<Node> nodes_;
  std::map<std::uint64_t, Buffer> by_address_;
  std::map<std::uintptr_t, std::uint64_t> by_view_;  ///< view's first byte -> address
  BusTrap* trap_;
};

/// One GPU's memory: an anonymous file that takes real memory only where it was written.
/// Thread-safe.
class BusVram {
 public:
  [[nodiscard]] static Result<std::unique_ptr<BusVram>> create(std::uint32_t gpu,
                                                               std::uint64_t size_bytes);
  ~BusVram();
  BusVram(const BusVram&) = delete;
  BusVram& operator=(const BusVram&) = delete;

  [[nodiscard]] DevicePointer base() const;
  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }
  [[nodiscard]] std::optional<BusMemory> at(std::uint64_t offset, std::uint64_t length_bytes) const;
  void mark_internal(std::uint64_t offset, std::uint64_t length_bytes, bool internal);
  void discard(std::uint64_t offset, std::uint64_t length_bytes);
  [[nodiscard]] std::span<const std::byte> mapping() const {
    return {mapping_->begin(), mapping_->length_bytes()};
  }

 private:
  BusVram() = default;
  std::uint32_t gpu_ = 0;
  std::uint64_t size_bytes_ = 0;
  int descriptor_ = -1;
  std::shared_ptr<BusMapping> mapping_;
  mutable std::shared_mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> internal_;  ///< begin -> end, disjoint
};

/// Where things lie in the one address space, and where device pointers do.
namespace layout {
inline constexpr unsigned node_shift = 46;
inline constexpr std::uint64_t nodes_max = 31;
inline constexpr std::uint64_t gpus_max = 64;
inline constexpr unsigned gpu_shift = 42;
inline constexpr std::uint64_t bar1_base = std::uint64_t{1} << 51;
/// Behind all BAR1 windows: the registers of drives.
inline constexpr std::uint64_t registers_base = bar1_base + (gpus_max << gpu_shift);
inline constexpr std::uint64_t process_base = std::uint64_t{1} << 52;
/// Not canonical on any processor with 4-level page tables: the CPU faults on it.
inline constexpr std::uint64_t vram_base = std::uint64_t{1} << 49;
/// Device addresses that stand for memory elsewhere begin behind all GPU memory.
inline constexpr std::uint64_t device_window_base = vram_base + (gpus_max << gpu_shift);
inline constexpr std::uint64_t device_window_end = std::uint64_t{1} << 50;
}  // namespace layout

}  // namespace nobounce::fabric
