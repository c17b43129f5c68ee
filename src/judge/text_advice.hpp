// What to do about one cause of one row, with the names, figures and versions that texts show.
#pragma once

#include <string>

#include "judge/text_case.hpp"

namespace nobounce::judge {

/// Without a full stop; for no cause, where to look for it. Empty where nothing more is known than
/// the cause's own remedy says.
[[nodiscard]] std::string text_advice(const TextCase& text, const TextRow& row, Cause cause);

/// What the cause's own remedy names is NVIDIA's; of AMD's GPUs the same is done otherwise.
[[nodiscard]] std::string amd_advice(Cause cause);

}  // namespace nobounce::judge
