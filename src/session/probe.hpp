// Before a pair of devices is believed, one small transfer is made and verified by the owner
// of the target.
#pragma once

#include <optional>

#include "session/planner.hpp"

namespace nobounce::session {

/// Probes the pair of a transfer once, if its route wants to use it. Returns whether a
/// probe has just failed, in which case the transfer must be planned again. Files too small to tell
/// anything are not probed. `in_own_memory`: not with the bytes of the transfer.
[[nodiscard]] bool probe_disproves(SessionState& state, const TransferPlan& plan,
                                   const Place& source, const Place& target, bool in_own_memory);

/// Whether the probe that is due cannot do without the bytes of the transfer itself.
[[nodiscard]] bool probe_would_touch(SessionState& state, const TransferPlan& plan,
                                     const Place& source, const Place& target);

/// Why the direct path that a plan wants is not believed any more; empty where nothing speaks
/// against it.
[[nodiscard]] std::optional<Cause> disproved(SessionState& state, const TransferPlan& plan,
                                             const Place& source, const Place& target);

/// 4 KiB of a GPU that the session keeps to its end. Under probe_mutex.
[[nodiscard]] Result<GpuMemory> probe_memory(SessionState& state, std::uint32_t gpu);

}  // namespace nobounce::session
