// Which machine a report speaks of. Software machines and recordings are named as such in every
// report.
#pragma once

#include <string>

#include "core/json.hpp"
#include "report/style.hpp"

namespace nobounce::report {

struct MachineLabel {
  std::string kind;  ///< live, soft or recorded
  std::string name;

  [[nodiscard]] bool is_live() const { return kind == "live"; }
};

/// The first line of text output, with a line end; empty on a live machine.
[[nodiscard]] std::string banner(const MachineLabel& machine, Style style);

/// `{kind, name}`.
[[nodiscard]] core::Json label_json(const MachineLabel& machine);

}  // namespace nobounce::report
