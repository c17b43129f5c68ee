// What comes before a transfer starts: its plan, registered memory, a probed pair; and the outcome
// of one that never gets that far.
#pragma once

#include <limits>
#include <optional>

#include "session/planner.hpp"

namespace nobounce::session {

/// Plans, registers memory and probes the pair; plans again if the probe failed. A plan that was
/// made before is used again if all that it rests on reads the same now.
/// `confirmed`, for who begins it at once: what the direct provider confirmed a moment ago.
[[nodiscard]] Result<TransferPlan> prepare_transfer(
    SessionState& state, const Place& source, const Place& target, Policy policy,
    std::optional<core::Confirmed>* confirmed = nullptr);
/// The same for what begins later than it is asked for. The pair is probed in memory of the session
/// then, because others may use the places until their turn; refused where that cannot be.
[[nodiscard]] Result<TransferPlan> prepare_for_later(SessionState& state, const Place& source,
                                                     const Place& target, Policy policy);

/// The outcome of a transfer that could not even be planned. It counts as failed in the ledger.
[[nodiscard]] Outcome never_started(SessionState& state, const Place& source, const Place& target,
                                    Policy policy, Error error);

/// What one poll does for all transfers of a session.
inline void move_along(const SessionState& state) {
  if (state.dispatcher->dispatch() == 0) state.host.workers().give_way();
}

/// The time `from_now_ns` ahead, 0 for none. One that is too far away to be told is the last there
/// is.
[[nodiscard]] inline std::uint64_t time_ahead(const SessionState& state,
                                              std::uint64_t from_now_ns) {
  if (from_now_ns == 0) return 0;
  const std::uint64_t now_ns = state.host.clock().now_ns();
  const std::uint64_t most_ns = std::numeric_limits<std::uint64_t>::max() - now_ns;
  return now_ns + (from_now_ns < most_ns ? from_now_ns : most_ns);
}

}  // namespace nobounce::session
