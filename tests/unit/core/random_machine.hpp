// Random but valid machines, the same for the same seed.
#pragma once

#include <cstdint>
#include <nobounce/machine.hpp>

namespace nobounce::core {

/// A valid machine with up to a handful of everything: cascaded switches, remote drives, odd names,
/// unknown states.
[[nodiscard]] Machine random_machine(std::uint64_t seed);

}  // namespace nobounce::core
