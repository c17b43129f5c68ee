// The table of libibverbs (libibverbs.so.1) as loaded from this machine.
#pragma once

#include <memory>

#include "system/verbs.hpp"

namespace nobounce::system {

/// Calls the library's functions, asked for by version, and what its header does by inline calls
/// and macros. A function that the library lacks answers as the absent default.
class LiveVerbs final : public Verbs {
 public:
  /// `library` is a handle from load_library().
  explicit LiveVerbs(void* library);
  ~LiveVerbs() override;

#define NOBOUNCE_VERBS(method, symbol, parameters, arguments) int method parameters override;
#include "system/verbs_functions.inc"
#undef NOBOUNCE_VERBS

 private:
  struct Functions;
  std::unique_ptr<Functions> functions_;
};

}  // namespace nobounce::system
