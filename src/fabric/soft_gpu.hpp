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
  std::uint32_t gpu = 0;  ///< of device memory: whose the driver says it is
  AllocationKind kind = AllocationKind::device;
  bool internal = false;     ///< the driver's own; invisible to pointer queries of the user
  bool hidden = false;       ///< no pointer of this process: behind mappings, or another process's
  bool pinnable = true;      ///< for other devices
  std::uint64_t source = 0;  ///< of a mapping: its allocation handle; of a pool's memory: the pool
  DevicePointer memory{};    ///< where device memory lies: `base`, but for mappings and imports
  std::uint64_t id = 0;      ///< no other allocation of the process has had it
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
  /// The same for memory that no pointer of this process names until it is mapped.
  [[nodiscard]] std::optional<DevicePointer> allocate_hidden(std::uint32_t gpu,
                                                             std::uint64_t length_bytes);
  /// The same for memory of a pool, which outlives contexts.
  [[nodiscard]] std::optional<DevicePointer> allocate_pooled(std::uint32_t gpu,
                                                             std::uint64_t length_bytes,
                                                             std::uint64_t pool);
  /// Base addresses only; false for anything else.
  bool free(DevicePointer base);
  /// What lives and dies with a GPU's context, as when that goes.
  void free_all(std::uint32_t gpu);
  /// Takes memory's pointer away; what lies there is freed by `free`.
  void hide(DevicePointer base);
  /// The device allocation that holds that address.
  [[nodiscard]] std::optional<GpuAllocation> find(DevicePointer address) const;
  /// Whether the allocation of that id still is, mapped or not.
  [[nodiscard]] bool alive(std::uint64_t id) const;

  /// Device addresses that stand for nothing yet, aligned to 2 MiB; nothing where they run out.
  [[nodiscard]] std::optional<DevicePointer> reserve_addresses(std::uint64_t length_bytes,
                                                               std::uint64_t alignment = 1);
  void release_addresses(DevicePointer base);
  /// Lets reserved addresses stand for memory, on the bus too.
  void add_mapping(const GpuAllocation& mapping);
  void remove_mapping(DevicePointer base);
  [[nodiscard]] std::uint64_t used_bytes(std::uint32_t gpu) const;

  /// Host ranges: pinned (allocated or registered) and managed, by the context of a GPU. False if
  /// any byte is pinned already.
  bool add_host(const void* base, std::uint64_t length_bytes, AllocationKind kind,
                std::uint32_t gpu = 0);
  bool remove_host(const void* base);
  [[nodiscard]] std::optional<GpuAllocation> find_host(const void* address) const;

 private:
  [[nodiscard]] std::optional<DevicePointer> take(GpuAllocation wanted);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nobounce::fabric
