// The table of the CUDA driver (libcuda.so.1) as loaded from this machine.
#pragma once

#include "system/cuda.hpp"

namespace nobounce::system {

/// Calls the library's functions. A function that the library lacks answers as the absent default.
class LiveCuda final : public Cuda {
 public:
  /// `library` is a handle from load_library().
  explicit LiveCuda(void* library);

#define NOBOUNCE_CUDA(method, symbol, parameters, arguments) CUresult method parameters override;
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA

 private:
  // NOLINTBEGIN(bugprone-macro-parentheses): declarations
#define NOBOUNCE_CUDA(method, symbol, parameters, arguments) \
  CUresult(*method##_) parameters = nullptr;
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA
  // NOLINTEND(bugprone-macro-parentheses)
};

}  // namespace nobounce::system
