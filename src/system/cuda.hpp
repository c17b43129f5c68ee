// The CUDA driver as a table: one virtual method per foreign function, same meaning, same codes.
// The base class is the absent default: every method answers error_not_supported.
#pragma once

#include "system/cuda_types.hpp"

namespace nobounce::system {

/// Thread-safe as the driver itself is: contexts are per thread. Implementations: LiveCuda,
/// fabric's, FaultyCuda.
class Cuda {
 public:
  using CUresult = cuda::CUresult;
  using CUdevice = cuda::CUdevice;
  using CUdeviceptr = cuda::CUdeviceptr;
  using CUcontext = cuda::CUcontext;
  using CUstream = cuda::CUstream;
  using CUevent = cuda::CUevent;
  using CUuuid = cuda::CUuuid;
  using CUmemoryPool = cuda::CUmemoryPool;
  using CUmemGenericAllocationHandle = cuda::CUmemGenericAllocationHandle;
  using CUmemLocation = cuda::CUmemLocation;
  using CUmemAccessDesc = cuda::CUmemAccessDesc;
  using CUmemAllocationProp = cuda::CUmemAllocationProp;
  using CUipcMemHandle = cuda::CUipcMemHandle;
  using CUmodule = cuda::CUmodule;
  using CUfunction = cuda::CUfunction;
  using CUgraph = cuda::CUgraph;

  Cuda() = default;
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;
  virtual ~Cuda() = default;

#define NOBOUNCE_CUDA(method, symbol, parameters, arguments) virtual CUresult method parameters;
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA
};

}  // namespace nobounce::system
