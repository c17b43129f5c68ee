// The calling thread stays on the processor that is quickest at the moment. Processors of a virtual
// machine share cores with other guests: one may need 1.7 times as long as its neighbour for every
// call, which is no property of what is measured.
#pragma once

#include <sched.h>

#include <cstdint>

#include "bench/measure.hpp"
#include "core/json.hpp"

namespace nobounce::bench {

class OnQuickestCpu {
 public:
  OnQuickestCpu() {
    if (::sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    Samples all;
    double best = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &before_) || !stay_on(cpu)) continue;
      const double took = work_ns();
      all.add(took);
      if (cpu_ >= 0 && took >= best) continue;
      cpu_ = cpu;
      best = took;
    }
    quickest_ = best;
    slowest_ = all.at(1);
    if (cpu_ >= 0) (void)stay_on(cpu_);
  }
  ~OnQuickestCpu() {
    if (cpu_ >= 0) (void)::sched_setaffinity(0, sizeof before_, &before_);
  }
  OnQuickestCpu(const OnQuickestCpu&) = delete;
  OnQuickestCpu& operator=(const OnQuickestCpu&) = delete;

  /// Which one, and how long the same work took there and on the slowest.
  [[nodiscard]] core::Json json() const {
    core::JsonObject row;
    row.emplace_back("cpu", std::int64_t{cpu_});
    row.emplace_back("work_ns", quickest_);
    row.emplace_back("work_ns_on_the_slowest", slowest_);
    return row;
  }

 private:
  static bool stay_on(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return ::sched_setaffinity(0, sizeof one, &one) == 0;
  }
  /// The middle of several, so that one interruption does not count.
  static double work_ns() {
    Samples samples;
    for (int run = 0; run < 9; ++run) {
      const double begin = seconds_now();
      // Independent sums fill the core's units, as calls do: a neighbour that uses them too shows.
      std::uint64_t sums[8] = {1, 2, 3, 4, 5, 6, 7, 8};
      for (int i = 0; i < 10'000; ++i) {
        for (std::uint64_t& sum : sums) {
          sum = sum * 6364136223846793005u + 1442695040888963407u;
          asm volatile("" : "+r"(sum));
        }
      }
      samples.add((seconds_now() - begin) * 1e9);
    }
    return samples.median();
  }

  cpu_set_t before_{};
  int cpu_ = -1;
  double quickest_ = 0;
  double slowest_ = 0;
};

}  // namespace nobounce::bench
