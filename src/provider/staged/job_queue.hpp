// The work queue of the staged provider: hands out pieces, counts what arrived, keeps completions
// until polled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "provider/staged/job.hpp"

namespace nobounce::provider::staged {

/// Thread-safe; its one lock is held for a few instructions. Readers are numbered 0..63.
class JobQueue {
 public:
  explicit JobQueue(std::uint64_t slot_bytes) : slot_bytes_(slot_bytes) {}

  /// Takes a job in. Answers which parked readers should be woken: a bit mask, at most one per
  /// piece. They count as awake from now on.
  [[nodiscard]] std::uint64_t add(std::shared_ptr<Job> job);

  /// A job that fails before it starts: only its completion is queued.
  void refuse(core::OperationId id, Error error);

  struct Claim {
    std::optional<Piece> piece;
    bool completed = false;  ///< a late job ended on the way: its completion is ready
  };
  /// The next piece, of each job in turn. Late jobs are stopped on the way. Without work the reader
  /// is parked if it says that it may be, and will be named by a later add().
  [[nodiscard]] Claim claim(unsigned reader, bool may_park, std::uint64_t now_ns);

  /// Ends a piece. `arrived_bytes` are in the target; the first error of a job wins and stops it.
  /// True if a completion became ready.
  [[nodiscard]] bool finish(const Piece& piece, std::uint64_t arrived_bytes,
                            std::optional<Error> error);

  /// Stops jobs; true if a completion became ready.
  [[nodiscard]] bool cancel(core::OperationId id);
  [[nodiscard]] bool cancel_all();
  [[nodiscard]] bool expire(std::uint64_t now_ns);
  [[nodiscard]] bool fail_all(const Error& error);

  [[nodiscard]] std::size_t take(std::span<core::Completion> completions);
  [[nodiscard]] bool idle() const;  ///< no job is in flight; completions may wait to be polled
  [[nodiscard]] bool has_work() const;

 private:
  void stop(Job& job, Error error);
  [[nodiscard]] bool settle();  ///< moves ended jobs to the completions
  void expire_locked(std::uint64_t now_ns);
  [[nodiscard]] core::Completion completion_of(Job& job) const;

  const std::uint64_t slot_bytes_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Job>> active_;
  std::size_t turn_ = 0;  ///< index in active_ of the job whose turn it is
  std::uint64_t parked_ = 0;
  std::vector<core::Completion> completions_;
};

}  // namespace nobounce::provider::staged
