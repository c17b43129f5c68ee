// The soft CUDA driver's class: handles, contexts by thread, and what the functions share.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fabric/soft_cuda.hpp"

namespace nobounce::fabric {

class SoftCuda final : public system::Cuda {
 public:
  SoftCuda(Bus& bus, GpuAllocations& allocations, GpuEngines& engines,
           system::Environment& environment)
      : bus_(bus), allocations_(allocations), engines_(engines), environment_(environment) {}

#define NOBOUNCE_CUDA(method, symbol, parameters, arguments) CUresult method parameters override;
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA

 private:
  /// The primary context of a visible device. Guarded by mutex_.
  struct Context {
    std::uint32_t gpu = 0;
    int ordinal = 0;
    unsigned references = 0;
    std::set<std::uint32_t> peers;  ///< GPUs whose memory it may reach
    std::shared_ptr<GpuStream> default_stream;
  };
  struct StreamEntry {
    std::shared_ptr<GpuStream> stream;
    Context* context = nullptr;
  };
  struct EventEntry {
    std::shared_ptr<GpuEvent> event;
    Context* context = nullptr;
  };
  /// One end of a copy as the driver tells it from its pointer.
  struct Side {
    bool device = false;
    bool pinned = false;  ///< of host memory
    std::uint32_t gpu = 0;
    std::uint64_t address = 0;
  };

  [[nodiscard]] std::vector<std::uint32_t> visible_gpus() const;
  [[nodiscard]] const Gpu* gpu_of(CUdevice device) const;
  [[nodiscard]] bool peers_possible(std::uint32_t gpu, std::uint32_t peer) const;
  [[nodiscard]] std::optional<int> ordinal_of(std::uint32_t gpu) const;

  /// The calling thread's context; `code` says why there is none.
  [[nodiscard]] Context* current(CUresult& code);
  [[nodiscard]] Context* context_of(CUcontext handle) const;
  [[nodiscard]] CUresult stream_of(CUstream handle, StreamEntry& entry);
  [[nodiscard]] CUresult event_of(CUevent handle, EventEntry& entry);
  [[nodiscard]] void* next_handle();

  [[nodiscard]] std::optional<Side> device_side(CUdeviceptr pointer, std::size_t bytes) const;
  [[nodiscard]] std::optional<Side> host_side(const void* pointer, std::size_t bytes) const;
  [[nodiscard]] CUresult copy(const std::optional<Side>& target, const std::optional<Side>& source,
                              std::size_t bytes, CUstream stream);
  [[nodiscard]] CUresult device_pointer_attribute(void* data, int attribute,
                                                  const GpuAllocation& allocation,
                                                  CUdeviceptr pointer);
  [[nodiscard]] static CUresult host_pointer_attribute(void* data, int attribute,
                                                       const GpuAllocation& allocation,
                                                       CUdeviceptr pointer);

  Bus& bus_;
  GpuAllocations& allocations_;
  GpuEngines& engines_;
  system::Environment& environment_;
  std::atomic<bool> initialized_{false};
  std::vector<std::uint32_t> visible_;  ///< written by the first init alone
  std::mutex mutex_;
  std::vector<std::unique_ptr<Context>> contexts_;  ///< by ordinal; written by the first init alone
  std::map<std::thread::id, std::vector<Context*>> stacks_;
  std::map<void*, StreamEntry> streams_;
  std::map<void*, EventEntry> events_;
  std::map<void*, DramBuffer> host_buffers_;  ///< of mem_host_alloc, and managed memory
  std::uintptr_t next_handle_ = 0x10000;
};

}  // namespace nobounce::fabric
