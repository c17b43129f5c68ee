// Findings in the making: one function per outcome, so that every rule words them alike.
#pragma once

#include <string>

#include <nobounce/finding.hpp>
#include "core/facts.hpp"

namespace nobounce::judge {

/// What a rule is about, before it is known how it ends.
struct Rule {
  Cause cause = Cause::none;
  std::string subject;
  std::string needed;
};

[[nodiscard]] Finding met(const Rule& rule, std::string observed, std::string source);
/// With the remedy of the cause's row.
[[nodiscard]] Finding unmet(const Rule& rule, std::string observed, std::string source);
/// What could not be read and why. `way_to_know` is the cause whose remedy tells how to find out;
/// none: no remedy.
[[nodiscard]] Finding unknown(const Rule& rule, std::string observed, std::string source,
                              Cause way_to_know = Cause::none);

/// Met where the fact is `wanted`, unmet where it is the opposite, unknown where nobody could read
/// it.
[[nodiscard]] Finding judge_fact(const Rule& rule, const core::Fact& fact, bool wanted);

}  // namespace nobounce::judge
