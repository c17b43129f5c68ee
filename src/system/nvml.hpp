// NVML as a table; the base class is the absent default (error_function_not_found).
#pragma once

#include "system/nvml_types.hpp"

namespace nobounce::system {

/// Thread-safe. The library must be initialised with init() first; calls before it answer
/// error_uninitialized.
class Nvml {
 public:
  using nvmlReturn_t = nvml::nvmlReturn_t;
  using nvmlDevice_t = nvml::nvmlDevice_t;
  using nvmlPciInfo_t = nvml::nvmlPciInfo_t;
  using nvmlMemory_t = nvml::nvmlMemory_t;
  using nvmlBAR1Memory_t = nvml::nvmlBAR1Memory_t;
  using nvmlFieldValue_t = nvml::nvmlFieldValue_t;
  using nvmlConfComputeSystemState_t = nvml::nvmlConfComputeSystemState_t;

  Nvml() = default;
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  virtual ~Nvml() = default;

#define NOBOUNCE_NVML(method, symbol, parameters, arguments) virtual nvmlReturn_t method parameters;
#include "system/nvml_functions.inc"
#undef NOBOUNCE_NVML
};

}  // namespace nobounce::system
