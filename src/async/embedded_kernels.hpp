// The PTX of the project's kernels, by the name of its file.
#pragma once

#include <string_view>

namespace nobounce::async {

/// Ends with a zero, as cuModuleLoadData wants it; null for a name that is not there.
[[nodiscard]] const char* kernel_image(std::string_view name);

}  // namespace nobounce::async
