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
#include "fabric/soft_kernels.hpp"

namespace nobounce::fabric {

class SoftCuda final : public SoftCudaTable {
 public:
  SoftCuda(Bus& bus, GpuAllocations& allocations, GpuEngines& engines,
           system::Environment& environment, DmaBufs& dmabufs)
      : bus_(bus),
        allocations_(allocations),
        engines_(engines),
        environment_(environment),
        dmabufs_(dmabufs) {}

#define NOBOUNCE_CUDA(method, symbol, parameters, arguments) CUresult method parameters override;
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA
  CUresult launch(CUstream stream, Kernel kernel) override;
  std::optional<OtherProcessMemory> export_from_other_process(std::uint32_t gpu,
                                                              std::uint64_t length_bytes) override;

 private:
  class KernelLane;
  using AccessByGpu = std::map<std::uint32_t, int>;
  /// The primary context of a visible device. Guarded by mutex_.
  struct Context {
    std::uint32_t gpu = 0;
    int ordinal = 0;
    unsigned references = 0;
    std::set<std::uint32_t> peers;  ///< GPUs whose memory it may reach
    std::shared_ptr<GpuStream> default_stream;
    std::map<std::thread::id, std::shared_ptr<GpuStream>> thread_streams;  ///< per-thread default
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
  /// Physical memory of cuMemCreate: lives while it has references or mappings.
  struct Physical {
    DevicePointer memory;
    std::uint64_t length_bytes = 0;
    std::uint32_t gpu = 0;
    unsigned references = 1;
    unsigned mappings = 0;
    bool rdma_capable = false;  ///< asked for with it: other devices may reach it too
  };
  struct Mapping {
    std::uint64_t length_bytes = 0;
    std::uint64_t handle = 0;
    AccessByGpu access;
  };
  struct Pool {
    std::uint32_t gpu = 0;
    AccessByGpu access;
  };
  struct Module {
    std::set<std::string> entries;
    std::map<std::string, CUfunction> functions;
  };
  struct Import {
    DevicePointer memory;
    unsigned opens = 0;
  };
  /// How a copy names the contexts of its ends: from its pointers in the current one, or each.
  enum class Contexts : std::uint8_t { current, named };

  [[nodiscard]] std::vector<std::uint32_t> visible_gpus() const;
  [[nodiscard]] const Gpu* gpu_of(CUdevice device) const;
  [[nodiscard]] bool peers_possible(std::uint32_t gpu, std::uint32_t peer) const;
  [[nodiscard]] std::optional<int> ordinal_of(std::uint32_t gpu) const;

  /// The calling thread's context; `code` says why there is none.
  [[nodiscard]] Context* current(CUresult& code);
  [[nodiscard]] CUresult refusal_without_context();
  [[nodiscard]] Context* context_of(CUcontext handle) const;
  void synchronize_all();
  [[nodiscard]] CUresult stream_of(CUstream handle, StreamEntry& entry);
  [[nodiscard]] CUresult event_of(CUevent handle, EventEntry& entry);
  /// Not one of the default streams.
  [[nodiscard]] static bool is_handle(CUstream stream);
  [[nodiscard]] CUresult word_of(const StreamEntry& entry, CUdeviceptr address, End& word) const;
  [[nodiscard]] void* next_handle();

  /// What a GPU may do to memory: memory_access_none, _read or _read_write. With mutex_ held.
  [[nodiscard]] int access_of(std::uint32_t gpu, const GpuAllocation& allocation) const;
  [[nodiscard]] int access_of_contexts(std::uint32_t gpu, const GpuAllocation& allocation) const;
  /// Whether the driver lets calls in the contexts of `gpu` copy memory at all. With mutex_ held.
  [[nodiscard]] bool may_copy(std::uint32_t gpu, const GpuAllocation& allocation,
                              Contexts contexts) const;
  /// With mutex_ held.
  [[nodiscard]] std::optional<std::pair<std::uint64_t, std::uint64_t>> reservation_of(
      std::uint64_t address) const;
  [[nodiscard]] bool whole_mappings(std::uint64_t begin, std::uint64_t length_bytes) const;
  void drop_if_unused(std::uint64_t handle);
  [[nodiscard]] Pool* pool_of(CUmemoryPool handle) const;
  [[nodiscard]] CUresult allocate_from(const Pool& pool, CUdeviceptr* pointer, std::size_t bytes,
                                       CUstream stream);

  /// Bytes from an address on that lie in one allocation.
  [[nodiscard]] std::uint64_t run_at(const Side& side, std::uint64_t at) const;
  [[nodiscard]] CUresult allow(const Side& side, std::size_t bytes, std::uint32_t gpu,
                               Contexts contexts) const;
  void choose_engine(std::uint32_t stream_gpu, GpuCopy& order) const;
  [[nodiscard]] std::optional<Side> device_side(CUdeviceptr pointer, std::size_t bytes) const;
  [[nodiscard]] std::optional<Side> host_side(const void* pointer, std::size_t bytes) const;
  [[nodiscard]] CUresult copy(const std::optional<Side>& target, const std::optional<Side>& source,
                              std::size_t bytes, CUstream stream,
                              Contexts contexts = Contexts::current);
  /// Whether kernels in the current context reach cuMemAlloc's memory.
  [[nodiscard]] bool reached_here(const GpuAllocation& allocation);
  [[nodiscard]] CUresult device_pointer_attribute(void* data, int attribute,
                                                  const GpuAllocation& allocation,
                                                  CUdeviceptr pointer);
  [[nodiscard]] CUresult host_pointer_attribute(void* data, int attribute,
                                                const GpuAllocation& allocation,
                                                CUdeviceptr pointer) const;
  [[nodiscard]] CUresult fill_host(const StreamEntry& entry, const Side& target,
                                   unsigned char value, std::size_t bytes);

  Bus& bus_;
  GpuAllocations& allocations_;
  GpuEngines& engines_;
  system::Environment& environment_;
  DmaBufs& dmabufs_;
  std::atomic<bool> initialized_{false};
  std::vector<std::uint32_t> visible_;  ///< written by the first init alone
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Context>> contexts_;  ///< by ordinal; written by the first init alone
  std::map<std::thread::id, std::vector<Context*>> stacks_;
  std::map<void*, StreamEntry> streams_;
  std::map<void*, EventEntry> events_;
  std::set<void*> capturing_;  ///< streams
  std::set<void*> graphs_;
  std::map<void*, Module> modules_;
  std::map<void*, const SoftKernelMaker*> functions_;
  std::map<void*, DramBuffer> host_buffers_;    ///< of mem_host_alloc, and managed memory
  std::vector<std::unique_ptr<Pool>> pools_;    ///< by ordinal; written by the first init alone
  std::map<std::uint64_t, Physical> physical_;  ///< by handle
  std::map<std::uint64_t, std::uint64_t> reservations_;     ///< address -> length
  std::map<std::uint64_t, Mapping> mappings_;               ///< by address
  std::map<std::uint64_t, std::uint64_t> other_processes_;  ///< memory -> length
  std::map<std::uint64_t, Import> imports_;                 ///< by the pointer that was given out
  std::uintptr_t next_handle_ = 0x10000;
};

}  // namespace nobounce::fabric
