// One counter's value, or why there is none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nobounce/cause.hpp>

namespace nobounce::evidence {

struct WitnessValue {
  std::optional<double> value;
  Cause unreadable = Cause::none;
  std::string detail;  ///< the error in words, where unreadable
  /// How often the counter was lost sight of: values with different numbers are not comparable.
  std::uint64_t gaps = 0;

  [[nodiscard]] static WitnessValue counted(double number) { return {number, Cause::none, "", 0}; }
  [[nodiscard]] static WitnessValue none(Cause cause, std::string detail) {
    return {std::nullopt, cause, std::move(detail), 0};
  }
};

/// What a counter moved by between two readings of it.
[[nodiscard]] WitnessValue moved(const WitnessValue& before, const WitnessValue& after);

}  // namespace nobounce::evidence
