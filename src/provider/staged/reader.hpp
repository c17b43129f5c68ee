// A reader of the staged provider: a worker that fills and drains its slots, several at a time.
#pragma once

#include <cstdint>
#include <optional>

#include "provider/staged/file_steps.hpp"
#include "provider/staged/gpu_nodes.hpp"
#include "provider/staged/job_queue.hpp"
#include "provider/staged/slot_ring.hpp"
#include "system/copy_streams.hpp"
#include "system/host.hpp"

namespace nobounce::provider::staged {

/// What the readers of one provider share.
struct ReaderShare {
  system::Host& host;
  system::CudaContexts* contexts;
  JobQueue& queue;
  BounceBudget& budget;
  std::uint64_t slot_bytes;
  std::uint32_t slots_per_reader;
  bool rotate_slots;
};

class Reader final : public system::Worker {
 public:
  Reader(const ReaderShare& share, unsigned number);
  [[nodiscard]] system::Step step() override;

  /// After the worker was stopped: gives slots and streams back. False if the GPU still uses some.
  bool release();

 private:
  [[nodiscard]] bool look_at_copies(std::uint64_t now_ns);
  [[nodiscard]] bool start_drains();
  [[nodiscard]] bool drain_one();
  [[nodiscard]] bool fill_one();
  [[nodiscard]] bool claim_one(bool anything_in_flight, std::uint64_t now_ns);
  void begin_fill(Slot& slot);
  void copy(Slot& slot, const system::CopyLane& lane, const system::CopyEnds& ends);
  void begin_drain(Slot& slot);
  void filled(Slot& slot);
  void land(Slot& slot);
  void fail(Slot& slot, Error error);
  void end_piece(Slot& slot, std::uint64_t arrived_bytes, std::optional<Error> error);
  void completed(bool ready);
  [[nodiscard]] bool give_up_on(Slot& slot, std::uint64_t now_ns);
  void note_stray(Slot& slot);
  void found_again(Slot& slot);
  [[nodiscard]] SlotNeed need_of(const Piece& piece);

  ReaderShare share_;
  unsigned number_;
  SlotRing ring_;
  GpuNodes nodes_;
  std::optional<system::CopyStreams> streams_;  ///< empty without GPU
};

}  // namespace nobounce::provider::staged
