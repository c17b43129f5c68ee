// The mutant that the environment variable NOBOUNCE_MUTANT plants in the
// machines and movers of this test program; none where it is not set.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "fabric/mutant.hpp"

namespace nobounce::test {

enum class ProviderMutant : std::uint8_t {
  none,
#define NOBOUNCE_MUTANT(id, sentence) id,
#include "support/provider_mutants.inc"
#undef NOBOUNCE_MUTANT
};

struct Planted {
  fabric::Mutant fabric = fabric::Mutant::none;
  ProviderMutant provider = ProviderMutant::none;
};

/// What tools/mutants knows a mutant by that nobody has heard of: no failure of
/// a test.
inline constexpr int unknown_mutant_exit_code = 3;

inline Planted read_planted() {
  const char* wanted = std::getenv("NOBOUNCE_MUTANT");
  if (wanted == nullptr || *wanted == '\0') return {};
  if (const auto mutant = fabric::mutant_named(wanted)) return {.fabric = *mutant};
#define NOBOUNCE_MUTANT(id, sentence) \
  if (std::strcmp(wanted, #id) == 0) return {.provider = ProviderMutant::id};
#include "support/provider_mutants.inc"
#undef NOBOUNCE_MUTANT
  std::fprintf(stderr, "NOBOUNCE_MUTANT=%s names no mutant\n", wanted);
  std::_Exit(unknown_mutant_exit_code);
}

inline Planted& planted() {
  static Planted read = read_planted();
  return read;
}

inline bool planted(ProviderMutant mutant) {
  return planted().provider == mutant;
}

/// Plants a mutant of movers for its lifetime: for tests that are to see what
/// becomes of a lie.
class Planting {
 public:
  explicit Planting(ProviderMutant mutant) : before_(planted().provider) {
    planted().provider = mutant;
  }
  ~Planting() { planted().provider = before_; }
  Planting(const Planting&) = delete;
  Planting& operator=(const Planting&) = delete;

 private:
  ProviderMutant before_;
};

}  // namespace nobounce::test
