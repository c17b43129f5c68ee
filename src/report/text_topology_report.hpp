// The topology of a captured text, for people and as `nobounce.text-topology/1`.
#pragma once

#include <string>
#include <vector>

#include "core/json.hpp"
#include "core/text_topology.hpp"
#include "report/style.hpp"

namespace nobounce::report {

/// Tree (where the text shows one), matrices, best partners, rails, and what no text tells.
[[nodiscard]] std::string text_topology_text(const std::vector<core::TextTopology>& topologies,
                                             Style style);
[[nodiscard]] core::Json text_topology_json(const std::vector<core::TextTopology>& topologies);

}  // namespace nobounce::report
