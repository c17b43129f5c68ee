// The parts of a live host that no other host borrows.
#pragma once

#include <memory>

#include "system/host.hpp"

namespace nobounce::system {

/// Host memory; asks `host` for CUDA when memory is to be pinned. `host` must outlive it.
[[nodiscard]] std::unique_ptr<Memory> make_live_memory(Host& host);
[[nodiscard]] std::unique_ptr<Environment> make_live_environment();

}  // namespace nobounce::system
