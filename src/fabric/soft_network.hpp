// The network of a deterministic software machine: connections inside one process, in an order that
// its seed reproduces.
#pragma once

#include <cstdint>
#include <memory>

#include "system/network.hpp"

namespace nobounce::fabric {

/// Connects what listens and what connects on this machine; there is no other. Reads and writes
/// move as many bytes as the seed says, so that frames arrive in pieces. Waits never sleep.
[[nodiscard]] std::unique_ptr<system::Network> make_in_process_network(std::uint64_t seed);

}  // namespace nobounce::fabric
