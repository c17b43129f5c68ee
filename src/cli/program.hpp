// The program without its main(): so that tests can link it.
#pragma once

namespace nobounce::cli {

/// Answers the exit code.
[[nodiscard]] int run_program(int count, const char* const* values);

}  // namespace nobounce::cli
