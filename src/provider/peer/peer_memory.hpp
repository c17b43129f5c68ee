// GPU memory that another GPU is to reach: its kind, and the access that kinds of their own need
// beside that of the contexts.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <nobounce/finding.hpp>
#include <nobounce/place.hpp>
#include <nobounce/result.hpp>
#include "core/provider.hpp"
#include "system/cuda_contexts.hpp"

namespace nobounce::provider::peer {

/// Knows kinds by what was attached, else by asking the driver. Thread-safe.
class PeerMemory {
 public:
  explicit PeerMemory(system::CudaContexts& contexts) : contexts_(contexts) {}

  void remember(const core::RegionView& region);
  void forget(const core::RegionView& region);

  /// Whether another process exported it: no other GPU reaches it than the one whose context opened
  /// it, which copies by its own access to the other end.
  [[nodiscard]] bool imported(const GpuMemory& memory) const;
  /// Why a copy between two such is refused: the driver would stage it in silence.
  [[nodiscard]] static Error two_imports(const GpuMemory& source, const GpuMemory& target);

  /// Lets `gpu` reach all of `memory`: nothing to do for cuMemAlloc; mappings and pools are granted
  /// where they are not yet. Refuses with the cause of the kind; imports always.
  [[nodiscard]] Status grant(const GpuMemory& memory, std::uint32_t gpu);
  /// Whether grant would find something to refuse, as far as that is known without changing
  /// anything.
  [[nodiscard]] Finding finding(const GpuMemory& memory, std::uint32_t gpu) const;

  /// After a grant: `gpu` reaches the allocation, which the driver numbers.
  void note(const GpuMemory& memory, std::uint32_t gpu);
  struct Kinds {
    AllocationKind source = AllocationKind::unknown;
    AllocationKind target = AllocationKind::unknown;
    /// Of a plain target: as reached_here. It comes with the same answer of the driver.
    bool target_reached_here = false;
  };
  /// The kinds of memory that was noted, where the driver says that each still is the same
  /// allocation and within the other GPU's reach; in any current context. Allocates nothing.
  [[nodiscard]] std::optional<Kinds> confirm(const GpuMemory& source,
                                             const GpuMemory& target) const;
  /// Whether the current context's GPU reaches plain memory now: the driver has a pointer for its
  /// kernels then, and answers CUDA_ERROR_INVALID_VALUE otherwise (measured; a tenth of what
  /// enabling access once more costs).
  [[nodiscard]] bool reached_here(const GpuMemory& memory) const;
  /// Whether `gpu` is seen to reach all of the memory now. False of what no question tells: imports
  /// and managed memory.
  [[nodiscard]] bool seen_to_reach(std::uint32_t gpu, const GpuMemory& memory) const;
  /// Another number whenever finding may answer otherwise for something learnt here.
  [[nodiscard]] std::uint64_t lessons() const { return lessons_.load(std::memory_order_acquire); }

 private:
  struct Attached {
    std::uint64_t length_bytes = 0;
    AllocationKind kind = AllocationKind::unknown;
    int count = 0;
    bool exportable = false;  ///< the driver said so: it tells imports from memory of our own
  };

  /// An allocation, or one mapping of several.
  struct Noted {
    std::uint64_t end = 0;
    unsigned long long buffer_id = 0;
    AllocationKind kind = AllocationKind::unknown;
  };

  /// What was noted of all of the memory, or null. Under the lock.
  [[nodiscard]] const Noted* noted_for(const GpuMemory& memory, std::uint32_t gpu) const;
  [[nodiscard]] bool still_is(const Noted& noted, const GpuMemory& memory, std::uint32_t gpu) const;
  /// The same of plain memory, and whether it is reached here.
  [[nodiscard]] bool still_is_plain(const Noted& noted, const GpuMemory& memory,
                                    bool& reached_here) const;
  void learn_refusal(const GpuMemory& memory, std::uint32_t gpu, std::optional<Error> refusal);
  /// What it was attached as, unless the driver says that another process's memory lies there now.
  [[nodiscard]] AllocationKind attached_kind(const GpuMemory& memory) const;
  [[nodiscard]] AllocationKind kind_of(const GpuMemory& memory, std::uint64_t address) const;
  [[nodiscard]] bool reaches(AllocationKind kind, std::uint64_t address, std::uint32_t gpu) const;
  [[nodiscard]] Status grant_part(const GpuMemory& memory, std::uint64_t address, std::uint64_t end,
                                  std::uint32_t gpu);
  /// The driver's answer, or the reason why there was nobody to ask.
  [[nodiscard]] system::cuda::CUresult set_access(AllocationKind kind, std::uint64_t address,
                                                  std::uint32_t gpu);

  system::CudaContexts& contexts_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Attached> attached_;                         ///< by address
  std::map<std::pair<std::uint64_t, std::uint32_t>, Error> refusals_;  ///< by address and GPU
  std::map<std::pair<std::uint32_t, std::uint64_t>, Noted> noted_;     ///< by GPU and start
  std::atomic<std::uint64_t> lessons_{0};
};

}  // namespace nobounce::provider::peer
