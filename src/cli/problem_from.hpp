// The exit code of an error that a session answered.
#pragma once

#include <utility>

#include "cli/exit_code.hpp"

namespace nobounce::cli {

[[nodiscard]] inline Problem problem_from(Error error) {
  const int exit_code = error.origin == ErrorOrigin::policy ? exit_refused : exit_error;
  return Problem{std::move(error), exit_code};
}

}  // namespace nobounce::cli
