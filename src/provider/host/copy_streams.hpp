// The streams of the host provider: one per GPU and direction.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <nobounce/place.hpp>
#include <nobounce/result.hpp>
#include "system/cuda_contexts.hpp"

namespace nobounce::provider::host {

enum class CopyKind : std::uint8_t { to_gpu, to_host, inside_gpu };

struct CopyStream {
  std::uint32_t gpu = 0;
  CopyKind kind = CopyKind::to_gpu;
  system::cuda::CUcontext context = nullptr;
  system::cuda::CUstream stream = nullptr;
  std::vector<system::cuda::CUevent> free_events;
  std::uint32_t in_flight = 0;
  bool broken = false;  ///< a copy failed or hangs: nothing new is put on it
};

/// A copy that was handed to the driver. Without event (recording it failed) the stream itself is
/// asked.
struct CopyInFlight {
  CopyStream* on = nullptr;
  system::cuda::CUevent event = nullptr;
};

enum class Landing : std::uint8_t { flying, landed, failed };

/// Where a copy starts and ends.
struct CopyEnds {
  std::byte* host = nullptr;  ///< for to_gpu and to_host
  DevicePointer gpu_source;   ///< for to_host and inside_gpu
  DevicePointer gpu_target;   ///< for to_gpu and inside_gpu
};

/// Not thread-safe: the provider's lock guards it.
class CopyStreams {
 public:
  explicit CopyStreams(system::CudaContexts& contexts) : contexts_(contexts) {}
  CopyStreams(const CopyStreams&) = delete;
  CopyStreams& operator=(const CopyStreams&) = delete;

  [[nodiscard]] Result<CopyInFlight> start(std::uint32_t gpu, CopyKind kind, const CopyEnds& ends,
                                           std::uint64_t length_bytes);
  /// Once the copy is not flying it is over and `copy` is reset; `error` is set when it failed.
  [[nodiscard]] Landing look(CopyInFlight& copy, std::optional<Error>& error);
  /// Gives streams and events back. False if some had to be left because a copy hangs.
  bool release();

 private:
  [[nodiscard]] Result<CopyStream*> find(std::uint32_t gpu, CopyKind kind);
  void close(CopyStream& stream);

  system::CudaContexts& contexts_;
  std::vector<std::unique_ptr<CopyStream>> streams_;
};

}  // namespace nobounce::provider::host
