// The probe of a drive that this session owns and a GPU: a page, compared by the owners of both
// ends.
#pragma once

#include <nobounce/place.hpp>
#include <nobounce/result.hpp>
#include "session/session_state.hpp"

namespace nobounce::session {

/// Drive -> GPU: what the GPU's owner reads back must be what the drive gives to host memory. Sent
/// as the transfer will be, into `memory`, which holds no more than a probe.
[[nodiscard]] Status probe_drive_read(SessionState& state, const BlockRange& range,
                                      const GpuMemory& memory);

/// GPU -> drive, into blocks that the transfer will overwrite. What lay there is put back if the
/// probe fails.
[[nodiscard]] Status probe_drive_write(SessionState& state, const BlockRange& range,
                                       const GpuMemory& memory);

}  // namespace nobounce::session
