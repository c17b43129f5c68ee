// A device queue in ordinary memory, for tests: its words, and producers and a consumer of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include <nobounce/device/queue.hpp>

namespace nobounce::support {

inline std::uint64_t test_clock_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

template <typename Ticket = std::uint64_t>
class QueueRig {
 public:
  using Memory = device::QueueMemory<device::NativePlatform, Ticket>;

  explicit QueueRig(std::uint32_t size_log2, std::uint32_t tokens = 8)
      : slots_(static_cast<std::size_t>(device::words_per_slot) << size_log2),
        completions_(tokens * std::size_t{8}) {
    memory_.head = &head_;
    memory_.tail_seen = &tail_seen_;
    memory_.abandoned = &abandoned_;
    memory_.slots = slots_.data();
    memory_.tail = &tail_;
    memory_.state = &state_;
    memory_.completions = completions_.data();
    memory_.size_log2 = size_log2;
    platform_.host_clock = &test_clock_ns;
  }
  QueueRig(const QueueRig&) = delete;
  QueueRig& operator=(const QueueRig&) = delete;

  [[nodiscard]] device::Producer<device::NativePlatform, Ticket> producer() {
    return {platform_, memory_};
  }
  [[nodiscard]] device::Consumer<device::NativePlatform, Ticket> consumer() {
    return {platform_, memory_};
  }
  void set_state(device::State state) {
    platform_.store<device::Order::release, device::Scope::system>(&state_,
                                                                   device::state_word(state));
  }
  [[nodiscard]] Memory& memory() { return memory_; }
  [[nodiscard]] const device::NativePlatform& platform() const { return platform_; }
  [[nodiscard]] const std::vector<std::uint64_t>& slots() const { return slots_; }
  [[nodiscard]] Ticket head() const { return head_; }

 private:
  device::NativePlatform platform_;
  Memory memory_;
  Ticket head_ = 0;
  Ticket tail_seen_ = 0;
  std::uint32_t abandoned_ = 0;
  Ticket tail_ = 0;
  std::uint32_t state_ = 0;
  std::vector<std::uint64_t> slots_;
  std::vector<std::uint64_t> completions_;
};

inline device::Request read_of(std::uint32_t token, std::uint64_t sequence,
                               std::uint64_t offset = 0) {
  device::Request request;
  request.operation = device::Operation::read;
  request.token = token;
  request.sequence = sequence;
  request.offset_bytes = offset;
  request.length_bytes = 4096;
  return request;
}

/// A deadline that no test reaches unless something hangs.
inline std::uint64_t far_ahead() {
  return test_clock_ns() + 60'000'000'000;
}

}  // namespace nobounce::support
