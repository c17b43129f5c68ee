// The GPUs of a software machine as their driver sees them: allocations, pinned host ranges, copy
// engines with streams.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <nobounce/place.hpp>
#include <nobounce/result.hpp>
#include <nobounce/units.hpp>
#include "fabric/bus.hpp"

namespace nobounce::fabric {

/// One allocation, device or host, as cuPointerGetAttribute knows it.
struct GpuAllocation {
  DevicePointer base;  ///< for host memory: the process's pointer
  std::uint64_t length_bytes = 0;
  std::uint32_t gpu = 0;  ///< of device memory
  AllocationKind kind = AllocationKind::device;
  bool internal = false;  ///< the driver's own; invisible to pointer queries of the user
};

/// Allocations of all GPUs, and the host memory that CUDA knows. Thread-safe.
class GpuAllocations {
 public:
  explicit GpuAllocations(Bus& bus);
  ~GpuAllocations();
  GpuAllocations(const GpuAllocations&) = delete;
  GpuAllocations& operator=(const GpuAllocations&) = delete;

  /// First fit: 512-byte alignment inside 2 MiB slabs for less than 1 MiB, else 2 MiB alignment.
  /// Nothing where it does not fit. `internal` marks the range as the driver's own for the ledger.
  [[nodiscard]] std::optional<DevicePointer> allocate(std::uint32_t gpu, std::uint64_t length_bytes,
                                                      bool internal = false);
  /// Base addresses only; false for anything else.
  bool free(DevicePointer base);
  /// All of a GPU's but the driver's own, as when its context goes.
  void free_all(std::uint32_t gpu);
  /// The device allocation that holds that address.
  [[nodiscard]] std::optional<GpuAllocation> find(DevicePointer address) const;
  [[nodiscard]] std::uint64_t used_bytes(std::uint32_t gpu) const;

  /// Host ranges: pinned (allocated or registered) and managed. False if any byte is pinned
  /// already.
  bool add_host(const void* base, std::uint64_t length_bytes, AllocationKind kind);
  bool remove_host(const void* base);
  [[nodiscard]] std::optional<GpuAllocation> find_host(const void* address) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nobounce::fabric
