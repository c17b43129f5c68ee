// Bytes, shares, times and rates as people read them. Rounding never hides a remainder.
#pragma once

#include <cstdint>
#include <string>

namespace nobounce::report {

/// `50,000,001`.
[[nodiscard]] std::string grouped(std::uint64_t number);

/// `47.7 MiB`; below 1 KiB `12 B`.
[[nodiscard]] std::string short_bytes(std::uint64_t bytes);

/// `50,000,001 B (47.7 MiB)`; below 1 KiB `12 B`.
[[nodiscard]] std::string exact_bytes(std::uint64_t bytes);

/// `99.9 %`. `100 %` and `0 %` are exact: what only rounds to them is written `> 99.9 %` and `< 0.1
/// %`.
[[nodiscard]] std::string share(std::uint64_t part, std::uint64_t whole);

/// `1.23 ms`.
[[nodiscard]] std::string duration(std::uint64_t nanoseconds);

/// `12.3 GB/s` (decimal, as buses are specified); empty where no time passed.
[[nodiscard]] std::string rate(std::uint64_t bytes, std::uint64_t nanoseconds);

}  // namespace nobounce::report
