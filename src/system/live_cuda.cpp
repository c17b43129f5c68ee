// Loading the table of the CUDA driver (libcuda.so.1): one pointer per function of the list.
#include "system/live_cuda.hpp"

#include "system/live_library.hpp"

namespace nobounce::system {

LiveCuda::LiveCuda(void* library) {
#define NOBOUNCE_CUDA(method, symbol, parameters, arguments) \
  method##_ = reinterpret_cast<decltype(method##_)>(find_symbol(library, symbol));
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA
}

#define NOBOUNCE_CUDA(method, symbol, parameters, arguments)                    \
  cuda::CUresult LiveCuda::method parameters {                                  \
    return method##_ != nullptr ? method##_ arguments : Cuda::method arguments; \
  }
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA

}  // namespace nobounce::system
