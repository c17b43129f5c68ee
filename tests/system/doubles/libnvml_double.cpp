// A double of the NVML library: every function of the list under its real name.
#include "system/doubles/answer.hpp"
#include "system/nvml_types.hpp"

using namespace nobounce::system::nvml;

#define NOBOUNCE_NVML(method, symbol, parameters, arguments)     \
  nvmlReturn_t double_##method parameters asm(symbol);           \
  nvmlReturn_t double_##method parameters {                      \
    return doubles::code_of(doubles::Answer{#method} arguments); \
  }
#include "system/nvml_functions.inc"
#undef NOBOUNCE_NVML
