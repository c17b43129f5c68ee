// Words of a proof as text.
#include <nobounce/proof.hpp>

namespace nobounce {

std::string_view to_string(PhysicalState value) {
  switch (value) {
    case PhysicalState::separated:
      return "separated";
    case PhysicalState::inconclusive:
      return "inconclusive";
    case PhysicalState::unreadable:
      return "unreadable";
  }
  return "invalid";
}

std::string_view to_string(ProofChangeKind value) {
  switch (value) {
    case ProofChangeKind::appeared:
      return "appeared";
    case ProofChangeKind::vanished:
      return "vanished";
    case ProofChangeKind::changed:
      return "changed";
  }
  return "invalid";
}

}  // namespace nobounce
