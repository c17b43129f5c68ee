// The table of libcufile (libcufile.so.0) as loaded from this machine.
#pragma once

#include "system/cufile.hpp"

namespace nobounce::system {

/// Calls the library's functions. A function that the library lacks answers as the absent default.
class LiveCufile final : public Cufile {
 public:
  /// `library` is a handle from load_library().
  explicit LiveCufile(void* library);

#define NOBOUNCE_CUFILE(type, method, symbol, parameters, arguments) \
  type method parameters override;
#include "system/cufile_functions.inc"
#undef NOBOUNCE_CUFILE

 private:
  // NOLINTBEGIN(bugprone-macro-parentheses): declarations
#define NOBOUNCE_CUFILE(type, method, symbol, parameters, arguments) \
  type(*method##_) parameters = nullptr;
#include "system/cufile_functions.inc"
#undef NOBOUNCE_CUFILE
  // NOLINTEND(bugprone-macro-parentheses)
};

}  // namespace nobounce::system
