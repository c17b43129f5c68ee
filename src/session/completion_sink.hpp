// Who is told when an operation has ended, and the table that finds them by operation id.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/provider.hpp"

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
  explicit Dispatcher(std::vector<core::Provider*> providers) : providers_(std::move(providers)) {}

  /// The lock under which sinks are called; hold it to read what a sink gathers.
  [[nodiscard]] std::recursive_mutex& mutex() { return mutex_; }

  /// Reserves an id for one operation; its completion goes to `sink`. Under the lock.
  [[nodiscard]] core::OperationId expect(CompletionSink& sink);

  /// Polls every provider once and delivers what is ready. Returns how many were delivered.
  std::size_t dispatch();
  /// The same for one provider. Under the lock.
  std::size_t dispatch(core::Provider& provider);

  [[nodiscard]] std::size_t outstanding() const { return outstanding_; }

 private:
  struct Slot {
    CompletionSink* sink = nullptr;
    std::uint32_t generation = 0;
  };
  void deliver(const core::Completion& completion);

  std::vector<core::Provider*> providers_;
  std::recursive_mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::size_t outstanding_ = 0;
  std::array<core::Completion, 16> ready_;  ///< filled and emptied under the lock
};

}  // namespace nobounce::session
