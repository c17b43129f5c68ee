// Copying what a file is besides its bytes: owner, extended attributes, mode.
#pragma once

#include <nobounce/result.hpp>

namespace nobounce::system {

/// Makes the target's owner, group, extended attributes and mode those of the source, and stops at
/// the first that may not be set: a mode without its owner would open the file to the wrong people.
[[nodiscard]] Status copy_file_attributes(int source, int target);

}  // namespace nobounce::system
