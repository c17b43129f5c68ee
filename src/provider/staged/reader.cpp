// A reader of the staged provider.
#include "provider/staged/reader.hpp"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

namespace nobounce::provider::staged {

namespace {

/// How soon a running copy is looked at again.
constexpr std::uint64_t look_again_ns = 20'000;
/// Slots whose copy hangs are looked at rarely.
constexpr std::uint64_t lost_again_ns = 10'000'000;
/// A copy that runs when the deadline passes gets this long to end, so that its bytes are counted.
constexpr std::uint64_t landing_grace_ns = 100'000'000;

const GpuMemory* gpu_end(const Place& place) {
  return std::get_if<GpuMemory>(&place);
}

}  // namespace

Reader::Reader(const ReaderShare& share, unsigned number)
    : share_(share),
      number_(number),
      ring_(share.host, share.contexts, share.budget, share.slot_bytes, share.slots_per_reader,
            share.rotate_slots),
      nodes_(share.host, share.contexts) {
  if (share.contexts != nullptr) streams_.emplace(*share.contexts);
}

system::Step Reader::step() {
  const std::uint64_t now_ns = share_.host.clock().now_ns();
  bool progress = look_at_copies(now_ns);
  progress = start_drains() || progress;
  if (drain_one() || fill_one()) return system::Step::busy();
  bool flying = false;
  bool lost = false;
  for (const Slot& slot : ring_.slots()) {
    if (slot.copy.on == nullptr) continue;
    (slot.state == SlotState::lost ? lost : flying) = true;
  }
  if (claim_one(flying, now_ns) || progress) return system::Step::busy();
  if (flying) return system::Step::idle_until(now_ns + look_again_ns);
  if (lost) return system::Step::idle_until(now_ns + lost_again_ns);
  return system::Step::idle();
}

bool Reader::look_at_copies(std::uint64_t now_ns) {
  bool progress = false;
  for (Slot& slot : ring_.slots()) {
    if (slot.copy.on == nullptr) continue;
    std::optional<Error> error;
    const system::Landing landing = streams_->look(slot.copy, error);
    if (landing == system::Landing::flying) {
      progress = give_up_on(slot, now_ns) || progress;
      continue;
    }
    progress = true;
    if (slot.state == SlotState::lost) {
      found_again(slot);
    } else if (landing == system::Landing::failed) {
      fail(slot, std::move(*error));
    } else {
      land(slot);
    }
  }
  return progress;
}

/// Its job ended long ago.
void Reader::found_again(Slot& slot) {
  slot.landed->store(true, std::memory_order_release);
  slot.landed.reset();
  slot.state = SlotState::free;
}

/// The slot stays with the reader; the memory at the other end is somebody's who may free it.
void Reader::note_stray(Slot& slot) {
  const Segment& segment = slot.piece.job->operation.segment;
  const bool filling = slot.state == SlotState::filling;
  const Place part = part_of(filling ? segment.source : segment.target, slot.piece.offset_bytes,
                             slot.piece.length_bytes);
  using Places = std::vector<Place>;
  slot.landed = filling ? streams_->strays().add(Places{part}, Places{})
                        : streams_->strays().add(Places{}, Places{part});
}

bool Reader::give_up_on(Slot& slot, std::uint64_t now_ns) {
  if (slot.state == SlotState::lost) return false;
  const std::uint64_t deadline_ns = slot.piece.job->operation.deadline_ns;
  if (deadline_ns == 0 || now_ns < deadline_ns) return false;
  if (now_ns < std::max(deadline_ns, slot.copy_started_ns) + landing_grace_ns) return false;
  slot.copy.on->broken = true;
  note_stray(slot);
  completed(
      share_.queue.finish(slot.piece, 0,
                          Error{.origin = ErrorOrigin::session,
                                .attempted = "copy between GPU memory and a slot",
                                .cause = Cause::session_deadline_passed,
                                .detail = "the copy hangs; it may still reach its target later"}));
  slot.piece = {};
  slot.state = SlotState::lost;
  return true;
}

bool Reader::start_drains() {
  bool progress = false;
  for (Slot& slot : ring_.slots()) {
    if (slot.state != SlotState::filled) continue;
    begin_drain(slot);
    progress = true;
  }
  return progress;
}

bool Reader::drain_one() {
  for (Slot& slot : ring_.slots()) {
    if (slot.state != SlotState::draining || slot.copy.on != nullptr) continue;
    const Segment& segment = slot.piece.job->operation.segment;
    if (const auto* host = std::get_if<HostMemory>(&segment.target)) {
      share_.host.memory().copy(host->address + slot.piece.offset_bytes, slot.data(),
                                slot.piece.length_bytes);
      end_piece(slot, slot.piece.length_bytes, std::nullopt);
      return true;
    }
    FileStep step = write_once(share_.host.storage(), slot);
    if (step.error.has_value()) {
      end_piece(slot, slot.drained_bytes, std::move(step.error));
    } else if (step.finished) {
      end_piece(slot, slot.drained_bytes, std::nullopt);
    }
    return true;
  }
  return false;
}

bool Reader::fill_one() {
  for (Slot& slot : ring_.slots()) {
    if (slot.state != SlotState::filling || slot.copy.on != nullptr) continue;
    const Segment& segment = slot.piece.job->operation.segment;
    if (const auto* host = std::get_if<HostMemory>(&segment.source)) {
      share_.host.memory().copy(slot.data(), host->address + slot.piece.offset_bytes,
                                slot.piece.length_bytes);
      filled(slot);
      return true;
    }
    FileStep step = read_once(share_.host.storage(), slot);
    if (step.error.has_value()) {
      fail(slot, std::move(*step.error));
    } else if (step.finished) {
      filled(slot);
    }
    return true;
  }
  return false;
}

bool Reader::claim_one(bool anything_in_flight, std::uint64_t now_ns) {
  if (!ring_.can_take()) {
    // Every slot is in use or lost. Lost ones may come back; if they do not, the deadline speaks.
    return false;
  }
  JobQueue::Claim claim = share_.queue.claim(number_, !anything_in_flight, now_ns);
  completed(claim.completed);
  if (!claim.piece.has_value()) return false;
  const Piece& piece = *claim.piece;
  Result<Slot*> slot = ring_.take(need_of(piece));
  if (!slot.ok()) {
    completed(share_.queue.finish(piece, 0, std::move(slot).error()));
    return true;
  }
  Slot& taken = **slot;
  taken.skew_bytes = skew_bytes(*piece.job, piece.offset_bytes);
  taken.filled_bytes = 0;
  taken.drained_bytes = 0;
  taken.short_source.reset();
  taken.piece = std::move(*claim.piece);
  begin_fill(taken);
  return true;
}

SlotNeed Reader::need_of(const Piece& piece) {
  const Segment& segment = piece.job->operation.segment;
  const GpuMemory* gpu = gpu_end(segment.target);
  if (gpu == nullptr) gpu = gpu_end(segment.source);
  if (gpu == nullptr) return {};
  const std::uint64_t left = piece.job->length_bytes() - piece.offset_bytes;
  return {.pinned = true,
          .numa = nodes_.numa_of(gpu->gpu),
          .gpu = gpu->gpu,
          .worth_moving = left / share_.slot_bytes > 64};
}

void Reader::begin_fill(Slot& slot) {
  slot.state = SlotState::filling;
  const Segment& segment = slot.piece.job->operation.segment;
  if (const GpuMemory* gpu = gpu_end(segment.source)) {
    copy(slot, {.gpu = gpu->gpu, .kind = system::CopyKind::to_host},
         {.host = slot.data(), .gpu_source = gpu->address.plus(slot.piece.offset_bytes)});
  } else if (const auto* file = std::get_if<FileRange>(&segment.source)) {
    slot.read_direct =
        prefers_direct_read(share_.host.storage(), *slot.piece.job->source_file,
                            file->offset.plus(slot.piece.offset_bytes), slot.piece.length_bytes);
  }
}

void Reader::copy(Slot& slot, const system::CopyLane& lane, const system::CopyEnds& ends) {
  Result<system::CopyInFlight> started = streams_->start(lane, ends, slot.piece.length_bytes);
  if (!started.ok()) return fail(slot, std::move(started).error());
  slot.copy = *started;
  slot.copy_started_ns = share_.host.clock().now_ns();
}

void Reader::filled(Slot& slot) {
  if (slot.piece.length_bytes == 0) return end_piece(slot, 0, std::nullopt);  // nothing there
  slot.state = SlotState::filled;
}

void Reader::begin_drain(Slot& slot) {
  slot.state = SlotState::draining;
  const Job& job = *slot.piece.job;
  if (const GpuMemory* gpu = gpu_end(job.operation.segment.target)) {
    copy(slot, {.gpu = gpu->gpu, .kind = system::CopyKind::to_gpu},
         {.host = slot.data(), .gpu_target = gpu->address.plus(slot.piece.offset_bytes)});
  } else if (job.target_file != nullptr) {
    slot.write_direct = prefers_direct_write(*job.target_file, slot.piece.length_bytes);
  }
}

void Reader::land(Slot& slot) {
  if (slot.state == SlotState::filling) return filled(slot);
  end_piece(slot, slot.piece.length_bytes, std::nullopt);
}

void Reader::fail(Slot& slot, Error error) {
  end_piece(slot, 0, std::move(error));
}

void Reader::end_piece(Slot& slot, std::uint64_t arrived_bytes, std::optional<Error> error) {
  if (!error.has_value()) error = std::move(slot.short_source);
  slot.short_source.reset();
  slot.state = SlotState::free;
  const Piece piece = std::move(slot.piece);
  slot.piece = {};
  completed(share_.queue.finish(piece, arrived_bytes, std::move(error)));
}

void Reader::completed(bool ready) {
  if (ready) share_.host.workers().notify();
}

bool Reader::release() {
  // Copies that ended meanwhile make their slots free.
  for (Slot& slot : ring_.slots()) {
    std::optional<Error> error;
    if (slot.copy.on == nullptr) continue;
    if (streams_->look(slot.copy, error) != system::Landing::flying && slot.landed != nullptr)
      found_again(slot);
  }
  const bool slots = ring_.release();
  return (!streams_.has_value() || streams_->release()) && slots;
}

}  // namespace nobounce::provider::staged
