// Signal: something changed. One counter that threads watch and sleep on, without a lock.
#pragma once

#include <atomic>
#include <cstdint>

namespace nobounce::system {

/// The watcher observes, looks at the world, and sleeps unless the signal was raised in between, so
/// no raise is lost. Built on the kernel's futex: a raise without sleepers is two memory
/// operations.
class Signal {
 public:
  /// What to hand to sleep().
  [[nodiscard]] std::uint32_t observe() const { return raised_.load(std::memory_order_seq_cst); }
  /// Wakes all sleepers. Callable from any thread.
  void raise();
  /// Returns once raised since `observed`, after `timeout_ns` (0: no limit), or for no reason at
  /// all.
  void sleep(std::uint32_t observed, std::uint64_t timeout_ns);

 private:
  std::atomic<std::uint32_t> raised_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace nobounce::system
