// The absent libibverbs: every method of the base class answers ENOSYS.
#include <cerrno>

#include "system/unused.hpp"
#include "system/verbs.hpp"

namespace nobounce::system {

#define NOBOUNCE_VERBS(method, symbol, parameters, arguments) \
  int Verbs::method parameters {                              \
    unused arguments;                                         \
    return ENOSYS;                                            \
  }
#include "system/verbs_functions.inc"
#undef NOBOUNCE_VERBS

}  // namespace nobounce::system
