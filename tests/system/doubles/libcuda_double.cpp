// A double of the CUDA driver library: every function of the list under its real name.
#include "system/cuda_types.hpp"
#include "system/doubles/answer.hpp"

using namespace nobounce::system::cuda;

#define NOBOUNCE_CUDA(method, symbol, parameters, arguments)     \
  CUresult double_##method parameters asm(symbol);               \
  CUresult double_##method parameters {                          \
    return doubles::code_of(doubles::Answer{#method} arguments); \
  }
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA
