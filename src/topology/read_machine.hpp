// Host -> Machine: the PCI tree, NUMA, GPUs, NICs, drives, mounts, kernel and modules, read through
// the seam only.
#pragma once

#include <nobounce/machine.hpp>
#include <nobounce/result.hpp>
#include "system/host.hpp"

namespace nobounce::topology {

/// Never fails for what is merely absent: a machine without GPUs or without /sys is a machine with
/// fewer parts. Facts that cannot be read become `unknown`. Reads files() and, where present, NVML;
/// never CUDA, never creates state.
[[nodiscard]] Result<Machine> read_machine(system::Host& host);

}  // namespace nobounce::topology
