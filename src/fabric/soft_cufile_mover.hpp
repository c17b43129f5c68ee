// How the libcufile model moves bytes: by the drive into the GPU's window, or by POSIX I/O and a
// copy.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <nobounce/machine.hpp>
#include <nobounce/units.hpp>

#include "fabric/bus.hpp"
#include "fabric/soft_gpu.hpp"

namespace nobounce::fabric {

/// One request: a part of a file and the memory it goes to or comes from.
struct CufileMove {
  Medium medium;
  FileOffset offset;
  std::uint64_t length_bytes = 0;     ///< that the file has, of what was asked for
  std::uint64_t requested_bytes = 0;  ///< that were asked for: decides the alignment
  bool writing = false;               ///< memory -> file
  bool on_gpu = true;
  std::uint32_t gpu = 0;
  DevicePointer pointer;             ///< GPU memory
  std::optional<BusAddress> window;  ///< where BAR1 shows `pointer`, if it is registered
  BusAddress host;                   ///< host memory, where not on_gpu
};

struct CufileMoved {
  std::uint64_t bytes = 0;  ///< that arrived, in order from the start
  int errno_value = 0;      ///< what stopped it, or 0: the end of the file or of the request
  bool unaligned = false;   ///< part of it was bounced because of its alignment
};

/// Owns the library's internal memory: a bounce cache in each GPU, staging buffers in the host.
/// Thread-safe; all references must outlive it.
class CufileMover {
 public:
  static constexpr std::uint64_t alignment = 4096;
  static constexpr std::uint64_t staging_bytes = 1u << 20;

  CufileMover(Bus& bus, const Machine& machine, GpuAllocations& allocations);
  ~CufileMover();
  CufileMover(const CufileMover&) = delete;
  CufileMover& operator=(const CufileMover&) = delete;

  /// Drive <-> BAR1 window, in pieces of at most `piece_bytes`. Requests that are unaligned or not
  /// registered go through the bounce cache of `cache_bytes` inside the GPU, and of an aligned one
  /// the part of a block at the end of the file.
  [[nodiscard]] CufileMoved move_direct(const CufileMove& move, std::uint64_t piece_bytes,
                                        std::uint64_t cache_bytes);
  /// Drive -> page cache -> staging buffer -> GPU, or the way back.
  [[nodiscard]] CufileMoved move_staged(const CufileMove& move);
  /// What the library takes for aligned.
  [[nodiscard]] bool takes_for_aligned(const CufileMove& move) const;
  /// Buffered I/O on host memory.
  [[nodiscard]] CufileMoved move_host(const CufileMove& move);

  /// Gives the internal memory back (the driver closes). No request may be running.
  void release();

  /// Offset, requested length and memory address are multiples of 4 KiB.
  [[nodiscard]] static bool aligned(const CufileMove& move);

 private:
  struct BounceCache {
    std::mutex mutex;  ///< held while a request uses the cache
    std::optional<DevicePointer> base;
    BusAddress window;
    std::uint64_t length_bytes = 0;
  };

  [[nodiscard]] CufileMoved move_window(const CufileMove& move, std::uint64_t length_bytes,
                                        std::uint64_t piece_bytes);
  [[nodiscard]] CufileMoved move_bounced(const CufileMove& move, std::uint64_t done_bytes,
                                         std::uint64_t cache_bytes);
  /// One piece through the cache; `at` counts from the start of the request.
  [[nodiscard]] CufileMoved bounce_in(const CufileMove& move, std::uint64_t at, BounceCache& cache);
  [[nodiscard]] CufileMoved bounce_out(const CufileMove& move, std::uint64_t at,
                                       BounceCache& cache);
  [[nodiscard]] int fill_cache(BounceCache& cache, std::uint32_t gpu, std::uint64_t length_bytes);
  [[nodiscard]] std::optional<DramBuffer> take_staging(std::uint32_t node);
  void give_staging(const DramBuffer& buffer);

  Bus& bus_;
  const Machine& machine_;
  GpuAllocations& allocations_;
  std::vector<std::unique_ptr<BounceCache>> caches_;  ///< by GPU
  std::mutex staging_mutex_;
  std::vector<DramBuffer> staging_;
};

}  // namespace nobounce::fabric
