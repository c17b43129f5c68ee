// Facts about each GPU of a machine, from CUDA attributes and NVML.
#pragma once

#include <string>
#include <vector>

#include <nobounce/machine.hpp>
#include "core/facts.hpp"
#include "system/host.hpp"

namespace nobounce::preconditions {

/// One entry per GPU of the machine. CUDA is asked only where the caller has initialised it.
[[nodiscard]] std::vector<core::GpuFacts> read_gpu_facts(system::Host& host, const Machine& machine,
                                                         bool may_ask_cuda);

}  // namespace nobounce::preconditions
