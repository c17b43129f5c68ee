// The table of NVML (libnvidia-ml.so.1) as loaded from this machine.
#pragma once

#include "system/nvml.hpp"

namespace nobounce::system {

/// Calls the library's functions. A function that the library lacks answers as the absent default.
class LiveNvml final : public Nvml {
 public:
  /// `library` is a handle from load_library().
  explicit LiveNvml(void* library);

#define NOBOUNCE_NVML(method, symbol, parameters, arguments) \
  nvmlReturn_t method parameters override;
#include "system/nvml_functions.inc"
#undef NOBOUNCE_NVML

 private:
  // NOLINTBEGIN(bugprone-macro-parentheses): declarations
#define NOBOUNCE_NVML(method, symbol, parameters, arguments) \
  nvmlReturn_t(*method##_) parameters = nullptr;
#include "system/nvml_functions.inc"
#undef NOBOUNCE_NVML
  // NOLINTEND(bugprone-macro-parentheses)
};

}  // namespace nobounce::system
