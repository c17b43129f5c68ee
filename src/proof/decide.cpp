// Joins the static, the runtime and the physical layer.
#include "proof/decide.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "evidence/slope.hpp"
#include "evidence/witness.hpp"

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

/// Of mixed receipts. Where the counters show staging, at most a quarter can have gone directly.
bool claims_half_direct(const RuntimeLayer& runtime) {
  const CarriageBytes& bytes = runtime.bytes;
  const std::uint64_t direct = bytes[Carriage::direct] + bytes[Carriage::device_bounced];
  return bytes.total() > 0 && direct >= bytes.total() - direct;
}

/// What the independent counters say together, and what they lack where they say nothing.
struct Physical {
  Says says = Says::nothing;
  bool excluded = false;  ///< two of them exclude one another
  std::string missing;
};

/// What DRAM traffic says, which is nothing unless the control shows what staging looks like here.
Physical dram_says(ProofRow& row) {
  PhysicalLayer& physical = row.physical;
  if (!physical.host_dram_bytes.has_value() || !physical.control_host_dram_bytes.has_value()) {
    physical.state = PhysicalState::unreadable;
    return {Says::nothing, false, "counters of host DRAM"};
  }
  const Slope& transfer = *physical.host_dram_bytes;
  const Slope& control = *physical.control_host_dram_bytes;
  if (control.per_byte < dram_bytes_of_staged_min) {
    physical.state = PhysicalState::inconclusive;
    return {Says::nothing, false,
            "a control run that shows in host DRAM: the counters stand still, or the control did "
            "not stage"};
  }
  if (physical.state == PhysicalState::separated && transfer.per_byte < dram_bytes_of_direct_max)
    return {Says::direct, false, ""};
  if (transfer.per_byte >= dram_bytes_of_staged_min) return {Says::staged, false, ""};
  physical.state = PhysicalState::inconclusive;
  return {Says::nothing, false,
          "a transfer whose DRAM traffic is clearly none or clearly that of staging"};
}

/// Slopes of a counter where both were read and are told apart.
struct Apart {
  double transfer = 0;
  double control = 0;
};
std::optional<Apart> apart(const PhysicalLayer& physical, evidence::WitnessKind kind) {
  const WitnessSlope* witness = physical.of(evidence::to_string(kind));
  if (witness == nullptr || !witness->separates || !witness->transfer || !witness->control)
    return std::nullopt;
  if (!evidence::separated(*witness->transfer, *witness->control, link_bytes_apart_min))
    return std::nullopt;
  return Apart{witness->transfer->per_byte, witness->control->per_byte};
}

/// What the links' counters say of a pair that NVLink joins: a payload that NVLink carried, or that
/// left PCIe while the control's did not, crossed no host memory.
Says links_say(ProofRow& row) {
  if (const auto nvlink = apart(row.physical, evidence::WitnessKind::gpu_nvlink);
      nvlink && nvlink->transfer >= link_bytes_of_carried_min &&
      nvlink->control < link_bytes_of_idle_max) {
    return Says::direct;
  }
  if (const auto pcie = apart(row.physical, evidence::WitnessKind::gpu_pcie);
      pcie && pcie->transfer < link_bytes_of_idle_max &&
      pcie->control >= link_bytes_of_carried_min) {
    return Says::direct;
  }
  return Says::nothing;
}

/// The payload took PCIe, although the receipts name NVLink.
bool left_nvlink(const ProofRow& row) {
  const WitnessSlope* nvlink = row.physical.of("gpu_nvlink");
  const WitnessSlope* pcie = row.physical.of("gpu_pcie");
  return row.link == Link::nvlink && nvlink != nullptr && pcie != nullptr && nvlink->transfer &&
         pcie->transfer && nvlink->transfer->per_byte < link_bytes_of_idle_max &&
         pcie->transfer->per_byte >= link_bytes_of_carried_min;
}

/// Many copies through host memory, by the session's own calls: they prove staging. None prove
/// nothing.
bool session_staged(const ProofRow& row) {
  const WitnessSlope* copies = row.physical.of("host_copies");
  return copies != nullptr && copies->transfer &&
         copies->transfer->per_byte >= session_bytes_of_staged_min;
}

