// The streams of one reader: one per GPU and direction, with events for copies in flight.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <nobounce/result.hpp>
#include "system/cuda_contexts.hpp"
#include "system/host.hpp"

namespace nobounce::provider::staged {

enum class Direction : std::uint8_t { to_host, to_gpu };

/// A stream of a GPU's primary context for copies in one direction.
struct Lane {
  std::uint32_t gpu = 0;
  Direction direction = Direction::to_host;
  std::uint32_t numa = 0;
  system::cuda::CUcontext context = nullptr;
  system::cuda::CUstream stream = nullptr;
  std::vector<system::cuda::CUevent> free_events;
  std::uint32_t in_flight = 0;
  bool broken = false;  ///< a copy failed or hangs: nothing new is put on this stream
};

/// A copy that was handed to the driver. Without event (recording it failed) the stream itself is
/// asked.
struct CopyInFlight {
  Lane* lane = nullptr;
  system::cuda::CUevent event = nullptr;
  std::uint64_t started_ns = 0;
};

enum class Landing : std::uint8_t { flying, landed, failed };

/// Used by one reader; not thread-safe.
class GpuLanes {
 public:
  GpuLanes(system::Host& host, system::CudaContexts* contexts) : host_(host), contexts_(contexts) {}
  GpuLanes(const GpuLanes&) = delete;
  GpuLanes& operator=(const GpuLanes&) = delete;

  /// The lane, opened on first use and after the former one broke.
  [[nodiscard]] Result<Lane*> find(std::uint32_t gpu, Direction direction);
  [[nodiscard]] Result<CopyInFlight> copy_to_host(Lane& lane, std::byte* target,
                                                  DevicePointer source, std::uint64_t length_bytes);
  [[nodiscard]] Result<CopyInFlight> copy_to_gpu(Lane& lane, DevicePointer target,
                                                 const std::byte* source,
                                                 std::uint64_t length_bytes);
  /// How the copy stands. Once it is not flying it is over and `copy` is reset; `error` is set when
  /// it failed.
  [[nodiscard]] Landing look(CopyInFlight& copy, std::optional<Error>& error);
  /// Gives streams and events back. False if some had to be left because a copy hangs.
  bool release();

  /// The GPU's NUMA node as its PCI device says; 0 where that is unknown.
  [[nodiscard]] std::uint32_t numa_of(std::uint32_t gpu);

 private:
  [[nodiscard]] Result<CopyInFlight> launched(Lane& lane, system::cuda::CUresult code);
  void close(Lane& lane, const system::ContextGuard& guard);

  system::Host& host_;
  system::CudaContexts* contexts_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace nobounce::provider::staged
