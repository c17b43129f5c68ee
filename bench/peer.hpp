// The parts of the benchmark of GPU pairs.
#pragma once

#include <string>

#include "bench/peer_pair.hpp"
#include "core/json.hpp"
#include "system/host.hpp"

namespace nobounce::bench {

/// The driver's small calls, with the pair's peer access on and off.
[[nodiscard]] core::Json peer_calls(const test::CudaDriver& driver, system::Cuda& api,
                                    const Pair& pair);

/// Memory that this process exports, copied by another process: the plain call and a session there.
[[nodiscard]] core::Json peer_in_two_processes(const test::CudaDriver& driver, int source,
                                               int target, std::string& failure);

/// Both directions at once, by two threads: plain calls, and one session.
[[nodiscard]] core::Json peer_both_ways(const test::CudaDriver& driver, system::Host& host,
                                        std::string& failure);

}  // namespace nobounce::bench
