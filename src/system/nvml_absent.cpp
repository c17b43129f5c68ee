// The absent NVML: every method of the base class answers error_function_not_found.
#include "system/nvml.hpp"
#include "system/unused.hpp"

namespace nobounce::system {

#define NOBOUNCE_NVML(method, symbol, parameters, arguments) \
  nvml::nvmlReturn_t Nvml::method parameters {               \
    unused arguments;                                        \
    return nvml::error_function_not_found;                   \
  }
#include "system/nvml_functions.inc"
#undef NOBOUNCE_NVML

}  // namespace nobounce::system
