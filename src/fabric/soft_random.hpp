// Seeded random numbers of a software machine: the same seed draws the same sequence everywhere.
// Never the system's.
#pragma once

#include <atomic>
#include <cstdint>

namespace nobounce::fabric {

/// splitmix64 over an atomic counter. Thread-safe; with one thread the sequence depends on the seed
/// alone.
class SoftRandom {
 public:
  explicit SoftRandom(std::uint64_t seed) : state_(seed) {}

  [[nodiscard]] std::uint64_t next() {
    std::uint64_t z =
        state_.fetch_add(0x9e3779b97f4a7c15u, std::memory_order_relaxed) + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// 0 <= n < bound; 0 for bound 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }
  /// True with that probability. Draws nothing for probabilities of 0, so that unused faults change
  /// no sequence.
  [[nodiscard]] bool chance(double probability) {
    if (!(probability > 0)) return false;
    return static_cast<double>(next() >> 11) * 0x1.0p-53 < probability;
  }

 private:
  std::atomic<std::uint64_t> state_;
};

}  // namespace nobounce::fabric
