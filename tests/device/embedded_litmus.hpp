// The PTX of the device tests' own kernels, by the name of its file.
#pragma once

#include <string_view>

namespace nobounce::device {

/// Null for a name that is not there.
[[nodiscard]] const char* kernel_image(std::string_view name);

}  // namespace nobounce::device
