// What somebody meant who asked for a cause that there is not.
#pragma once

#include <string>
#include <string_view>

namespace nobounce::cli {

/// How to ask for the cause that `word` may stand for: it is one, or is nearly one. Empty: it looks
/// like a file.
[[nodiscard]] std::string cause_hint(std::string_view word);

}  // namespace nobounce::cli
