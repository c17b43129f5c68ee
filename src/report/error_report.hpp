// An Error for people (one line and how to go on) and for programs (`nobounce.error/1`).
#pragma once

#include <string>
#include <vector>

#include <nobounce/error.hpp>
#include "core/json.hpp"
#include "report/style.hpp"

namespace nobounce::report {

/// `nobounce: open a.bin for reading: No such file or directory (os 2)` and, where there is one,
/// `try: REMEDY`.
[[nodiscard]] std::string error_text(const Error& error, Style style);

/// The document `nobounce.error/1`. `receipts`: of transfers that had begun, the failed one last;
/// left out if empty.
[[nodiscard]] core::Json error_json(const Error& error, std::vector<core::Json> receipts = {});

}  // namespace nobounce::report
