// The ledgers of running sessions: for people, for programs (`nobounce.stat/1`) and for Prometheus.
#pragma once

#include <string>
#include <vector>

#include <nobounce/ledger.hpp>
#include "core/json.hpp"
#include "report/style.hpp"

namespace nobounce::report {

[[nodiscard]] std::string sessions_text(const std::vector<LedgerSnapshot>& ledgers, Style style);

/// The document `nobounce.stat/1`.
[[nodiscard]] core::Json sessions_json(const std::vector<LedgerSnapshot>& ledgers);

/// The Prometheus text exposition format, version 0.0.4.
[[nodiscard]] std::string sessions_prometheus(const std::vector<LedgerSnapshot>& ledgers);

}  // namespace nobounce::report
