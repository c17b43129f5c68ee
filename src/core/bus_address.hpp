// Bus addresses as the kernel writes them.
#pragma once

#include <string>
#include <string_view>

namespace nobounce::core {

/// `00000000:C1:00.0` of NVIDIA's libraries is `0000:c1:00.0`. Blanks around it are left out.
[[nodiscard]] std::string canonical_bdf(std::string_view text);

}  // namespace nobounce::core
