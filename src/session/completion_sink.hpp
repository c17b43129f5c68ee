// Who is told when an operation has ended, and the table that finds them by operation id.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/provider.hpp"
#include "system/host.hpp"

namespace nobounce::session {

class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  /// Called under the dispatcher's lock: must not wait, may submit.
  virtual void on_completion(const core::Completion& completion) = 0;
};

/// Hands completions of all providers to the sinks that wait for them. Thread-safe; reuses its
/// slots, so that a running session allocates nothing per operation.
class Dispatcher {
 public:
  Dispatcher(system::Clock& clock, std::vector<core::Provider*> providers)
      : clock_(&clock), providers_(std::move(providers)) {}

  /// The lock under which sinks are called; hold it to read what a sink gathers.
  [[nodiscard]] std::recursive_mutex& mutex() { return mutex_; }

  /// Reserves an id for one operation; its completion goes to `sink`. Under the lock.
  [[nodiscard]] core::OperationId expect(CompletionSink& sink);

  /// Polls every provider once and delivers what is ready. Returns how many were delivered. Reads
  /// the clock once, for all of them.
  std::size_t dispatch();
  /// The same for one provider. Under the lock.
  std::size_t dispatch(core::Provider& provider);
  /// The same by a reading of the clock of a moment ago. Reads it anew for what has ended.
  std::size_t dispatch(core::Provider& provider, std::uint64_t earlier_ns);

  [[nodiscard]] std::size_t outstanding() const { return outstanding_; }

 private:
  struct Slot {
    CompletionSink* sink = nullptr;
    std::uint32_t generation = 0;
  };
  /// When a look was taken; `read_ns` is 0 until somebody needs to know it exactly.
  struct Look {
    std::uint64_t about_ns = 0;
    std::uint64_t read_ns = 0;
  };
  std::size_t dispatch(core::Provider& provider, Look& look);
  void deliver(const core::Completion& completion);

  system::Clock* clock_;
  std::vector<core::Provider*> providers_;
  std::recursive_mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::size_t outstanding_ = 0;
  std::array<core::Completion, 16> ready_;  ///< filled and emptied under the lock
};

}  // namespace nobounce::session
