// Asking the kernel what a file is: one statx, with the answer in our words.
#pragma once

#include "system/storage.hpp"

namespace nobounce::system {

/// The status of an open file, or, with an empty path and a descriptor, of that descriptor; the
/// error is a plain errno in `code`. Allocates nothing.
struct StatusAnswer {
  FileStatus status;
  int code = 0;  ///< 0, or why there is no status
};

/// `path` follows links; pass "" to ask about the descriptor itself.
[[nodiscard]] StatusAnswer ask_status(int descriptor, const char* path);

}  // namespace nobounce::system
