// What the drivers say about each ordered pair of GPUs.
#pragma once

#include <vector>

#include <nobounce/machine.hpp>
#include "core/facts.hpp"
#include "system/host.hpp"

namespace nobounce::preconditions {

/// One entry per ordered pair of the machine's GPUs. CUDA is asked only where the caller has
/// initialised it. Enables nothing.
[[nodiscard]] std::vector<core::PeerFacts> read_peer_facts(system::Host& host,
                                                           const Machine& machine,
                                                           bool may_ask_cuda);

}  // namespace nobounce::preconditions
