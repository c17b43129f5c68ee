// A machine's fields as `nobounce diff` compares them, and what each can matter to.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <nobounce/words.hpp>
#include "core/json.hpp"
#include "report/diff_report.hpp"

namespace nobounce::cli {

/// What a field of a machine can matter to, by whole steps anywhere in its pointer; first match
/// wins.
struct FieldRule {
  std::string_view steps;
  report::DiffWeight weight = report::DiffWeight::other;
  std::string_view members;
  Cause cause = Cause::none;
};

[[nodiscard]] const FieldRule& field_rule(std::string_view pointer);

/// By pointer, the value as text. Of mount options those are left out that say where a client
/// stands and not what it does: `addr=`, `clientaddr=`, `mountaddr=`.
[[nodiscard]] std::map<std::string, std::string> diff_fields(const core::Json& machine);

}  // namespace nobounce::cli
