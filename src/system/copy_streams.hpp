// Streams for copies by the GPUs' copy engines: one per GPU and direction, or per ordered pair of
// GPUs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <nobounce/place.hpp>
#include <nobounce/result.hpp>
#include "system/cuda_contexts.hpp"

namespace nobounce::system {

enum class CopyKind : std::uint8_t { to_gpu, to_host, inside_gpu, to_peer };

/// What a stream is for. `peer` counts for to_peer only, which runs on the source's own stream.
struct CopyLane {
  std::uint32_t gpu = 0;
  CopyKind kind = CopyKind::to_gpu;
  std::uint32_t peer = 0;
  bool operator==(const CopyLane&) const = default;
};

struct CopyStream {
  CopyLane lane;
  cuda::CUcontext context = nullptr;
  cuda::CUcontext peer_context = nullptr;  ///< for to_peer
  cuda::CUstream stream = nullptr;
  /// Recorded behind a copy when another one follows it. The last copy of a stream needs none: it
  /// has landed when the stream is empty.
  struct Mark {
    std::uint64_t behind = 0;
    cuda::CUevent event = nullptr;
  };
  std::vector<Mark> marks;  ///< of copies in flight, in order
  std::vector<cuda::CUevent> free_events;
  std::uint64_t last = 0;     ///< number of the last copy that was put on it
  std::uint64_t landed = 0;   ///< copies up to this one are known to have landed
  std::uint32_t resting = 0;  ///< threads that wait in the driver: the stream must stay
  std::uint32_t in_flight = 0;
  bool broken = false;  ///< a copy failed or hangs: nothing new is put on it
  /// What a thread that waited for copies up to `failed` was told.
  cuda::CUresult failure = cuda::success;
  std::uint64_t failed = 0;
};

/// A copy that was handed to the driver. Copies of a stream land in order.
struct CopyInFlight {
  CopyStream* on = nullptr;
  std::uint64_t number = 0;
};

enum class Landing : std::uint8_t { flying, landed, failed };

/// Where a copy starts and ends.
struct CopyEnds {
  std::byte* host = nullptr;  ///< for to_gpu and to_host
  DevicePointer gpu_source;   ///< for all but to_gpu
  DevicePointer gpu_target;   ///< for all but to_host
  /// For to_peer: the driver finds out by the addresses whose memory it is, which needs no handle
  /// of the peer's context. For memory that was just found to live, of cuMemAlloc on both ends.
  bool by_address = false;
  /// What the calling thread has current, where that is known: no need to make it current then.
  cuda::CUcontext current = nullptr;
};

/// Not thread-safe: its owner's lock guards it.
class CopyStreams {
 public:
  explicit CopyStreams(CudaContexts& contexts) : contexts_(contexts) {}
  CopyStreams(const CopyStreams&) = delete;
  CopyStreams& operator=(const CopyStreams&) = delete;

  [[nodiscard]] Result<CopyInFlight> start(const CopyLane& lane, const CopyEnds& ends,
                                           std::uint64_t length_bytes);
  /// Once the copy is not flying it is over and `copy` is reset; `error` is set when it failed.
  [[nodiscard]] Landing look(CopyInFlight& copy, std::optional<Error>& error);
  /// Waiting in the driver for all that is on the copy's stream: begin and end under the owner's
  /// lock, wait without.
  struct Rest {
    CopyStream* on = nullptr;
    std::uint64_t last = 0;
    cuda::CUresult code = cuda::success;
  };
  [[nodiscard]] static Rest begin_rest(const CopyInFlight& copy);
  void wait(Rest& rest) const;
  static void end_rest(const Rest& rest);
  /// Gives streams and events back. False if some had to be left because a copy hangs.
  bool release();
  [[nodiscard]] StrayCopies& strays() const { return contexts_.strays(); }

 private:
  [[nodiscard]] Result<CopyStream*> find(const CopyLane& lane);
  void mark_last(CopyStream& on);
  static void forget_marks(CopyStream& on);
  void close(CopyStream& stream, const ContextGuard& guard);

  CudaContexts& contexts_;
  std::vector<std::unique_ptr<CopyStream>> streams_;
};

}  // namespace nobounce::system
