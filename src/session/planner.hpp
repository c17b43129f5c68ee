// From two places to a route: candidates, their findings, and the choice the policy allows.
#pragma once

#include <nobounce/route.hpp>
#include "session/session_state.hpp"

namespace nobounce::session {

struct TransferPlan {
  Route route;
  DeviceRef source;
  DeviceRef target;
  Link staged_link =
      Link::none;  ///< also where the route is direct: a failed piece is moved that way
};

/// Moves nothing. Origin input for places that do not exist or do not match.
[[nodiscard]] Result<TransferPlan> plan_transfer(SessionState& state, const Place& source,
                                                 const Place& target, Policy policy);

/// "move 4096 bytes from file:/data/a.bin to gpu:0", for errors.
[[nodiscard]] std::string describe_transfer(const SessionState& state, const Place& source,
                                            const Place& target);

}  // namespace nobounce::session
