// Counters of a software machine: the real process's CPU time, and a memory controller per NUMA
// node off the ledger.
#pragma once

#include <memory>

#include <nobounce/machine.hpp>

#include "fabric/bus.hpp"
#include "system/host.hpp"

namespace nobounce::fabric {

/// perf_event knows the PMUs uncore_imc_0 .. (one per node, none in a guest) with cas_count_read
/// and cas_count_write, in MiB since the first call for the event. `live` answers CPU time.
/// References must outlive the counters.
[[nodiscard]] std::unique_ptr<system::Counters> make_soft_counters(
    const Bus& bus, const Machine& machine, std::unique_ptr<system::Counters> live);

}  // namespace nobounce::fabric
