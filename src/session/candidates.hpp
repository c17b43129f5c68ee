// Candidates for a transfer: what each provider and the judge have to say of it.
#pragma once

#include <nobounce/route.hpp>
#include "session/pairs.hpp"
#include "session/session_state.hpp"

namespace nobounce::session {

/// What the provider itself says of the whole transfer.
[[nodiscard]] Candidate assessed(SessionState& state, ProviderKind kind, Carriage carriage,
                                 const Place& source, const Place& target);

/// The findings of the judge (from facts), of the provider (from its own state) and of an earlier
/// probe, together. `link` becomes what a direct transfer would travel over.
[[nodiscard]] Candidate storage_candidate(SessionState& state, const FileRange& range,
                                          const GpuMemory& memory, const Place& source,
                                          const Place& target, Link& link);
[[nodiscard]] Candidate peer_candidate(SessionState& state, const GpuMemory& source,
                                       const GpuMemory& target, Link& link);

/// What adapters can do between memory of this process and a peer's. Joins the adapters of both
/// ends and registers the memory where that has not been tried yet.
[[nodiscard]] std::vector<Candidate> rdma_candidates(SessionState& state,
                                                     const RemoteMemory& remote, const Place& local,
                                                     const Place& source, const Place& target);

/// A drive that this session owns, and GPU or host memory.
[[nodiscard]] Candidate drive_candidate(SessionState& state, const Place& source,
                                        const Place& target, Link& link);

/// What bytes travel over between local memory and the adapters that a connection uses; none while
/// it uses none.
[[nodiscard]] Link adapter_link(SessionState& state, std::uint32_t peer, const Place& local);

/// Why a pair has no direct candidate at all, as a finding, so that the receipt can name it.
[[nodiscard]] Candidate no_direct_candidate(const SessionState& state, const Place& source,
                                            const Place& target);

}  // namespace nobounce::session
