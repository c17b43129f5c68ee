// Findings: the first precondition that does not hold.
#include <nobounce/finding.hpp>

namespace nobounce {

Cause first_unmet(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    if (finding.state == FindingState::unmet) return finding.cause;
  }
  return Cause::none;
}

}  // namespace nobounce
