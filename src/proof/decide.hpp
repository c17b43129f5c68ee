// Three layers of evidence -> a verdict. Pure: the same evidence gives the same verdict.
#pragma once

#include <nobounce/proof.hpp>

namespace nobounce::proof {

/// Slopes below this are "about none", above twice it "staged": a staged byte is written to and
/// read from DRAM.
inline constexpr double dram_bytes_of_direct_max = 0.5;
inline constexpr double dram_bytes_of_staged_min = 1.5;

/// Fills in verdict, known, causes, contradictions and missing of a row from its layers.
/// `was_refused`: the direct path was not tried, because a precondition is unmet; the transfers of
/// the row show what happens instead. `degraded`: direct is slower than it should be.
void decide(ProofRow& row, bool was_refused, bool degraded);

}  // namespace nobounce::proof
