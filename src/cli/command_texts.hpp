// What the commands do, in words: everything that help and man pages say beside the options.
#pragma once

#include <span>
#include <string_view>

#include "cli/command_line.hpp"

namespace nobounce::cli {

/// The program first (its name is empty), then each command.
[[nodiscard]] std::span<const CommandDescription> command_texts();

/// The text of one of them; aborts where there is none, since a command without words is a bug.
[[nodiscard]] const CommandDescription& texts_of(std::string_view command);

}  // namespace nobounce::cli
