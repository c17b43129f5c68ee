// GPU memory registered with cuFile: once per base, counted, failures remembered.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "core/provider.hpp"
#include "provider/storage/cufile_driver.hpp"
#include "system/cuda_contexts.hpp"

namespace nobounce::provider::storage {

/// How a piece of GPU memory is handed to cuFile: a base, and an offset from it. A pointer inside a
/// registration that is not its base counts as unregistered.
struct BufferView {
  std::uint64_t base = 0;
  std::uint64_t offset_bytes = 0;
  bool registered = false;
  Cause cause = Cause::none;  ///< why it is not registered
};

/// Thread-safe.
class Buffers {
 public:
  Buffers(CufileDriver& driver, system::CudaContexts& contexts)
      : driver_(driver), contexts_(contexts) {}

  /// Registers memory on the first attach. That cuFile refuses is remembered and is no error: it
  /// then moves the bytes through its buffer inside the GPU.
  void attach(const GpuMemory& memory, AllocationKind kind);
  void detach(const GpuMemory& memory);
  [[nodiscard]] BufferView find(const GpuMemory& memory) const;
  /// Why the memory is not registered, if it was tried.
  [[nodiscard]] std::optional<Error> refusal(const GpuMemory& memory) const;
  [[nodiscard]] bool is_refused(const GpuMemory& memory) const;
  void release();

 private:
  struct Registration {
    std::uint64_t length_bytes = 0;
    std::uint32_t gpu = 0;
    std::uint32_t count = 0;
    bool ours = false;  ///< to be undone by us
    std::optional<Error> refusal;
  };
  [[nodiscard]] Registration register_now(const GpuMemory& memory, AllocationKind kind);
  void undo(std::uint64_t base, const Registration& registration);
  [[nodiscard]] const std::pair<const std::uint64_t, Registration>* holder(
      const GpuMemory& memory) const;

  CufileDriver& driver_;
  system::CudaContexts& contexts_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Registration> registrations_;  ///< by base
};

}  // namespace nobounce::provider::storage
