// Carries out a kernel's reads of an open file: through the page cache, into host memory.
#pragma once

#include <memory>

#include <nobounce/place.hpp>
#include "core/kernel_consumer.hpp"
#include "session/session_state.hpp"

namespace nobounce::session {

/// Offsets of requests count from the start of `file`, and may not leave it. The file must stay
/// open.
[[nodiscard]] Result<std::unique_ptr<core::KernelConsumer>> make_file_consumer(
    SessionState& state, const FileRange& file);

}  // namespace nobounce::session
