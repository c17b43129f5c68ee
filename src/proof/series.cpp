// Points and background of a row.
#include "proof/series.hpp"

#include <algorithm>

namespace nobounce::proof {

using evidence::WitnessKind;
using evidence::WitnessValue;

void Background::take(const evidence::WitnessReading& before,
                      const evidence::WitnessReading& after) {
  per_ns_.fill(0);
  if (after.time_ns <= before.time_ns) return;
  for (std::size_t i = 0; i < evidence::witness_count; ++i) {
    const WitnessValue counted = moved(before.values[i], after.values[i]);
    per_ns_[i] = counted.value.value_or(0) / static_cast<double>(after.time_ns - before.time_ns);
  }
}

double Background::of(WitnessKind kind, std::uint64_t elapsed_ns) const {
  return per_ns_[static_cast<std::size_t>(kind)] * static_cast<double>(elapsed_ns);
}

void Series::add(std::uint64_t volume_bytes, std::uint64_t transfer_ns,
                 const evidence::WitnessReading& before, const evidence::WitnessReading& after,
                 const Background& background) {
  const std::uint64_t elapsed_ns = after.time_ns - before.time_ns;
  for (std::size_t i = 0; i < evidence::witness_count; ++i) {
    const WitnessValue counted = moved(before.values[i], after.values[i]);
    if (!counted.value.has_value()) {
      if (failed_[i].unreadable == Cause::none) failed_[i] = counted;
      continue;
    }
    const double others = background.of(static_cast<WitnessKind>(i), elapsed_ns);
    points_[i].push_back({volume_bytes, *counted.value - others});
  }
  drowned_ = drowned_ || background.of(WitnessKind::host_dram, elapsed_ns) >
                             static_cast<double>(volume_bytes) / 4;
  if (volume_bytes > largest_bytes_) {
    largest_bytes_ = volume_bytes;
    best_ns_ = transfer_ns;
  } else if (volume_bytes == largest_bytes_) {
    best_ns_ = std::min(best_ns_, transfer_ns);
  }
}

}  // namespace nobounce::proof
