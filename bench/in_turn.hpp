// Two ways to do the same, timed in turn: whatever slows the machine down for a while slows both.
#pragma once

#include <algorithm>
#include <cstdint>

#include "bench/measure.hpp"
#include "bench/quickest_cpu.hpp"

namespace nobounce::bench {

/// In rounds, each on the processor that is quickest when it begins: a processor's neighbours come
/// and go within seconds. What is added is the middle of what the rounds say, each by its medians.
class InTurn {
 public:
  /// `times` per round of each, a tenth of them at a stretch, but several: to change the way at
  /// each step would have both begin cold, as nobody does who moves many. False where one of them
  /// fails.
  template <typename Plain, typename Ours>
  [[nodiscard]] bool run(std::uint64_t times, Plain&& plain, Ours&& ours) {
    const std::uint64_t stretch = std::max<std::uint64_t>(times / 10, 5);
    for (int round = 0; round < rounds; ++round) {
      const OnQuickestCpu here;
      Samples plain_us;
      Samples ours_us;
      Samples warm;
      if (!add(warm, stretch, plain) || !add(warm, stretch, ours)) return false;
      for (std::uint64_t done = 0; done < times; done += stretch) {
        if (!add(plain_us, stretch, plain) || !add(ours_us, stretch, ours)) return false;
      }
      const double plain_here = plain_us.median();
      const double ours_here = ours_us.median();
      added_us_.add(ours_here - plain_here);
      of_plain_.add(ours_here > 0 ? plain_here / ours_here : 0);
      plain_.values.insert(plain_.values.end(), plain_us.values.begin(), plain_us.values.end());
      ours_.values.insert(ours_.values.end(), ours_us.values.begin(), ours_us.values.end());
    }
    return true;
  }
  [[nodiscard]] const Samples& plain_us() const { return plain_; }
  [[nodiscard]] const Samples& ours_us() const { return ours_; }
  /// Of the rounds.
  [[nodiscard]] const Samples& added_us() const { return added_us_; }
  [[nodiscard]] const Samples& of_plain() const { return of_plain_; }

 private:
  static constexpr int rounds = 9;

  template <typename Move>
  [[nodiscard]] static bool add(Samples& samples, std::uint64_t times, Move&& move) {
    for (std::uint64_t i = 0; i < times; ++i) {
      const double begin = seconds_now();
      if (!move()) return false;
      samples.add((seconds_now() - begin) * 1e6);
    }
    return true;
  }

  Samples plain_;
  Samples ours_;
  Samples added_us_;
  Samples of_plain_;
};

/// A row of a result: the ways by their names, and what the second adds to the first.
[[nodiscard]] inline core::JsonObject in_turn_json(const InTurn& measured) {
  core::JsonObject row;
  row.emplace_back("plain_us", measured.plain_us().json());
  row.emplace_back("direct_us", measured.ours_us().json());
  row.emplace_back("added_us", measured.added_us().median());
  row.emplace_back("added_us_of_rounds", measured.added_us().json());
  row.emplace_back("direct_of_plain", measured.of_plain().median());
  return row;
}

}  // namespace nobounce::bench
