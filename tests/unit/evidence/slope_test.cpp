// Slopes: fixed costs are no bytes, noise shows in the error, and few points say nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "evidence/nvidia_fs_counts.hpp"
#include "evidence/slope.hpp"

namespace nobounce::evidence {
namespace {

TEST(Fit, FindsTheSlopeBeneathAFixedCost) {
  const std::vector<Point> points{{100, 1200}, {200, 1400}, {400, 1800}};
  const std::optional<Slope> slope = fit(points);
  ASSERT_TRUE(slope.has_value());
  EXPECT_NEAR(slope->per_byte, 2, 1e-12);
  EXPECT_NEAR(slope->error, 0, 1e-9);
}

TEST(Fit, PutsNoiseIntoTheError) {
  // By hand: slope 0.3, start 2/3, squared residuals 8/3, volume spread 20000 / 3 points - 2.
  const std::vector<Point> points{{0, 0}, {100, 32}, {200, 60}};
  const std::optional<Slope> slope = fit(points);
  ASSERT_TRUE(slope.has_value());
  EXPECT_NEAR(slope->per_byte, 0.3, 1e-12);
  EXPECT_NEAR(slope->error, std::sqrt(8.0 / 3.0 / 20000), 1e-12);
}

TEST(Fit, SaysNothingOfTooFewPoints) {
  EXPECT_FALSE(fit(std::vector<Point>{}).has_value());
  EXPECT_FALSE(fit(std::vector<Point>{{100, 1}, {200, 2}}).has_value());
  EXPECT_FALSE(fit(std::vector<Point>{{100, 1}, {100, 2}, {100, 3}}).has_value());
}

TEST(Separated, NeedsADistanceAndFiveErrors) {
  EXPECT_TRUE(separated({0, 0}, {2, 0}, 1));
  EXPECT_TRUE(separated({2, 0.1}, {0, 0.1}, 1));
  EXPECT_FALSE(separated({0, 0}, {0.9, 0}, 1));  // apart, but not far enough to mean staging
  EXPECT_FALSE(separated({0, 0.4}, {2, 0}, 1));  // exactly five errors are not more than five
  EXPECT_FALSE(separated({0, 0.3}, {2, 0.3}, 1));
}

TEST(NvidiaFsOperations, AreReadsAndWritesThatCompleted) {
  EXPECT_EQ(nvidia_fs_operations("Reads\t\t: err=0 n=12 ok=11\nWrites\t: err=0 n=3 ok=3\n"), 15U);
  EXPECT_FALSE(nvidia_fs_operations("Reads : n=12\n").has_value());
  EXPECT_FALSE(nvidia_fs_operations("IO stats: Disabled\n").has_value());
  EXPECT_FALSE(nvidia_fs_operations("").has_value());
}

}  // namespace
}  // namespace nobounce::evidence
