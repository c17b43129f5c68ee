// Planted faults of a software machine: there to be noticed by the tests, so that a test that
// notices nothing is noticed. No machine outside the tests has one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace nobounce::fabric {

enum class Mutant : std::uint8_t {
  none,
#define NOBOUNCE_MUTANT(id, sentence) id,
#include "fabric/mutants.inc"
#undef NOBOUNCE_MUTANT
};

[[nodiscard]] inline std::optional<Mutant> mutant_named(std::string_view name) {
  static constexpr auto names = std::to_array<std::pair<std::string_view, Mutant>>({
#define NOBOUNCE_MUTANT(id, sentence) {#id, Mutant::id},
#include "fabric/mutants.inc"
#undef NOBOUNCE_MUTANT
  });
  for (const auto& [known, mutant] : names) {
    if (known == name) return mutant;
  }
  return std::nullopt;
}

}  // namespace nobounce::fabric
