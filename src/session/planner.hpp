// From two places to a route: candidates, their findings, and the choice the policy allows.
#pragma once

#include <nobounce/route.hpp>
#include "route/choose.hpp"
#include "session/plan_cache.hpp"
#include "session/session_state.hpp"

namespace nobounce::session {

struct TransferPlan {
  std::shared_ptr<const CommonPlan> common;
  route::Cut cut;  ///< no segments if refused
};

/// The whole route, for those who ask what it is.
[[nodiscard]] Route whole_route(const TransferPlan& plan);

/// Moves nothing, and remembers nothing. Origin input for places that do not exist or do not match.
[[nodiscard]] Result<TransferPlan> plan_transfer(SessionState& state, const Place& source,
                                                 const Place& target, Policy policy);

/// How the places are cut for a plan that they share with others.
[[nodiscard]] TransferPlan plan_of(std::shared_ptr<const CommonPlan> common, const Place& source,
                                   const Place& target);

/// What a plan for these places depends on, read now; empty where it must be planned anew, also
/// because something is wrong with the places.
struct PlanQuestion {
  PlanKey key;
  core::Confirmed confirmed;
};
[[nodiscard]] std::optional<PlanQuestion> plan_question(SessionState& state, const Place& source,
                                                        const Place& target, Policy policy);
[[nodiscard]] Lessons lessons_of(const SessionState& state);

/// What a receipt calls the device of a place, which need not exist.
[[nodiscard]] DeviceRef device_at(const SessionState& state, const Place& place);

/// "move 4096 bytes from file:/data/a.bin to gpu:0", for errors.
[[nodiscard]] std::string describe_transfer(const SessionState& state, const Place& source,
                                            const Place& target);

}  // namespace nobounce::session
