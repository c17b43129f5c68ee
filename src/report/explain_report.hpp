// What captured texts amount to, for people and for programs (`nobounce.explain/1`).
#pragma once

#include <string>

#include "core/explanation.hpp"
#include "core/json.hpp"
#include "report/style.hpp"

namespace nobounce::report {

/// One block per verdict, worst first: what is so, why, which line says it, what to do. Rows that
/// differ in their subject only share a block.
[[nodiscard]] std::string explanation_text(const core::Explanation& explanation, Style style);

/// The document `nobounce.explain/1`.
[[nodiscard]] core::Json explanation_json(const core::Explanation& explanation);

}  // namespace nobounce::report
