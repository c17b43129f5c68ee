// Least squares for three or more volumes.
#include "evidence/slope.hpp"

#include <cmath>

namespace nobounce::evidence {

namespace {
constexpr std::size_t points_min = 3;
constexpr double sigmas_min = 5;
}  // namespace

std::optional<Slope> fit(std::span<const Point> points) {
  if (points.size() < points_min) return std::nullopt;
  const auto count = static_cast<double>(points.size());
  double volume_mean = 0;
  double counted_mean = 0;
  for (const Point& point : points) {
    volume_mean += static_cast<double>(point.volume_bytes) / count;
    counted_mean += point.counted / count;
  }
  double volume_spread = 0;
  double together = 0;
  for (const Point& point : points) {
    const double volume = static_cast<double>(point.volume_bytes) - volume_mean;
    volume_spread += volume * volume;
    together += volume * (point.counted - counted_mean);
  }
  if (volume_spread <= 0) return std::nullopt;
  const double per_byte = together / volume_spread;
  const double start = counted_mean - per_byte * volume_mean;
  double residual = 0;
  for (const Point& point : points) {
    const double off = point.counted - start - per_byte * static_cast<double>(point.volume_bytes);
    residual += off * off;
  }
  return Slope{.per_byte = per_byte, .error = std::sqrt(residual / (count - 2) / volume_spread)};
}

bool separated(const Slope& first, const Slope& second, double least) {
  const double apart = std::abs(first.per_byte - second.per_byte);
  return apart > least && apart > sigmas_min * std::hypot(first.error, second.error);
}

}  // namespace nobounce::evidence
