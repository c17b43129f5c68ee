// Machine <-> JSON (`nobounce.machine/1`): strict, with defaults filled in, errors by JSON pointer.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nobounce/machine.hpp>
#include "core/json.hpp"

namespace nobounce::core {

/// Reads a machine from text, fills in defaults (complete_machine) and validates it.
/// Unknown fields, wrong types, duplicate keys and dangling references are errors naming `name` and
/// the field.
[[nodiscard]] Result<Machine> machine_from_text(std::string_view text, std::string_view name);

/// The same from a parsed document.
[[nodiscard]] Result<Machine> machine_from_json(const Json& document, std::string_view name);

/// The complete document, every field present, schema first.
[[nodiscard]] Json machine_to_json(const Machine& machine);

/// One `--set /json/pointer=value`. The pointer must exist in the defaulted document; the value is
/// JSON, or else taken as text. The error (origin input) names the nearest existing pointer.
struct MachineSetting {
  std::string pointer;
  std::string value;
};
[[nodiscard]] Result<MachineSetting> parse_setting(std::string_view text);
[[nodiscard]] Result<Machine> apply_settings(const Machine& machine,
                                             const std::vector<MachineSetting>& settings);

/// Fills in what may be left out: one NUMA node, one host bridge, bus addresses, uuids, device
/// numbers, link widths, a port per device below a switch, a `/` mount on the first drive (or
/// without a drive).
void complete_machine(Machine& machine);

}  // namespace nobounce::core
