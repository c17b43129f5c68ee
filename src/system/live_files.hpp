// The kernel's and the distribution's small files, as this machine shows them.
#pragma once

#include <memory>
#include <string>

#include "system/files.hpp"

namespace nobounce::system {

/// Looks for every path below `root` ("/": as it is). What lies outside the root is an error.
[[nodiscard]] std::unique_ptr<Files> make_live_files(std::string root);

}  // namespace nobounce::system
