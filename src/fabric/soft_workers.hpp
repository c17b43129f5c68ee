// Workers of a software machine, and beside them the engines of its devices: on threads, or on one
// thread in an order drawn from a seed.
#pragma once

#include <memory>
#include <string_view>

#include "core/function_ref.hpp"
#include "fabric/soft_clock.hpp"
#include "fabric/soft_random.hpp"
#include "system/workers.hpp"

namespace nobounce::fabric {

class SoftWorkers : public system::Workers {
 public:
  /// An engine is a worker of a device: it is stepped wherever anything is waited for, also inside
  /// a worker's step. Stopped and woken like any worker. Aborts where the system has no thread
  /// left.
  [[nodiscard]] virtual system::WorkerId start_engine(system::Worker& engine,
                                                      std::string_view name) = 0;
  /// Waits for something that engines alone bring about. `what` names it if it never can come.
  virtual void wait_for_engines(core::FunctionRef<bool()> ready, std::string_view what) = 0;
  /// The same where workers may have to do their part first.
  virtual void wait_for_all(core::FunctionRef<bool()> ready, std::string_view what) = 0;
};

/// One thread: all calls must come from the thread that waits, or from steps. Order and time depend
/// on the seed alone. Aborts, naming who waits for what, when nothing can make progress and there
/// is no deadline: a hang is a bug.
[[nodiscard]] std::unique_ptr<SoftWorkers> make_deterministic_workers(SoftClock& clock,
                                                                      std::uint64_t seed);

/// A thread for each worker and engine.
[[nodiscard]] std::unique_ptr<SoftWorkers> make_threaded_soft_workers(system::Clock& clock);

}  // namespace nobounce::fabric
