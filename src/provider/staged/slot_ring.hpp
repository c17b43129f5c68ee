// The slots of one reader: bounce memory that is allocated on first use and kept.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <nobounce/result.hpp>
#include "provider/staged/job.hpp"
#include "system/copy_streams.hpp"
#include "system/cuda_contexts.hpp"
#include "system/host.hpp"
#include "system/stray_copies.hpp"

namespace nobounce::provider::staged {

/// free -> filling -> filled -> draining -> free. A slot whose copy outlived its job is `lost`
/// until the copy has ended.
enum class SlotState : std::uint8_t { free, filling, filled, draining, lost };

struct Slot {
  system::HostBuffer buffer;
  std::uint32_t asked_numa =
      0;  ///< where the buffer was asked for; the kernel may have put it elsewhere
  SlotState state = SlotState::free;
  Piece piece;
  std::uint64_t skew_bytes = 0;    ///< the piece starts here in the buffer
  std::uint64_t filled_bytes = 0;  ///< of the piece
  std::uint64_t drained_bytes = 0;
  bool read_direct = false;  ///< O_DIRECT for whole pages
  bool write_direct = false;
  std::optional<Error>
      short_source;  ///< the source ended early: what is there is drained, then this is the error
  system::CopyInFlight copy;  ///< `on` is null when no asynchronous copy runs
  std::uint64_t copy_started_ns = 0;
  system::StrayCopies::Landed landed;  ///< of a lost one: to be told when its copy has ended
  std::uint64_t taken = 0;             ///< when it was last taken, counted in takes of its ring

  [[nodiscard]] std::byte* data() const { return buffer.address + skew_bytes; }
};

/// What a piece needs of its slot.
struct SlotNeed {
  bool pinned = false;
  std::uint32_t numa = 0;
  std::uint32_t gpu = 0;      ///< whose context registers the memory, if pinned
  bool worth_moving = false;  ///< so many bytes follow that a slot on the right NUMA node pays
};

/// The bytes that all rings together may hold.
class BounceBudget {
 public:
  explicit BounceBudget(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}
  [[nodiscard]] bool reserve(std::uint64_t bytes);
  void give_back(std::uint64_t bytes) { held_.fetch_sub(bytes); }
  [[nodiscard]] std::uint64_t held_bytes() const { return held_.load(); }

 private:
  const std::uint64_t bytes_max_;
  std::atomic<std::uint64_t> held_{0};
};

/// Used by one reader; not thread-safe, but for the shared budget.
class SlotRing {
 public:
  SlotRing(system::Host& host, system::CudaContexts* contexts, BounceBudget& budget,
           std::uint64_t slot_bytes, std::uint32_t slots_max, bool rotate = false);
  SlotRing(const SlotRing&) = delete;
  SlotRing& operator=(const SlotRing&) = delete;

  [[nodiscard]] std::vector<Slot>& slots() { return slots_; }
  /// A slot is free or may still be allocated.
  [[nodiscard]] bool can_take() const;
  /// A free slot that suits, allocated if need be. Called only when can_take().
  [[nodiscard]] Result<Slot*> take(const SlotNeed& need);
  /// Frees every slot whose memory nobody uses. False if a lost one had to be leaked.
  bool release();

 private:
  [[nodiscard]] Result<Slot*> choose(const SlotNeed& need);
  [[nodiscard]] Result<Slot*> grow(const SlotNeed& need);
  [[nodiscard]] Slot* find_free(const SlotNeed& need, bool on_node);
  [[nodiscard]] Result<system::HostBuffer> allocate(const SlotNeed& need);

  system::Host& host_;
  system::CudaContexts* contexts_;
  BounceBudget& budget_;
  const std::uint64_t slot_bytes_;
  const std::uint32_t slots_max_;
  const bool rotate_;
  std::uint64_t takes_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace nobounce::provider::staged
