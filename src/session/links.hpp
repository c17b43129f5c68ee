// What a transfer travels over, directly and by way of host memory.
#pragma once

#include "session/session_state.hpp"

namespace nobounce::session {

/// The link of a transfer through bounce memory: the worse of its two halves. Bounce memory lies on
/// the GPU's own NUMA node (the target's, where both are GPUs). `none` where no device takes part.
[[nodiscard]] Link staged_link(SessionState& state, const Place& source, const Place& target);

[[nodiscard]] Link worse_link(Link one, Link other);

/// Where host memory lies. What nobody told us counts as node 0. Under regions_mutex.
[[nodiscard]] std::uint32_t node_of_region(const SessionState& state, const HostMemory& memory);

/// The link between two places without a stop in between.
[[nodiscard]] Link straight_link(SessionState& state, const Place& source, const Place& target);

}  // namespace nobounce::session
