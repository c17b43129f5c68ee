// Doorbell queues: a running kernel reads and writes a drive by itself, and rings for it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <nobounce/device/nvme_queue.hpp>
#include <nobounce/place.hpp>
#include <nobounce/result.hpp>
#include <nobounce/session.hpp>
#include <nobounce/transfer.hpp>

namespace nobounce {

namespace session {
struct DoorbellQueueState;
}

struct DoorbellOptions {
  std::uint32_t tokens = 32;   ///< requests under way at once
  std::uint32_t entries = 16;  ///< of the submission queue; a power of two
};

/// A pair of NVMe queues in GPU memory, whose doorbells a kernel on that GPU rings: no CPU takes
/// part in a request. Its receipt says `direct`, issuer kernel, poster gpu.
///
/// There is no way round: where the GPU cannot reach the drive's registers
/// (async.doorbell_unmapped), or the drive the GPU's memory (nvme.peer_unmapped), none is opened.
/// Nor where the GPU is not known to order what a drive writes (async.ordering_unproven): a kernel
/// would see a completion before its bytes.
class DoorbellQueue {
 public:
  /// `drive` is a part of an OwnedDrive, `memory` a part of a Region in GPU memory: requests name
  /// bytes in them. Both must outlive the queue.
  [[nodiscard]] static Result<DoorbellQueue> open(Session& session, const Place& drive,
                                                  const Place& memory,
                                                  const DoorbellOptions& options = {});
  explicit DoorbellQueue(std::unique_ptr<session::DoorbellQueueState> state);
  DoorbellQueue(DoorbellQueue&&) noexcept;
  DoorbellQueue& operator=(DoorbellQueue&&) noexcept;
  /// Closes it, if nobody has.
  ~DoorbellQueue();

  /// What a kernel is given: queue<Platform>() of it makes an NvmeProducer.
  [[nodiscard]] const device::NvmeQueueSet& queue() const;
  /// Makes kernels stop asking.
  void stop();
  /// End the kernels first. One receipt for all reads that a kernel saw the end of; an error if any
  /// of them failed or was still under way, or if the queue was lost meanwhile. `requested_bytes`
  /// are those that arrived and those that were under way.
  [[nodiscard]] Outcome close();
  /// After close: the same for all writes. Empty where no kernel wrote.
  [[nodiscard]] const std::optional<Outcome>& written() const;

 private:
  std::unique_ptr<session::DoorbellQueueState> state_;
};

}  // namespace nobounce
