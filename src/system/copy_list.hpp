// Copies by the GPUs' copy engines: each operation piece by piece, so that a deadline or a cancel
// can stop it between. A copy that hangs past its deadline is given up on, and looked at until it
// lands.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/provider.hpp"
#include "system/copy_streams.hpp"
#include "system/stray_copies.hpp"

namespace nobounce::system {

/// What a provider adds to an operation that it wants copied.
struct CopyOrder {
  CopyLane lane;
  Link link = Link::none;   ///< what the bytes travel over
  bool by_address = false;  ///< as CopyEnds::by_address
  /// As CopyEnds::current, of the thread that adds the operation.
  cuda::CUcontext current = nullptr;
  const char* attempted = "copy";  ///< for errors; must outlive the list
};

/// Thread-safe; its lock is held while the driver is asked about copies, never while one is waited
/// for.
class CopyList {
 public:
  explicit CopyList(CudaContexts& contexts) : streams_(contexts) {}

  void add(const core::Operation& operation, const CopyOrder& order, std::uint64_t now_ns);
  void refuse(core::OperationId id, Error error);
  /// Looks at what runs and starts what can be started. True if a completion became ready.
  [[nodiscard]] bool advance(std::uint64_t now_ns);
  /// The same, and hands out what is ready.
  [[nodiscard]] std::size_t poll(std::uint64_t now_ns, std::span<core::Completion> completions);
  /// As Provider::rest.
  void rest(core::OperationId id);
  /// The copy that was just added may not have gone directly: what it moves counts as `carriage`.
  void cancel(core::OperationId id);
  void cancel_all();
  [[nodiscard]] bool idle() const;
  /// When to look again where nobody polls; 0: there is nothing to look at.
  [[nodiscard]] std::uint64_t look_again_ns(std::uint64_t now_ns) const;
  /// Whether copies have outlived their operations since it was last asked.
  [[nodiscard]] bool new_strays() {
    return new_strays_.load(std::memory_order_relaxed) && new_strays_.exchange(false);
  }
  bool release();

 private:
  struct Job {
    core::Operation operation;
    CopyOrder order;
    std::uint64_t arrived_bytes = 0;
    std::uint64_t piece_bytes = 0;  ///< in flight
    std::uint64_t started_ns = 0;   ///< of the piece in flight
    std::uint64_t looked_ns = 0;    ///< when it was last looked at
    CopyInFlight copy;
    bool stopped = false;
    bool cancelled = false;
    std::uint64_t give_up_ns = 0;  ///< on the copy of a cancelled one; 0: not known yet
    std::optional<Error> error;
  };

  struct Stray {
    CopyInFlight copy;
    StrayCopies::Landed landed;
  };

  void advance_all(std::uint64_t now_ns);
  void look_at_strays();
  void give_up_on(Job& job);
  [[nodiscard]] bool advance(Job& job, std::uint64_t now_ns);  ///< true: it has ended
  /// `current` as in CopyEnds.
  void launch(Job& job, std::uint64_t now_ns, cuda::CUcontext current);
  static void stop(Job& job, Cause cause, const char* detail);
  void complete(Job& job);

  mutable std::mutex mutex_;
  CopyStreams streams_;
  std::vector<Job> jobs_;
  std::vector<Stray> strays_;
  std::atomic<bool> new_strays_{false};
  std::vector<core::Completion> completions_;
};

}  // namespace nobounce::system
