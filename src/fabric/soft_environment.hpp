// The environment variables of a software machine: those of its description, none of the real
// process.
#pragma once

#include <memory>

#include <nobounce/machine.hpp>

#include "system/host.hpp"

namespace nobounce::fabric {

/// Copies the machine's variables. Setting one is allowed at any time: nobody else reads them.
[[nodiscard]] std::unique_ptr<system::Environment> make_soft_environment(const Machine& machine);

}  // namespace nobounce::fabric
