// Signs and facts of captured text -> the topologies it shows.
#pragma once

#include <vector>

#include "core/capture.hpp"
#include "core/text_topology.hpp"

namespace nobounce::judge {

/// One per piece that says how far devices are apart, in the order of the text.
[[nodiscard]] std::vector<core::TextTopology> text_topologies(const core::Captures& captures);

}  // namespace nobounce::judge
