// The line that says what a machine is.
#include "report/machine_label.hpp"

#include <fmt/core.h>

namespace nobounce::report {

std::string banner(const MachineLabel& machine, Style style) {
  if (machine.kind == "soft") {
    return painted(fmt::format("software machine: {} (a model; times and rates mean nothing)",
                               visible(machine.name)),
                   Paint::notice, style) +
           "\n";
  }
  if (machine.kind == "recorded") {
    return painted(fmt::format("recording: {} (judged and reported; moves nothing)",
                               visible(machine.name)),
                   Paint::notice, style) +
           "\n";
  }
  return {};
}

core::Json label_json(const MachineLabel& machine) {
  return core::JsonObject{{"kind", machine.kind}, {"name", machine.name}};
}

}  // namespace nobounce::report
