// The slots of one reader.
#include "provider/staged/slot_ring.hpp"

#include <algorithm>
#include <utility>

namespace nobounce::provider::staged {

bool BounceBudget::reserve(std::uint64_t bytes) {
  std::uint64_t held = held_.load();
  do {
    if (bytes > bytes_max_ || held > bytes_max_ - bytes) return false;
  } while (!held_.compare_exchange_weak(held, held + bytes));
  return true;
}

SlotRing::SlotRing(system::Host& host, system::CudaContexts* contexts, BounceBudget& budget,
                   std::uint64_t slot_bytes, std::uint32_t slots_max, bool rotate)
    : host_(host),
      contexts_(contexts),
      budget_(budget),
      slot_bytes_(slot_bytes),
      slots_max_(slots_max),
      rotate_(rotate) {
  slots_.reserve(slots_max);  // pointers to slots stay valid
}

bool SlotRing::can_take() const {
  return slots_.size() < slots_max_ ||
         std::any_of(slots_.begin(), slots_.end(),
                     [](const Slot& slot) { return slot.state == SlotState::free; });
}

Slot* SlotRing::find_free(const SlotNeed& need, bool on_node) {
  Slot* found = nullptr;
  for (Slot& slot : slots_) {
    if (slot.state != SlotState::free || (need.pinned && !slot.buffer.pinned)) continue;
    if (on_node && need.pinned && slot.asked_numa != need.numa) continue;
    if (!rotate_) return &slot;
    if (found == nullptr || slot.taken < found->taken) found = &slot;
  }
  return found;
}

Result<Slot*> SlotRing::take(const SlotNeed& need) {
  Result<Slot*> slot = choose(need);
  if (slot.ok()) (*slot)->taken = ++takes_;
  return slot;
}

Result<Slot*> SlotRing::grow(const SlotNeed& need) {
  Result<system::HostBuffer> buffer = allocate(need);
  if (!buffer.ok()) return std::move(buffer).error();
  slots_.emplace_back().buffer = *buffer;
  slots_.back().asked_numa = need.numa;
  return &slots_.back();
}

Result<Slot*> SlotRing::choose(const SlotNeed& need) {
  if (rotate_ && slots_.size() < slots_max_) {
    if (Result<Slot*> slot = grow(need); slot.ok()) return slot;
  }
  if (Slot* slot = find_free(need, true)) return slot;
  Slot* far = find_free(need, false);
  if (slots_.size() < slots_max_) {
    Result<Slot*> slot = grow(need);
    // Memory on the wrong node is slower, not wrong.
    if (slot.ok() || far == nullptr) return slot;
  }
  if (far != nullptr && !need.worth_moving) return far;
  for (Slot& slot : slots_) {  // a free one that does not suit gives its room
    if (slot.state != SlotState::free) continue;
    host_.memory().free(slot.buffer);
    budget_.give_back(slot_bytes_);
    slot.buffer = {};
    Result<system::HostBuffer> buffer = allocate(need);
    if (!buffer.ok()) {
      slots_.erase(slots_.begin() + (&slot - slots_.data()));
      return std::move(buffer).error();
    }
    slot.buffer = *buffer;
    slot.asked_numa = need.numa;
    return &slot;
  }
  return Error{.origin = ErrorOrigin::session,
               .attempted = "take a slot of bounce memory",
               .cause = Cause::session_pinned_limit};
}

Result<system::HostBuffer> SlotRing::allocate(const SlotNeed& need) {
  if (!budget_.reserve(slot_bytes_)) {
    return Error{.origin = ErrorOrigin::session,
                 .attempted = "allocate a slot of bounce memory",
                 .cause = Cause::session_pinned_limit};
  }
  const auto make = [&]() -> Result<system::HostBuffer> {
    if (!need.pinned) return host_.memory().allocate_plain(slot_bytes_, need.numa);
    const Result<system::cuda::CUcontext> context = contexts_->context(need.gpu);
    if (!context.ok()) return context.error();
    const system::ContextGuard guard(contexts_->table(), *context);
    return host_.memory().allocate_pinned(slot_bytes_, need.numa, system::MemoryUse::bounce);
  };
  Result<system::HostBuffer> buffer = make();
  if (!buffer.ok()) budget_.give_back(slot_bytes_);
  return buffer;
}

bool SlotRing::release() {
  bool all = true;
  for (Slot& slot : slots_) {
    if (slot.buffer.address == nullptr) continue;
    if (slot.copy.on != nullptr) {
      all = false;  // the GPU may still read or write it: it stays allocated for the life of the
                    // process
      continue;
    }
    host_.memory().free(slot.buffer);
    budget_.give_back(slot_bytes_);
    slot.buffer = {};
  }
  return all;
}

}  // namespace nobounce::provider::staged
