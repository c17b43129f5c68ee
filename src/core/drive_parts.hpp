// What lies below a drive that md or device mapper puts together from others.
#pragma once

#include <cstdint>
#include <vector>

#include <nobounce/machine.hpp>

namespace nobounce::core {

/// The drives that move the bytes, by number, each once: all below `drive` that have no parts
/// themselves, or `drive` itself. Parts that the machine does not have are left out.
[[nodiscard]] std::vector<std::uint32_t> moving_drives(const Machine& machine, std::uint32_t drive);

}  // namespace nobounce::core
