// What changed between two proofs. Pure.
#pragma once

#include <vector>

#include <nobounce/proof.hpp>

namespace nobounce::proof {

/// Rows are the same row where member, source, target, direction and issuer agree. In the order of
/// `after`; rows that vanished come last. Numbers are not compared: they differ in every run.
[[nodiscard]] std::vector<ProofChange> changes_since(const Proof& before, const Proof& after);

}  // namespace nobounce::proof
