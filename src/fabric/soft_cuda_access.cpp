// The soft CUDA driver: access to virtual memory mappings and pools, of which it has none so far,
// so that every address and pool is a wrong one, as it would be to the real driver.
#include "fabric/soft_cuda_driver.hpp"

namespace nobounce::fabric {

namespace cuda = system::cuda;

CUresult SoftCuda::mem_get_access(unsigned long long*, const CUmemLocation*, CUdeviceptr) {
  return initialized_ ? cuda::error_invalid_value : cuda::error_not_initialized;
}

CUresult SoftCuda::mem_set_access(CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t) {
  return initialized_ ? cuda::error_invalid_value : cuda::error_not_initialized;
}

CUresult SoftCuda::mem_retain_allocation_handle(CUmemGenericAllocationHandle*, void*) {
  return initialized_ ? cuda::error_invalid_value : cuda::error_not_initialized;
}

CUresult SoftCuda::mem_release(CUmemGenericAllocationHandle) {
  return initialized_ ? cuda::error_invalid_value : cuda::error_not_initialized;
}

CUresult SoftCuda::mem_pool_get_access(int*, CUmemoryPool, CUmemLocation*) {
  return initialized_ ? cuda::error_invalid_value : cuda::error_not_initialized;
}

CUresult SoftCuda::mem_pool_set_access(CUmemoryPool, const CUmemAccessDesc*, std::size_t) {
  return initialized_ ? cuda::error_invalid_value : cuda::error_not_initialized;
}

}  // namespace nobounce::fabric
