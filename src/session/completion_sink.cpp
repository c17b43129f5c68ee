// Dispatches completions to the sinks that wait for them.
#include "session/completion_sink.hpp"

#include <span>

#include "session/check.hpp"

namespace nobounce::session {

core::OperationId Dispatcher::expect(CompletionSink& sink) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.sink = &sink;
  ++slot.generation;
  ++outstanding_;
  return (static_cast<std::uint64_t>(slot.generation) << 32) | index;
}

void Dispatcher::deliver(const core::Completion& completion) {
  const auto index = static_cast<std::uint32_t>(completion.id);
  const auto generation = static_cast<std::uint32_t>(completion.id >> 32);
  check(index < slots_.size() && slots_[index].generation == generation &&
            slots_[index].sink != nullptr,
        "a provider completed an operation that nobody waits for");
  CompletionSink* sink = slots_[index].sink;
  slots_[index].sink = nullptr;
  free_.push_back(index);
  --outstanding_;
  sink->on_completion(completion);
}

std::size_t Dispatcher::dispatch() {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t now_ns = clock_->now_ns();
  Look look{now_ns, now_ns};
  std::size_t delivered = 0;
  for (core::Provider* provider : providers_) delivered += dispatch(*provider, look);
  return delivered;
}

std::size_t Dispatcher::dispatch(core::Provider& provider) {
  const std::uint64_t now_ns = clock_->now_ns();
  Look look{now_ns, now_ns};
  return dispatch(provider, look);
}

std::size_t Dispatcher::dispatch(core::Provider& provider, std::uint64_t earlier_ns) {
  Look look{earlier_ns, 0};
  return dispatch(provider, look);
}

std::size_t Dispatcher::dispatch(core::Provider& provider, Look& look) {
  std::size_t delivered = 0;
  for (;;) {
    const std::size_t count = provider.poll(look.about_ns, std::span(ready_));
    if (count > 0 && look.read_ns == 0) look.read_ns = clock_->now_ns();
    for (std::size_t i = 0; i < count; ++i) {
      if (ready_[i].ended_ns == 0) ready_[i].ended_ns = look.read_ns;
      deliver(ready_[i]);
      ready_[i] = core::Completion{};
    }
    delivered += count;
    if (count < ready_.size()) return delivered;
  }
}

}  // namespace nobounce::session
