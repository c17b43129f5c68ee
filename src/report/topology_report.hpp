// The machine for people: its tree, how far its devices are from one another, and who should work
// with whom.
#pragma once

#include <string>

#include <nobounce/machine.hpp>
#include "report/style.hpp"

namespace nobounce::report {

/// Facts, tree, matrices and best partners, one after the other.
[[nodiscard]] std::string topology_text(const Machine& machine, Style style);

/// The parts.
[[nodiscard]] std::string facts_text(const Machine& machine, Style style);
[[nodiscard]] std::string tree_text(const Machine& machine, Style style);
[[nodiscard]] std::string matrices_text(const Machine& machine, Style style);
[[nodiscard]] std::string partners_text(const Machine& machine, Style style);

/// Whether each GPU has a network adapter of its own nearby, as rail-aligned clusters have.
[[nodiscard]] std::string rails_text(const Machine& machine, Style style);

/// A drawing of the tree.
[[nodiscard]] std::string topology_svg(const Machine& machine);

}  // namespace nobounce::report
