// What a user types so that a process may own a PCI function.
#pragma once

#include <string>
#include <string_view>

#include <nobounce/error.hpp>

namespace nobounce::system {

/// The commands that take a function away from its driver (empty: it has none) and give it to
/// vfio-pci.
[[nodiscard]] std::string commands_to_bind(std::string_view bdf, std::string_view driver);

/// Cause nvme.not_vfio with these commands.
[[nodiscard]] Error not_bound_to_vfio(std::string_view bdf, std::string_view driver);

}  // namespace nobounce::system
