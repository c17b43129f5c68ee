// Straight lines through few points: how much of a counter goes with each payload byte. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <nobounce/proof.hpp>

namespace nobounce::evidence {

struct Point {
  std::uint64_t volume_bytes = 0;
  double counted = 0;  ///< background already taken away
};

/// Least squares with an intercept, so that fixed costs do not count as bytes. Needs three points
/// at two volumes at least, else nothing. The error is the slope's standard error.
[[nodiscard]] std::optional<Slope> fit(std::span<const Point> points);

/// Whether two slopes differ by more than five times their combined errors, and by more than
/// `least`.
[[nodiscard]] bool separated(const Slope& first, const Slope& second, double least);

}  // namespace nobounce::evidence