Physical physical_says(ProofRow& row) {
  Physical result = dram_says(row);
  const Says links = links_say(row);
  if (links == Says::nothing) return result;
  if (result.says == Says::staged) {
    contradict(row,
               "the links' counters say direct, but host DRAM carried as many bytes as the "
               "staged control");
    row.physical.state = PhysicalState::inconclusive;
    return {Says::nothing, true, "counters that agree"};
  }
  row.physical.state = PhysicalState::separated;
  return {links, false, ""};
}

void judge_with_both(ProofRow& row, Says runtime, const Physical& physical, bool degraded) {
  if (physical.says == Says::nothing && !physical.missing.empty()) {
    row.missing.push_back(physical.missing);
    if (row.physical.state == PhysicalState::unreadable) add_cause(row, row.physical.unreadable);
  }
  if (runtime == Says::direct && left_nvlink(row)) {
    contradict(row, "the receipts say NVLink, but NVLink carried nothing and PCIe the payload");
    if (physical.says == Says::nothing) {
      row.verdict = Verdict::unknown;
      row.known = row.runtime.known;
      return;
    }
  }
  if (runtime == Says::direct && physical.says != Says::staged && session_staged(row)) {
    contradict(row,
               "the receipts say direct, but the session itself copied the bytes through host "
               "memory");
    row.verdict = physical.says == Says::direct ? Verdict::unknown : Verdict::staged;
    row.known = Known::counted;
    return;
  }
  if (runtime == Says::direct && physical.says == Says::staged) {
    contradict(
        row, "the receipts say direct, but host DRAM carried as many bytes as the staged control");
    row.verdict = Verdict::staged;
    row.known = Known::witnessed;
    return;
  }
  if (claims_half_direct(row.runtime) && physical.says == Says::staged) {
    contradict(row,
               "the receipts say that half of the bytes or more went directly, but host DRAM "
               "carried as many bytes as the staged control");
  }
  if (runtime == Says::staged && physical.says == Says::direct) {
    contradict(
        row, "the receipts say staged, but counters show that host memory carried next to nothing");
    row.verdict = Verdict::unknown;
    return;
  }
  if (physical.says != Says::nothing) {  // they agree, or the receipts could not tell
    row.verdict = physical.says == Says::staged ? Verdict::staged
                  : degraded                    ? Verdict::degraded
                                                : Verdict::direct;
    row.known = Known::witnessed;
    return;
  }
  if (runtime == Says::staged && !physical.excluded) {
    // A mover that admits to staging needs no witness.
    row.verdict = Verdict::staged;
    row.known = row.runtime.known;
    return;
  }
  row.verdict = Verdict::unknown;
  row.known = row.runtime.known;
  if (runtime == Says::nothing) row.missing.emplace_back("receipts that attribute the bytes");
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
      row.missing.emplace_back("receipts that attribute the bytes");
      break;
  }
  row.verdict = Verdict::unknown;
}

/// The control must have staged, or it is no control.
bool control_staged(ProofRow& row) {
  const CarriageBytes& control = row.runtime.control_bytes;
  if (control.total() > 0 && control[Carriage::staged] == control.total()) return true;
  row.physical.state = PhysicalState::inconclusive;
  row.missing.emplace_back("a control that stages: its receipts say otherwise");
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
      add_cause(row, row.member == Member::p2p    ? Cause::p2p_wrong_data
                     : row.member == Member::rdma ? Cause::rdma_probe_failed
                                                  : Cause::storage_p2p_lost);
    return;
  }
  if (was_refused) return judge_refused(row);
  if (row.facts.state == FindingState::unmet && runtime_says(row.runtime) == Says::direct) {
    contradict(row, "a precondition is unmet, yet the receipts say direct");
  }
  const Physical physical = control_staged(row) ? physical_says(row) : Physical{};
  judge_with_both(row, runtime_says(row.runtime), physical, degraded);
}

}  // namespace nobounce::proof
