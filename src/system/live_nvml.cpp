// Loading the table of NVML (libnvidia-ml.so.1): one pointer per function of the list.
#include "system/live_nvml.hpp"

#include "system/live_library.hpp"

namespace nobounce::system {

LiveNvml::LiveNvml(void* library) {
#define NOBOUNCE_NVML(method, symbol, parameters, arguments) \
  method##_ = reinterpret_cast<decltype(method##_)>(find_symbol(library, symbol));
#include "system/nvml_functions.inc"
#undef NOBOUNCE_NVML
}

#define NOBOUNCE_NVML(method, symbol, parameters, arguments)                    \
  nvml::nvmlReturn_t LiveNvml::method parameters {                              \
    return method##_ != nullptr ? method##_ arguments : Nvml::method arguments; \
  }
#include "system/nvml_functions.inc"
#undef NOBOUNCE_NVML

}  // namespace nobounce::system
