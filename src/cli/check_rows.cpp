// Rows of the preconditions table.
#include "cli/check_rows.hpp"

#include <algorithm>
#include <utility>

#include "cli/verdict_exit.hpp"

namespace nobounce::cli {

namespace {

std::vector<Cause> causes_in(const std::vector<Finding>& findings, FindingState state) {
  std::vector<Cause> causes;
  for (const Finding& finding : findings) {
    if (finding.state != state || report::only_a_copy_can_tell(finding)) continue;
    if (std::find(causes.begin(), causes.end(), finding.cause) == causes.end())
      causes.push_back(finding.cause);
  }
  return causes;
}

/// Judges a row by its findings.
report::CheckRow concluded(report::CheckRow row, std::vector<Finding> findings,
                           std::vector<Cause> degraded_causes) {
  row.findings = std::move(findings);
  std::vector<Cause> unmet = causes_in(row.findings, FindingState::unmet);
  std::vector<Cause> unknown = causes_in(row.findings, FindingState::unknown);
  if (!unmet.empty()) {
    row.state = FindingState::unmet;
    row.verdict = Verdict::staged;
    row.causes = std::move(unmet);
    return row;
  }
  row.degraded = !degraded_causes.empty();
  if (!unknown.empty()) {
    row.state = FindingState::unknown;
    row.verdict = Verdict::unknown;
    row.causes = std::move(unknown);
    return row;
  }
  row.state = FindingState::met;
  row.verdict = row.degraded ? Verdict::degraded : Verdict::direct;
  row.causes = std::move(degraded_causes);
  return row;
}

report::CheckRow row_of(const StorageRowSubject& subject) {
  report::CheckRow row;
  row.member = Member::storage;
  row.source = subject.writing ? subject.gpu : subject.medium;
  row.target = subject.writing ? subject.medium : subject.gpu;
  row.direction = subject.writing ? "write" : "read";
  row.path = subject.path;
  return row;
}

}  // namespace

report::CheckRow storage_row(const StorageRowSubject& subject, std::vector<Finding> findings,
                             std::vector<Cause> degraded_causes) {
  report::CheckRow row =
      concluded(row_of(subject), std::move(findings), std::move(degraded_causes));
  // Nobody opens it for a transfer, staged or not.
  if (std::any_of(row.findings.begin(), row.findings.end(), [](const Finding& finding) {
        return finding.cause == Cause::storage_not_a_regular_file &&
               finding.state == FindingState::unmet;
      })) {
    row.verdict = Verdict::impossible;
  }
  return row;
}

report::CheckRow missing_path_row(const StorageRowSubject& subject, std::string observed) {
  report::CheckRow row = row_of(subject);
  row.state = FindingState::unmet;
  row.verdict = Verdict::impossible;
  row.causes = {Cause::storage_not_a_regular_file};
  row.findings.push_back(
      {.cause = Cause::storage_not_a_regular_file,
       .subject = subject.path,
       .state = FindingState::unmet,
       .observed = std::move(observed),
       .needed = subject.writing ? "a directory to write the file into" : "a file to read",
       .remedy = "look at the spelling; ls -l shows what is there",
       .source = "stat"});
  return row;
}

report::CheckRow peer_row(const std::string& source, const std::string& target,
                          std::vector<Finding> findings, std::vector<Cause> degraded_causes) {
  report::CheckRow row;
  row.member = Member::p2p;
  row.source = source;
  row.target = target;
  row.direction = "copy";
  return concluded(std::move(row), std::move(findings), std::move(degraded_causes));
}

report::CheckRow async_row(const std::string& issuer, const std::string& gpu,
                           std::vector<Finding> findings, std::vector<Cause> degraded_causes) {
  report::CheckRow row;
  row.member = Member::async;
  row.source = issuer;
  row.target = gpu;
  row.direction = "order";
  row = concluded(std::move(row), std::move(findings), std::move(degraded_causes));
  // What cannot be ordered is not staged instead: it is refused.
  if (row.state == FindingState::unmet) row.verdict = Verdict::impossible;
  return row;
}

report::CheckRow rdma_row(const std::string& gpu, const std::string& adapter,
                          std::vector<Finding> findings, std::vector<Cause> degraded_causes) {
  report::CheckRow row;
  row.member = Member::rdma;
  row.source = gpu;
  row.target = adapter;
  row.direction = "both";
  return concluded(std::move(row), std::move(findings), std::move(degraded_causes));
}

report::CheckRow no_gpu_row() {
  report::CheckRow row;
  row.member = Member::storage;
  row.source = "drive:*";
  row.target = "gpu:*";
  row.direction = "read";
  row.state = FindingState::unmet;
  row.verdict = Verdict::impossible;
  row.causes = {Cause::machine_no_gpu};
  row.findings.push_back(
      {.cause = Cause::machine_no_gpu,
       .subject = "gpu:*",
       .state = FindingState::unmet,
       .observed = "no GPU was found on this machine",
       .needed = "an NVIDIA GPU and its driver",
       .remedy = "nobounce check --machine soft:workstation shows what a machine with GPUs answers",
       .source = "/sys/bus/pci/devices, NVML"});
  return row;
}

int check_exit_code(const std::vector<report::CheckRow>& rows) {
  return worst_exit_code(rows);
}

}  // namespace nobounce::cli
