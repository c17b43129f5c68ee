// The virtual clock of a deterministic software machine: it moves only when work is done or time is
// jumped over.
#pragma once

#include <atomic>
#include <cstdint>

#include "system/host.hpp"

namespace nobounce::fabric {

class SoftClock final : public system::Clock {
 public:
  /// Starts above zero, so that "deadline 0: none" never means the beginning of time.
  static constexpr std::uint64_t start_ns = 1'000'000'000;

  [[nodiscard]] std::uint64_t now_ns() override { return now_ns_.load(std::memory_order_relaxed); }
  void advance(std::uint64_t by_ns) { now_ns_.fetch_add(by_ns, std::memory_order_relaxed); }
  /// Never backwards.
  void jump_to(std::uint64_t time_ns) {
    if (time_ns > now_ns()) now_ns_.store(time_ns, std::memory_order_relaxed);
  }
  /// What a request of that length costs: a latency and 32 bytes a nanosecond.
  void spend(std::uint64_t length_bytes) { advance(200 + length_bytes / 32); }

 private:
  std::atomic<std::uint64_t> now_ns_{start_ns};
};

}  // namespace nobounce::fabric
