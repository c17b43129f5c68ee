// The host's side of a queue pair: entries first, then the doorbell; phase first, then the entry.
#include "provider/nvme/queue_pair.hpp"

#include <atomic>
#include <cassert>
#include <cstring>

namespace nobounce::provider::nvme {
namespace {

/// Words of memory that a device writes too.
std::atomic_ref<std::uint64_t> word_at(std::byte* address) {
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(address));
}

}  // namespace

QueuePair::QueuePair(system::PciFunction& function, const QueueLayout& layout)
    : function_(function), layout_(layout) {
  assert(layout.entries >= 2 && (layout.entries & (layout.entries - 1)) == 0);
  restart();
}

void QueuePair::restart() {
  submission_tail_ = 0;
  submission_head_ = 0;
  rung_tail_ = 0;
  completion_head_ = 0;
  in_flight_ = 0;
  used_ids_.assign(layout_.entries, false);
  free_ids_.clear();
  for (std::uint32_t id = layout_.entries; id-- > 0;) {
    free_ids_.push_back(static_cast<std::uint16_t>(id));
  }
  // Phases start at zero, or entries of an earlier life would look new.
  for (std::uint64_t at = 0; at < layout_.entries * sizeof(Completion); at += 8) {
    word_at(layout_.completion.address + at).store(0, std::memory_order_release);
  }
}

std::uint64_t QueuePair::doorbell(bool completion) const {
  const std::uint64_t index = 2ull * layout_.id + (completion ? 1 : 0);
  return system::nvme::reg::doorbells + index * layout_.doorbell_stride_bytes;
}

bool QueuePair::has_room() const {
  const bool slot = (submission_tail_ + 1) % layout_.entries != submission_head_;
  // In flight at most entries - 1, so that the completion queue, of the same size, cannot overflow.
  return slot && in_flight_ + 1 < layout_.entries;
}

std::uint16_t QueuePair::submit(Command command) {
  assert(has_room());
  command.id = free_ids_.back();
  free_ids_.pop_back();
  used_ids_[command.id] = true;
  ++in_flight_;
  std::memcpy(layout_.submission.address + submission_tail_ * sizeof command, &command,
              sizeof command);
  submission_tail_ = (submission_tail_ + 1) % layout_.entries;
  return command.id;
}

void QueuePair::ring() {
  if (rung_tail_ == submission_tail_) return;
  rung_tail_ = submission_tail_;
  function_.write32(0, doorbell(false), submission_tail_);
}

bool QueuePair::makes_sense(const Completion& completion) const {
  return completion.id < used_ids_.size() && used_ids_[completion.id] &&
         completion.submission_queue == layout_.id && completion.submission_head < layout_.entries;
}

QueuePair::Polled QueuePair::poll() {
  const std::uint32_t slot = static_cast<std::uint32_t>(completion_head_ % layout_.entries);
  std::byte* entry = layout_.completion.address + slot * sizeof(Completion);
  // The second half holds the phase and comes last; the first half is read after it.
  const std::uint64_t second = word_at(entry + 8).load(std::memory_order_acquire);
  Polled polled;
  std::memcpy(&polled.completion.submission_head, &second, sizeof second);
  if (polled.completion.phase() != expected_phase()) return polled;
  const std::uint64_t first = word_at(entry).load(std::memory_order_relaxed);
  std::memcpy(&polled.completion.result, &first, sizeof first);
  if (!makes_sense(polled.completion)) {
    polled.kind = Polled::Kind::nonsense;
    return polled;
  }
  polled.kind = Polled::Kind::completion;
  ++completion_head_;
  submission_head_ = polled.completion.submission_head;
  used_ids_[polled.completion.id] = false;
  free_ids_.push_back(polled.completion.id);
  --in_flight_;
  // Each at once: a batch would save register writes and make a stalled queue harder to tell.
  function_.write32(0, doorbell(true),
                    static_cast<std::uint32_t>(completion_head_ % layout_.entries));
  return polled;
}

}  // namespace nobounce::provider::nvme
