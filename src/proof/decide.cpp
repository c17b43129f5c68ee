// Joins the static, the runtime and the physical layer.
#include "proof/decide.hpp"

#include <algorithm>
#include <string>

namespace nobounce::proof {
namespace {

enum class Says : std::uint8_t { nothing, direct, staged };

void add_cause(ProofRow& row, Cause cause) {
  if (cause == Cause::none) return;
  if (std::find(row.causes.begin(), row.causes.end(), cause) == row.causes.end())
    row.causes.push_back(cause);
}

void contradict(ProofRow& row, std::string sentence) {
  row.contradictions.push_back(std::move(sentence));
  add_cause(row, Cause::evidence_contradiction);
}

/// What the receipts of the row's transfers say.
Says runtime_says(const RuntimeLayer& runtime) {
  const CarriageBytes& bytes = runtime.bytes;
  const std::uint64_t direct = bytes[Carriage::direct] + bytes[Carriage::device_bounced];
  if (bytes.total() == 0 || bytes[Carriage::unattributed] > 0) return Says::nothing;
  if (direct == bytes.total()) return Says::direct;
  return Says::staged;  // mixed counts as staged: some bytes crossed host memory
}

/// What DRAM traffic says, which is nothing unless the control shows what staging looks like here.
Says physical_says(ProofRow& row) {
  PhysicalLayer& physical = row.physical;
  if (!physical.host_dram_bytes.has_value() || !physical.control_host_dram_bytes.has_value()) {
    physical.state = PhysicalState::unreadable;
    row.missing.push_back("counters of host DRAM");
    add_cause(row, physical.unreadable);
    return Says::nothing;
  }
  const Slope& transfer = *physical.host_dram_bytes;
  const Slope& control = *physical.control_host_dram_bytes;
  if (control.per_byte < dram_bytes_of_staged_min) {
    physical.state = PhysicalState::inconclusive;
    row.missing.push_back(
        "a control run that shows in host DRAM: the counters stand still, or the control did not "
        "stage");
    return Says::nothing;
  }
  if (physical.state == PhysicalState::separated && transfer.per_byte < dram_bytes_of_direct_max)
    return Says::direct;
  if (transfer.per_byte >= dram_bytes_of_staged_min) return Says::staged;
  physical.state = PhysicalState::inconclusive;
  row.missing.push_back("a transfer whose DRAM traffic is clearly none or clearly that of staging");
  return Says::nothing;
}

void judge_with_both(ProofRow& row, Says runtime, Says physical, bool degraded) {
  if (runtime == Says::direct && physical == Says::staged) {
    contradict(
        row, "the receipts say direct, but host DRAM carried as many bytes as the staged control");
    row.verdict = Verdict::staged;
    row.known = Known::witnessed;
    return;
  }
  if (runtime == Says::staged && physical == Says::direct) {
    contradict(row, "the receipts say staged, but host DRAM carried next to nothing");
    row.verdict = Verdict::unknown;
    return;
  }
  if (physical != Says::nothing) {  // they agree, or the receipts could not tell
    row.verdict = physical == Says::staged ? Verdict::staged
                  : degraded               ? Verdict::degraded
                                           : Verdict::direct;
    row.known = Known::witnessed;
    return;
  }
  if (runtime == Says::staged) {  // a mover that admits to staging needs no witness
    row.verdict = Verdict::staged;
    row.known = row.runtime.known;
    return;
  }
  row.verdict = Verdict::unknown;
  row.known = row.runtime.known;
  if (runtime == Says::nothing) row.missing.push_back("receipts that attribute the bytes");
}

/// What happened instead of the direct path. Only a receipt that admits to staging makes it staged.
void judge_refused(ProofRow& row) {
  row.known = row.runtime.known;
  if (row.runtime.bytes.total() == 0) {
    row.verdict = Verdict::impossible;
    return;
  }
  switch (runtime_says(row.runtime)) {
    case Says::staged:
      row.verdict = Verdict::staged;
      return;
    case Says::direct:
      contradict(row, "a precondition is unmet, yet the receipts say direct");
      break;
    case Says::nothing:
      row.missing.push_back("receipts that attribute the bytes");
      break;
  }
  row.verdict = Verdict::unknown;
}

/// The control must have staged, or it is no control.
bool control_staged(ProofRow& row) {
  const CarriageBytes& control = row.runtime.control_bytes;
  if (control.total() > 0 && control[Carriage::staged] == control.total()) return true;
  row.physical.state = PhysicalState::inconclusive;
  row.missing.push_back("a control that stages: its receipts say otherwise");
  return false;
}

}  // namespace

void decide(ProofRow& row, bool was_refused, bool degraded) {
  for (const Finding& finding : row.facts.findings) {
    if (finding.state == FindingState::unmet) add_cause(row, finding.cause);
  }
  if (row.runtime.data_verified.has_value() && !*row.runtime.data_verified) {
    row.verdict = Verdict::broken;
    row.known = Known::witnessed;
    if (runtime_says(row.runtime) == Says::direct) {
      contradict(
          row,
          "the transfers ended well, but the owner of the target read other bytes than were sent");
    }
    if (!was_refused)
      add_cause(row, row.member == Member::p2p ? Cause::p2p_wrong_data : Cause::storage_p2p_lost);
    return;
  }
  if (was_refused) return judge_refused(row);
  if (row.facts.state == FindingState::unmet && runtime_says(row.runtime) == Says::direct) {
    contradict(row, "a precondition is unmet, yet the receipts say direct");
  }
  const Says physical = control_staged(row) ? physical_says(row) : Says::nothing;
  judge_with_both(row, runtime_says(row.runtime), physical, degraded);
}

}  // namespace nobounce::proof
