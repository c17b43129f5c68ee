// What can be said of arguments before any machine is looked at: values that have no form, and
// options that would change nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.hpp"

namespace nobounce::cli {

/// Whether an option of every command means anything to this one: `--machine` nothing to explain.
[[nodiscard]] bool takes_common_option(std::string_view command, std::string_view option);

/// `given`: the options that were given, as `--seed`. The first mistake, a usage error that names
/// option and value.
[[nodiscard]] std::optional<Problem> check_arguments(std::string_view command,
                                                     const std::vector<std::string>& given,
                                                     const Arguments& arguments);

}  // namespace nobounce::cli
