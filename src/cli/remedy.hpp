// How to go on after errors whose origin could not say.
#pragma once

#include <nobounce/error.hpp>

namespace nobounce::cli {

/// The error with a remedy: its own, its cause's, or one by its origin and code. Never empty
/// afterwards.
[[nodiscard]] Error with_remedy(Error error);

}  // namespace nobounce::cli
