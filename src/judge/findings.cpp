// Findings by outcome.
#include "judge/findings.hpp"

#include <utility>

namespace nobounce::judge {
namespace {

Finding make(const Rule& rule, FindingState state, std::string observed, std::string source) {
  Finding finding;
  finding.cause = rule.cause;
  finding.subject = rule.subject;
  finding.state = state;
  finding.observed = std::move(observed);
  finding.needed = rule.needed;
  finding.source = std::move(source);
  return finding;
}

}  // namespace

Finding met(const Rule& rule, std::string observed, std::string source) {
  return make(rule, FindingState::met, std::move(observed), std::move(source));
}

Finding unmet(const Rule& rule, std::string observed, std::string source) {
  Finding finding = make(rule, FindingState::unmet, std::move(observed), std::move(source));
  finding.remedy = cause_row(rule.cause).remedy;
  return finding;
}

Finding unknown(const Rule& rule, std::string observed, std::string source, Cause way_to_know) {
  Finding finding = make(rule, FindingState::unknown, std::move(observed), std::move(source));
  if (way_to_know != Cause::none) finding.remedy = cause_row(way_to_know).remedy;
  return finding;
}

Finding judge_fact(const Rule& rule, const core::Fact& fact, bool wanted) {
  if (!fact.value.has_value()) {
    return unknown(rule, fact.observed.empty() ? "not read" : fact.observed, fact.source);
  }
  return *fact.value == wanted ? met(rule, fact.observed, fact.source)
                               : unmet(rule, fact.observed, fact.source);
}

}  // namespace nobounce::judge
