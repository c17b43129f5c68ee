// What is asked of a peer: the token (a file, an argument, the environment) and the adapters.
#pragma once

#include <optional>
#include <string>

#include "cli/arguments.hpp"
#include "cli/exit_code.hpp"
#include "system/host.hpp"

namespace nobounce::cli {

/// Empty where none was given. `live` is this machine, whatever machine is worked on: its files and
/// environment are the user's.
[[nodiscard]] Attempt<std::string> token_of(const PeerArguments& arguments, system::Host& live);

/// A --nic that `host` does not list. Nothing where adapters cannot be listed at all: that is the
/// machine's matter, and receipts name it.
[[nodiscard]] std::optional<Problem> unknown_adapter(const PeerArguments& arguments,
                                                     system::Host& host);

}  // namespace nobounce::cli
