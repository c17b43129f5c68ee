// Three layers of evidence -> a verdict. Pure: the same evidence gives the same verdict.
#pragma once

#include <nobounce/proof.hpp>

namespace nobounce::proof {

/// Slopes below this are "about none", above twice it "staged": a staged byte is written to and
/// read from DRAM.
inline constexpr double dram_bytes_of_direct_max = 0.5;
inline constexpr double dram_bytes_of_staged_min = 1.5;

/// The same for bytes over the links of a pair's GPUs: what is carried counts once or more (1.03
/// with NVLink's overhead, twice for PCIe, which both GPUs count), what is not counts about none.
inline constexpr double link_bytes_of_idle_max = 0.3;
inline constexpr double link_bytes_of_carried_min = 0.8;
inline constexpr double link_bytes_apart_min = 0.5;

/// A session that moves as much as this per payload byte through host memory stages.
inline constexpr double session_bytes_of_staged_min = 1.0;

/// Fills in verdict, known, causes, contradictions and missing of a row from its layers.
/// `was_refused`: the direct path was not tried, because a precondition is unmet; the transfers of
/// the row show what happens instead. `degraded`: direct is slower than it should be.
void decide(ProofRow& row, bool was_refused, bool degraded);

}  // namespace nobounce::proof
