// A submission queue and its completion queue, as the host's side of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "system/nvme_types.hpp"
#include "system/pci.hpp"

namespace nobounce::provider::nvme {

using system::nvme::Command;
using system::nvme::Completion;

struct QueueLayout {
  std::uint16_t id = 0;
  std::uint32_t entries = 0;  ///< of both queues; a power of two
  std::uint64_t doorbell_stride_bytes = 4;
  system::DmaBuffer submission;  ///< 64 bytes an entry
  system::DmaBuffer completion;  ///< 16 bytes an entry
};

/// Slots and command ids have lives of their own: a slot is free when a completion's SQHD has gone
/// past it, an id when its own completion was consumed. Not thread-safe.
class QueuePair {
 public:
  QueuePair(system::PciFunction& function, const QueueLayout& layout);

  /// As after a reset of the controller: empty, and every id free.
  void restart();

  [[nodiscard]] bool has_room() const;
  /// Commands that were submitted and have not completed.
  [[nodiscard]] std::uint32_t in_flight() const { return in_flight_; }
  [[nodiscard]] std::uint32_t entries() const { return layout_.entries; }
  [[nodiscard]] const QueueLayout& layout() const { return layout_; }

  /// The id that the next command gets. There must be room.
  [[nodiscard]] std::uint16_t next_id() const { return free_ids_.back(); }
  /// Writes the command into the queue under an id of ours, which it answers. There must be room.
  /// The drive sees it after ring().
  [[nodiscard]] std::uint16_t submit(Command command);
  void ring();

  struct Polled {
    enum class Kind : std::uint8_t { nothing, completion, nonsense };
    Kind kind = Kind::nothing;
    Completion completion;
  };
  /// Consumes the next completion. `nonsense`: the drive wrote an id that is not in flight, another
  /// queue's number or a head outside the queue; nothing is to be believed until a reset.
  [[nodiscard]] Polled poll();

 private:
  [[nodiscard]] std::uint64_t doorbell(bool completion) const;
  [[nodiscard]] bool expected_phase() const {
    return (completion_head_ / layout_.entries) % 2 == 0;
  }
  [[nodiscard]] bool makes_sense(const Completion& completion) const;

  system::PciFunction& function_;
  const QueueLayout layout_;
  std::uint32_t submission_tail_ = 0;
  std::uint32_t submission_head_ = 0;  ///< by SQHD alone
  std::uint32_t rung_tail_ = 0;
  std::uint64_t completion_head_ = 0;  ///< never wraps: lap and phase follow from it
  std::uint32_t in_flight_ = 0;
  std::vector<bool> used_ids_;
  std::vector<std::uint16_t> free_ids_;
};

}  // namespace nobounce::provider::nvme
