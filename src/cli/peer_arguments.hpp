// Where a token comes from: a file, an argument, the environment.
#pragma once

#include <string>

#include "cli/arguments.hpp"
#include "cli/exit_code.hpp"
#include "system/host.hpp"

namespace nobounce::cli {

/// Empty where none was given. `live` is this machine, whatever machine is worked on: its files and
/// environment are the user's.
[[nodiscard]] Attempt<std::string> token_of(const PeerArguments& arguments, system::Host& live);

}  // namespace nobounce::cli
