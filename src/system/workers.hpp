// Workers: everything that runs beside the caller. Threads on a live host; one seeded thread on a
// deterministic one.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include <nobounce/result.hpp>
#include "core/function_ref.hpp"

namespace nobounce::system {

/// What a worker says after a step.
struct Step {
  enum class Kind : std::uint8_t { busy, idle, done };
  Kind kind = Kind::busy;
  std::uint64_t until_ns = 0;  ///< idle: step again at this time at the latest (0: only when woken)

  [[nodiscard]] static Step busy() { return {Kind::busy, 0}; }
  [[nodiscard]] static Step idle_until(std::uint64_t time_ns) { return {Kind::idle, time_ns}; }
  [[nodiscard]] static Step idle() { return {Kind::idle, 0}; }
  [[nodiscard]] static Step done() { return {Kind::done, 0}; }
};

/// A state machine. `step` does a bounded piece of work (one blocking read or write at most) and
/// never waits for another worker by itself: it answers idle instead.
class Worker {
 public:
  virtual ~Worker() = default;
  [[nodiscard]] virtual Step step() = 0;
};

using WorkerId = std::uint64_t;

class Workers {
 public:
  virtual ~Workers() = default;
  /// Starts stepping. The worker must outlive its stop().
  [[nodiscard]] virtual Result<WorkerId> start(Worker& worker, std::string_view name) = 0;
  /// Makes an idle worker step again soon. Cheap; callable from any thread, also from a step.
  virtual void wake(WorkerId id) = 0;
  /// Returns when the worker will never step again. Not callable from its own step.
  virtual void stop(WorkerId id) = 0;
  /// Waits until `ready()` is true or the clock reaches the deadline (0: no deadline); returns the
  /// last `ready()`. A deterministic host steps workers, engines and timers meanwhile. `ready` must
  /// be cheap and must not wait.
  [[nodiscard]] virtual bool wait(core::FunctionRef<bool()> ready, std::uint64_t deadline_ns) = 0;
  /// The same for what ends soon and tells nobody: looks without a pause for about `closely_ns`,
  /// and then at short intervals.
  [[nodiscard]] virtual bool wait_closely(core::FunctionRef<bool()> ready,
                                          std::uint64_t deadline_ns, std::uint64_t closely_ns) {
    (void)closely_ns;
    return wait(ready, deadline_ns);
  }
  /// For callers that poll instead of waiting: a host whose workers share the caller's thread steps
  /// one of them. Never blocks.
  virtual void give_way() {}
  /// Something changed: waiters look again. Cheap.
  virtual void notify() = 0;
  /// How many workers run at once at best (CPUs; 1 on a deterministic host).
  [[nodiscard]] virtual unsigned concurrency() const = 0;
};

}  // namespace nobounce::system
