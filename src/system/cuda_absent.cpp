// The absent CUDA driver: every method of the base class answers error_not_supported.
#include "system/cuda.hpp"
#include "system/unused.hpp"

namespace nobounce::system {

#define NOBOUNCE_CUDA(method, symbol, parameters, arguments) \
  cuda::CUresult Cuda::method parameters {                   \
    unused arguments;                                        \
    return cuda::error_not_supported;                        \
  }
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA

}  // namespace nobounce::system
