// The error of a PCI function that another driver has.
#pragma once

#include <string_view>

#include <nobounce/error.hpp>

namespace nobounce::system {

/// Cause nvme.not_vfio, with the commands that would bind it. `driver` empty: it has none.
[[nodiscard]] Error not_bound_to_vfio(std::string_view bdf, std::string_view driver);

}  // namespace nobounce::system
