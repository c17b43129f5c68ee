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

class StrayCopies;

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
  /// Whether the context still is: somebody may have reset its device. What was made in a context
  /// went with it, and the driver dies of a destroyed stream or event (seen with driver 580), so
  /// nothing of it may be touched then. Asked by making an event: that needs a context and disturbs
  /// no stream, not even one that is being captured.
  [[nodiscard]] bool alive() const {
    if (status_ != cuda::success) return false;
    cuda::CUevent event = nullptr;
    const cuda::CUresult code = cuda_->event_create(&event, cuda::event_disable_timing);
    if (code == cuda::success) (void)cuda_->event_destroy(event);
    return code != cuda::error_context_is_destroyed && code != cuda::error_invalid_context;
  }

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
  /// Copies in these contexts that somebody gave up on.
  [[nodiscard]] StrayCopies& strays() const;

 private:
  CudaContexts();
  struct State;
  std::unique_ptr<State> state_;
};

/// An Error of origin cuda with the driver's name of the code as detail.
[[nodiscard]] Error cuda_error(Cuda& cuda, cuda::CUresult code, std::string attempted,
                               Cause cause = Cause::none);

}  // namespace nobounce::system
