// Numbers as text: rounding never hides a remainder.
#include <gtest/gtest.h>

#include <limits>

#include "report/quantity.hpp"
#include "report/style.hpp"

namespace nobounce::report {
namespace {

TEST(Quantity, GroupsDigitsByThrees) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(50000001), "50,000,001");
  EXPECT_EQ(grouped(std::numeric_limits<std::uint64_t>::max()), "18,446,744,073,709,551,615");
}

TEST(Quantity, WritesBytesInBinaryUnits) {
  EXPECT_EQ(short_bytes(0), "0 B");
  EXPECT_EQ(short_bytes(1023), "1023 B");
  EXPECT_EQ(short_bytes(1024), "1 KiB");
  EXPECT_EQ(short_bytes(50000001), "47.7 MiB");
  EXPECT_EQ(short_bytes(3ULL << 30), "3 GiB");
  EXPECT_EQ(exact_bytes(12), "12 B");
  EXPECT_EQ(exact_bytes(50000001), "50,000,001 B (47.7 MiB)");
}

TEST(Quantity, SharesAreExactAtBothEnds) {
  EXPECT_EQ(share(0, 100), "0 %");
  EXPECT_EQ(share(100, 100), "100 %");
  EXPECT_EQ(share(1, 50000001), "< 0.1 %");
  EXPECT_EQ(share(50000000, 50000001), "> 99.9 %");
  EXPECT_EQ(share(1, 4), "25.0 %");
  EXPECT_EQ(share(0, 0), "0 %");
}

TEST(Quantity, TimesAndRatesKeepThreeDigits) {
  EXPECT_EQ(duration(999), "999 ns");
  EXPECT_EQ(duration(1500), "1.50 us");
  EXPECT_EQ(duration(12345678), "12.3 ms");
  EXPECT_EQ(duration(250ULL * 1000 * 1000 * 1000), "250 s");
  EXPECT_EQ(rate(12345, 1000), "12.3 GB/s");
  EXPECT_EQ(rate(1000, 1000000), "1.00 MB/s");
  EXPECT_EQ(rate(1, 0), "");
}

TEST(Style, PaintsOnlyWhenTold) {
  EXPECT_EQ(painted("x", Paint::bad, {false}), "x");
  EXPECT_EQ(painted("x", Paint::bad, {true}), "\x1b[31mx\x1b[0m");
  EXPECT_EQ(painted("", Paint::bad, {true}), "");
}

TEST(Style, CountsColumnsNotBytes) {
  EXPECT_EQ(columns_of("├─ a"), 4U);
  EXPECT_EQ(left("ä", 3), "ä  ");
  EXPECT_EQ(right("ä", 3), "  ä");
  EXPECT_EQ(left("long", 2), "long");
}

TEST(Style, WrapsAtBlanksAndKeepsLongWords) {
  EXPECT_EQ(wrapped("one two three", 2, 9), "  one two\n  three\n");
  EXPECT_EQ(wrapped("incomprehensible", 1, 5), " incomprehensible\n");
  EXPECT_EQ(wrapped("", 4, 10), "");
}

}  // namespace
}  // namespace nobounce::report
