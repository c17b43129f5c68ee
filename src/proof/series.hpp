// What the witnesses counted over several transfers, with the machine's background taken away.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "evidence/slope.hpp"
#include "evidence/witness.hpp"

namespace nobounce::proof {

/// Rates of the counters while nothing is transferred. It grows with time, not with bytes.
class Background {
 public:
  void take(const evidence::WitnessReading& before, const evidence::WitnessReading& after);
  /// What the counter would have moved by in that time all the same; 0 where nobody knows.
  [[nodiscard]] double of(evidence::WitnessKind kind, std::uint64_t elapsed_ns) const;

 private:
  std::array<double, evidence::witness_count> per_ns_{};
};

/// The points of one kind of transfer, for every witness.
class Series {
 public:
  /// `transfer_ns`: of the transfer alone, which the readings enclose.
  void add(std::uint64_t volume_bytes, std::uint64_t transfer_ns,
           const evidence::WitnessReading& before, const evidence::WitnessReading& after,
           const Background& background);
  [[nodiscard]] const std::vector<evidence::Point>& of(evidence::WitnessKind kind) const {
    return points_[static_cast<std::size_t>(kind)];
  }
  /// Why the counter could not be read, at the first time that it could not.
  [[nodiscard]] const evidence::WitnessValue& failed(evidence::WitnessKind kind) const {
    return failed_[static_cast<std::size_t>(kind)];
  }
  /// The shortest time of the largest volume; 0 where there was none.
  [[nodiscard]] std::uint64_t best_ns() const { return best_ns_; }
  /// Whether host DRAM carried more than a quarter of some volume for others meanwhile.
  [[nodiscard]] bool drowned() const { return drowned_; }

 private:
  std::array<std::vector<evidence::Point>, evidence::witness_count> points_;
  std::array<evidence::WitnessValue, evidence::witness_count> failed_;
  std::uint64_t largest_bytes_ = 0;
  std::uint64_t best_ns_ = 0;
  bool drowned_ = false;
};

}  // namespace nobounce::proof
