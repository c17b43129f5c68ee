// Ordered pairs of devices whose direct path must be believed, and how places are named.
#pragma once

#include <optional>
#include <string>

#include "judge/peer.hpp"
#include "session/session_state.hpp"

namespace nobounce::session {

/// The pair whose direct path must be believed; empty where there is none (host memory, one GPU
/// with itself).
[[nodiscard]] std::optional<PairKey> pair_of(SessionState& state, const Place& source,
                                             const Place& target);

/// What is known of a pair so far; empty before its first probe.
[[nodiscard]] std::optional<Belief> belief_in(SessionState& state, const PairKey& pair);
void believe(SessionState& state, const PairKey& pair);
/// From now on the pair's direct path is a finding unmet; answers the cause that it carries.
/// `source`: what showed it.
Cause disbelieve(SessionState& state, const PairKey& pair, const Error& error, std::string source);

/// The question that judges an ordered pair of GPU places.
[[nodiscard]] judge::PeerQuestion peer_question(SessionState& state, const GpuMemory& source,
                                                const GpuMemory& target);

/// The kind of allocation of a region's memory.
[[nodiscard]] AllocationKind kind_of(SessionState& state, const GpuMemory& memory);

/// `gpu:0`, `file:/data/a.bin`, `host`.
[[nodiscard]] std::string place_text(const SessionState& state, const Place& place);

}  // namespace nobounce::session
