// cuFile's error codes as Errors, with the cause that each stands for.
#pragma once

#include <string>

#include <nobounce/error.hpp>

namespace nobounce::provider::storage {

/// `code` is a cuFile code (5000 and above: origin cufile) or an errno (origin os).
[[nodiscard]] Error error_of_code(int code, std::string attempted, Cause otherwise);

/// The cause that a cuFile code stands for, or `otherwise`.
[[nodiscard]] Cause cause_of_code(int code, Cause otherwise);

/// cuFile's name of a code: `CU_FILE_IO_NOT_SUPPORTED`; empty where we have none.
[[nodiscard]] const char* name_of_code(int code);

}  // namespace nobounce::provider::storage
