// The exit codes of the program, and the errors that lead to them.
#pragma once

#include <utility>
#include <variant>

#include <nobounce/error.hpp>

namespace nobounce::cli {

inline constexpr int exit_done = 0;
inline constexpr int exit_error = 1;
inline constexpr int exit_usage = 2;
inline constexpr int exit_refused =
    3;  ///< by policy; of `check`: something is unmet, staged or degraded
inline constexpr int exit_unknown = 4;  ///< of `check`: something could not be found out
inline constexpr int exit_signal_base = 128;

/// Why a command ends early, and with which exit code.
struct Problem {
  Error error;
  int exit_code = exit_error;
};

/// A value or a Problem.
template <typename T>
using Attempt = std::variant<T, Problem>;

/// The arguments are wrong, whatever the machine.
[[nodiscard]] inline Problem usage_problem(std::string attempted, std::string detail,
                                           std::string remedy) {
  return Problem{Error{.origin = ErrorOrigin::input,
                       .attempted = std::move(attempted),
                       .detail = std::move(detail),
                       .remedy = std::move(remedy)},
                 exit_usage};
}

}  // namespace nobounce::cli
