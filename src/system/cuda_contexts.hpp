// Retained primary contexts, one per GPU of the machine, and the guard that makes one current.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <nobounce/machine.hpp>
#include <nobounce/result.hpp>
#include "system/cuda.hpp"
#include "system/host.hpp"

namespace nobounce::system {

/// Makes a context current for its lifetime and restores what was current before.
class ContextGuard {
 public:
  ContextGuard(Cuda& cuda, cuda::CUcontext context)
      : cuda_(&cuda), status_(cuda.ctx_push_current(context)) {}
  ~ContextGuard() {
    cuda::CUcontext popped = nullptr;
    if (status_ == cuda::success) (void)cuda_->ctx_pop_current(&popped);
  }
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;
  [[nodiscard]] cuda::CUresult status() const { return status_; }

 private:
  Cuda* cuda_;
  cuda::CUresult status_;
};

/// Never creates a context: retains primary ones lazily, releases them when destroyed. Thread-safe.
/// Machine indices (nvidia-smi order) are mapped to CUDA ordinals by UUID, so CUDA_VISIBLE_DEVICES
/// is honoured.
class CudaContexts {
 public:
  /// Initialises CUDA (cuInit) and reads the devices. Origin cuda, or os where the library is
  /// absent; cause machine.no_gpu where there is no device.
  [[nodiscard]] static Result<std::unique_ptr<CudaContexts>> open(Host& host,
                                                                  const Machine& machine);
  ~CudaContexts();
  CudaContexts(const CudaContexts&) = delete;
  CudaContexts& operator=(const CudaContexts&) = delete;

  [[nodiscard]] Cuda& table() const;
  /// The retained context of a machine's GPU. Origin input where CUDA_VISIBLE_DEVICES hides it.
  [[nodiscard]] Result<cuda::CUcontext> context(std::uint32_t gpu);
  [[nodiscard]] Result<cuda::CUdevice> device(std::uint32_t gpu) const;
  /// The machine's GPU that a CUDA ordinal is.
  [[nodiscard]] Result<std::uint32_t> gpu_of_ordinal(int ordinal) const;

 private:
  CudaContexts();
  struct State;
  std::unique_ptr<State> state_;
};

/// An Error of origin cuda with the driver's name of the code as detail.
[[nodiscard]] Error cuda_error(Cuda& cuda, cuda::CUresult code, std::string attempted,
                               Cause cause = Cause::none);

}  // namespace nobounce::system
