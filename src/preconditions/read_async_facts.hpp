// What a GPU's driver says of stream memory operations and of inbound writes.
#pragma once

#include <cstdint>

#include <nobounce/machine.hpp>
#include "core/async_facts.hpp"
#include "system/host.hpp"

namespace nobounce::preconditions {

/// Asks CUDA only where the caller has initialised it.
[[nodiscard]] core::AsyncFacts read_async_facts(system::Host& host, const Machine& machine,
                                                std::uint32_t gpu, bool may_ask_cuda);

}  // namespace nobounce::preconditions
