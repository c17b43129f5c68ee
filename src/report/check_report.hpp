// The preconditions table: one row per pair and direction, and what each row rests on
// (`nobounce.check/1`).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nobounce/cause.hpp>
#include <nobounce/finding.hpp>
#include <nobounce/words.hpp>
#include "core/json.hpp"
#include "report/machine_label.hpp"
#include "report/style.hpp"

namespace nobounce::report {

struct CheckRow {
  Member member = Member::storage;
  std::string source;  ///< `drive:nvme0n1`, `gpu:0`
  std::string target;
  std::string direction;  ///< `read` or `write`, as the file sees it; `copy`; `both` of adapters
  std::string
      path;  ///< the mount point or the path that was asked about; empty where there is none
  FindingState state = FindingState::unknown;  ///< of all findings together
  Verdict verdict = Verdict::unknown;
  bool degraded = false;
  std::vector<Finding> findings;
  std::vector<Cause> causes;  ///< why the verdict is not `direct`
};

/// Peer access is enabled by the copy itself, and nobody can ask beforehand whether that will work:
/// it says nothing against a pair, so it neither changes a verdict nor is shown without being
/// asked.
[[nodiscard]] inline bool only_a_copy_can_tell(const Finding& finding) {
  return finding.cause == Cause::p2p_peer_access_not_enabled &&
         finding.state == FindingState::unknown;
}

/// Something that concerns the whole machine and no single row.
struct CheckNote {
  Cause cause = Cause::none;  ///< none: only to be known
  std::string subject;        ///< `cufile.json`, `NCCL 2.21.5`, `not read`
  std::string text;
};

struct CheckReport {
  MachineLabel machine;
  std::vector<CheckRow> rows;
  std::vector<CheckNote> notes{};
};

struct CheckTextOptions {
  bool met_findings_too = false;
};

/// The table, then every finding that is not met, once, with the number of rows it concerns and
/// what to do.
[[nodiscard]] std::string check_text(const CheckReport& report, CheckTextOptions options,
                                     Style style);

/// The document `nobounce.check/1`; always holds every finding.
[[nodiscard]] core::Json check_json(const CheckReport& report);

}  // namespace nobounce::report
