// Transfers that a stream or a running kernel orders, instead of the host.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include <nobounce/device/queue_set.hpp>
#include <nobounce/place.hpp>
#include <nobounce/result.hpp>
#include <nobounce/session.hpp>
#include <nobounce/transfer.hpp>

namespace nobounce {

namespace async {
struct StreamOrder;
struct StreamsState;
struct KernelQueueState;
}  // namespace async

/// A CUstream or cudaStream_t. No default stream: what waits there holds everybody up.
using StreamHandle = void*;

/// Why later work of a stream sees the bytes that a transfer wrote.
enum class Visibility : std::uint8_t {
  native,           ///< the GPU orders them itself
  flush_by_stream,  ///< the stream flushes inbound writes after its wait
  flush_by_host,    ///< a worker flushes inbound writes before it ends the wait
  refused,          ///< nobody promises it: such a transfer is not taken
};
[[nodiscard]] std::string_view to_string(Visibility value);

struct StreamOptions {
  Policy policy = Policy::direct_preferred;
  /// From the moment that the stream reaches the transfer. Then it is cancelled, and the stream's
  /// wait ends with an error status. No wait is without one: 0 is the default.
  std::uint64_t deadline_ns = 30'000'000'000;
};

/// Move-only handle. Dropping it changes nothing: the transfer goes on.
class StreamTransfer {
 public:
  explicit StreamTransfer(std::shared_ptr<async::StreamOrder> order);
  StreamTransfer(StreamTransfer&&) noexcept;
  StreamTransfer& operator=(StreamTransfer&&) noexcept;
  ~StreamTransfer();

  /// Waits until the stream may go on, at most `timeout_ns` (0: no limit). Needs the stream to get
  /// there.
  [[nodiscard]] std::optional<Outcome> wait(std::uint64_t timeout_ns = 0);
  [[nodiscard]] std::optional<Outcome> poll();
  [[nodiscard]] Visibility visibility() const;
  /// For kernels behind the transfer: a word, (sequence << 16 | code), code 0 for success, as
  /// device::completion_word. It tells of the stream's last transfer.
  [[nodiscard]] DevicePointer status_word() const;
  [[nodiscard]] std::uint64_t sequence() const;

 private:
  std::shared_ptr<async::StreamOrder> order_;
};

/// Stream-ordered transfers of a session. Thread-safe. The session must outlive it, places and
/// streams what was enqueued on them. Destroying it ends what has not been reached as cancelled.
/// What cannot be stopped within ten seconds is given up: its bytes may still arrive, and the
/// session keeps the regions and files that it uses, also when their handles are dropped, until it
/// has ended. Memory that was adopted must stay as it is for as long.
class Streams {
 public:
  /// Makes all that is otherwise made at first use, because some of that waits for streams that
  /// wait: open it before any does. Origin session with cause
  /// async.stream_memory_ops_unavailable where a GPU cannot.
  [[nodiscard]] static Result<Streams> open(Session& session);
  explicit Streams(std::unique_ptr<async::StreamsState> state);
  Streams(Streams&&) noexcept;
  Streams& operator=(Streams&&) noexcept;
  ~Streams();

  /// Returns at once. The transfer starts when the stream reaches it, and later work of the stream
  /// waits for it; the host waits for nothing. Refused: a stream that is being captured, a path
  /// that would need a kernel of its own, bytes whose order nobody promises, a pair whose first
  /// probe would need the transfer's own bytes, more than 256 of one stream that have not ended.
  /// Nothing is put on the stream then.
  [[nodiscard]] Result<StreamTransfer> enqueue(StreamHandle stream, const Place& source,
                                               const Place& target,
                                               const StreamOptions& options = {});

 private:
  std::unique_ptr<async::StreamsState> state_;
};

struct KernelQueueOptions {
  std::uint32_t gpu = 0;
  std::uint32_t tokens = 64;          ///< requests under way at once, each with a buffer of its own
  std::uint32_t buffer_bytes = 4096;  ///< a multiple of 4096
  std::uint32_t proxies = 0;  ///< workers, each with a queue; 0: one less than there are CPUs
  Policy policy = Policy::direct_preferred;
  std::uint64_t stall_ns = 10'000'000'000;  ///< a request that takes longer fails the queue
};

/// What the proxies of a queue have done so far.
struct KernelQueueCounts {
  std::uint64_t requests = 0;
  std::uint64_t failed = 0;  ///< requests that ended with an error
  std::uint64_t arrived_bytes = 0;
  std::uint64_t system_calls = 0;
  std::uint64_t wake_ups = 0;  ///< of proxies that had gone to sleep
  std::uint16_t last_code = 0;
};

/// Reads of a file that kernels ask for. The mode by name: CPU threads, the proxies, take the
/// requests from the queue, read into the buffers in pinned host memory, and say so there; the
/// kernel fetches the bytes over the bus. Its receipt says `staged`, issuer kernel, poster
/// cpu_proxy.
///
/// Load modules and launch every kernel once before: neither the proxies nor the queue call the
/// driver until close.
class KernelQueue {
 public:
  /// Origin policy under direct_required: this mode stages.
  [[nodiscard]] static Result<KernelQueue> open(Session& session, const Place& file,
                                                const KernelQueueOptions& options = {});
  explicit KernelQueue(std::unique_ptr<async::KernelQueueState> state);
  KernelQueue(KernelQueue&&) noexcept;
  KernelQueue& operator=(KernelQueue&&) noexcept;
  /// Closes it, if nobody has.
  ~KernelQueue();

  /// What a kernel is given.
  [[nodiscard]] const device::QueueSet& queues() const;
  [[nodiscard]] KernelQueueCounts counts() const;
  /// End the kernels first: what they still ask for is answered as stopped. One receipt for all
  /// requests of the queue; an error if any of them failed, if a slot that was claimed has not been
  /// filled by the deadline, or if a read has not come back a second after it. The File must stay
  /// open until then. The destructor waits 30 s for such a read; then the session keeps the queue,
  /// and the file, also when its handle is dropped, until the read has come back.
  [[nodiscard]] Outcome close(std::uint64_t timeout_ns = 5'000'000'000);

 private:
  std::unique_ptr<async::KernelQueueState> state_;
};

}  // namespace nobounce
