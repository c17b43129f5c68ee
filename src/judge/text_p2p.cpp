// Text about pairs of GPUs.
#include <algorithm>
#include <array>

#include "judge/nccl_level.hpp"
#include "judge/text_case.hpp"

namespace nobounce::judge {

namespace {

using core::CaptureSign;
using core::SignKind;

/// An entry of CaptureSign::numbers of peer_measured; below zero where the text has none.
enum MeasuredNumber : std::uint8_t {
  one_way_off,
  one_way_on,
  two_way_off,
  two_way_on,
  latency_off,
  latency_on
};

double measured_number(const CaptureSign& sign, MeasuredNumber which) {
  return which < sign.numbers.size() ? sign.numbers[which] : -1;
}

double measured_ratio(const CaptureSign& sign, MeasuredNumber on, MeasuredNumber off) {
  const double below = measured_number(sign, off);
  const double above = measured_number(sign, on);
  return below > 0 && above >= 0 ? above / below : -1;
}

TextRow& peer_row(TextCase& text, const CaptureSign& sign, Verdict verdict, std::string direction,
                  std::string reason) {
  TextRow& row =
      text.add(Member::p2p, verdict, pair_subject(text, sign.host, sign.source, sign.target),
               std::move(direction), std::move(reason));
  row.source = sign.source;
  row.target = sign.target;
  row.host = sign.host;
  row.process = sign.other;
  cite(row, sign);
  return row;
}

/// The reason why a pair has no peer access, as far as texts tell.
void blame_refusal(const TextCase& text, TextRow& row, const std::string& a, const std::string& b) {
  if (const CaptureSign* status = text.status_of(a, b); status != nullptr) {
    if (status->word == "CNS" || status->word == "TNS") {
      blame(row, Cause::p2p_chipset_not_supported);
      cite(row, *status);
      return;
    }
    if (status->word == "NS" || status->word == "GNS") {
      blame(row, Cause::p2p_product_not_supported);
      cite(row, *status);
      return;
    }
  }
  const std::string first = text.product_of(a);
  const std::string second = text.product_of(b);
  if (!first.empty() && !second.empty() && first != second)
    blame(row, Cause::p2p_different_generations);
  if (text.is_geforce(a) || text.is_geforce(b)) {
    blame(row, Cause::p2p_product_not_supported);
  } else if (row.verdict.causes.empty()) {
    // A product that has peer access elsewhere: then the driver does not trust the board.
    if (text.guest())
      blame(row, Cause::machine_guest_topology_hidden);
    else if (!first.empty() && !second.empty())
      blame(row, Cause::p2p_chipset_not_supported);
  }
}

bool by_nvlink(const TextCase& text, const std::string& a, const std::string& b) {
  const CaptureSign* level = text.level_of(a, b);
  return level != nullptr && level->word.rfind("NV", 0) == 0;
}

/// Offered where the stock driver offers nothing, or by a hypervisor.
bool offer_is_doubtful(const TextCase& text, const std::string& a, const std::string& b) {
  if (by_nvlink(text, a, b)) return false;
  return text.is_geforce(a) || text.is_geforce(b) || text.guest();
}

/// What NCCL_P2P_LEVEL says of the pair. NVLink has a level of its own, which numbers do not name.
bool limit_admits(const TextCase& text, const CaptureSign& setting, const CaptureSign& use) {
  const CaptureSign* level = text.level_of(use.source, use.target);
  const bool bridged = level != nullptr && level->word.rfind("NV", 0) == 0;
  const std::string distance = level == nullptr || bridged ? std::string() : level->word;
  if (bridged && setting.other != "LOC" && setting.other != "0") return true;
  return nccl_level_admits(setting.other, distance, text.nccl_version()).value_or(true);
}

void judge_transports(TextCase& text) {
  for (const CaptureSign* sign : text.all(SignKind::peer_use)) {
    if (sign->other == "cut") {
      TextRow& row = peer_row(text, *sign, Verdict::unknown, "forward",
                              "the line that names the transport is cut off");
      blame(row, Cause::evidence_text_incomplete);
      row.weight = RowWeight::pair_only;
      continue;
    }
    TextRow& row = peer_row(text, *sign, Verdict::direct, "forward",
                            "the library moves the bytes from GPU to GPU (" + sign->word + ")");
    row.use = true;
  }
  for (const CaptureSign* sign : text.all(SignKind::shared_memory)) {
    TextRow& row = peer_row(
        text, *sign, Verdict::staged, "forward",
        "the library moves the bytes through shared memory of the host (" + sign->word + ")");
    const CaptureSign* disabled = text.setting("NCCL_P2P_DISABLE");
    const CaptureSign* level = text.setting("NCCL_P2P_LEVEL");
    if (disabled != nullptr && disabled->other != "0") {
      blame(row, Cause::p2p_disabled_by_setting);
      cite(row, *disabled);
    } else if (level != nullptr && !limit_admits(text, *level, *sign)) {
      blame(row, Cause::p2p_disabled_by_setting);
      cite(row, *level);
    }
    blame(row, Cause::p2p_shared_memory_transport);
    const CaptureSign* status = text.status_of(sign->source, sign->target);
    if (status != nullptr && status->word != "OK")
      blame_refusal(text, row, sign->source, sign->target);
    if (const CaptureSign* refused = text.refusal_of(sign->host, sign->source, sign->target)) {
      cite(row, *refused);
      if (refused->value > 0) blame(row, Cause::machine_nvlink_down);
    }
    const CaptureSign* between = text.level_of(sign->source, sign->target);
    if (between != nullptr && between->word == "SYS" && row.verdict.causes.size() == 1) {
      blame(row, Cause::machine_cross_socket);
      cite(row, *between);
    }
  }
}

/// `GPU0-GPU1` where a text is about two GPUs and names no pair.
std::string only_pair(const TextCase& text, const CaptureSign& sign) {
  if (sign.piece >= text.captures().pieces.size()) return "GPU pairs";
  for (const auto& [name, value] : text.captures().pieces[sign.piece].facts) {
    if (name == "gpus" && value.as_unsigned() != nullptr && *value.as_unsigned() == 2)
      return "GPU0-GPU1";
  }
  return "GPU pairs";
}

void judge_refusals(TextCase& text) {
  const auto decided = text.decided_pairs(Member::p2p);
  for (const CaptureSign* sign : text.all(SignKind::peer_disabled)) {
    if (decided.has(sign->host, sign->source, sign->target)) continue;
    TextRow& row = peer_row(text, *sign, Verdict::impossible, "both",
                            "the driver reports no peer access for the pair");
    if (row.verdict.subject.empty()) row.verdict.subject = only_pair(text, *sign);
    if (sign->value > 0)
      blame(row, Cause::machine_nvlink_down);
    else
      blame_refusal(text, row, sign->source, sign->target);
  }
}

void judge_status(TextCase& text) {
  for (const CaptureSign* sign : text.all(SignKind::peer_status)) {
    // Atomics, NVLink and PCIe properties refuse no copy.
    const bool copies = sign->other.empty() || sign->other == "r" || sign->other == "w";
    const bool refused = sign->word == "NS" || sign->word == "GNS" || sign->word == "CNS" ||
                         sign->word == "TNS" || sign->word == "DR";
    if (copies && refused) {
      const char* direction = sign->other == "r"   ? "read"
                              : sign->other == "w" ? "write"
                                                   : "forward";
      TextRow& row = peer_row(text, *sign, Verdict::impossible, direction,
                              "the driver refuses peer access for the pair (" + sign->word + ")");
      if (sign->word == "DR") {
        blame(row, Cause::p2p_disabled_by_setting);
      } else {
        blame(row, sign->word == "NS" || sign->word == "GNS" ? Cause::p2p_product_not_supported
                                                             : Cause::p2p_chipset_not_supported);
      }
      continue;
    }
    if (sign->word != "OK" && sign->word != "U" && copies) continue;
    if (sign->source > sign->target && text.any(SignKind::level)) continue;  // once per pair
    TextRow& row =
        peer_row(text, *sign, Verdict::unknown, "both",
                 sign->word == "OK" ? "the driver offers peer access; nothing shows a transfer"
                                    : "the driver does not say whether the pair can");
    row.weight = RowWeight::pair_only;
    if (sign->word == "OK" && offer_is_doubtful(text, sign->source, sign->target))
      blame(row, Cause::p2p_advertised_unproven);
    blame(row, Cause::evidence_capability_only);
  }
}

void judge_access(TextCase& text) {
  const auto decided = text.decided_pairs(Member::p2p);
  for (const SignKind kind : {SignKind::peer_access, SignKind::peer_connected}) {
    for (const CaptureSign* sign : text.all(kind)) {
      if (sign->value == 0) {
        const bool said = decided.has(sign->host, sign->source, sign->target);
        if (said && kind == SignKind::peer_connected) continue;
        TextRow& row = peer_row(text, *sign, Verdict::impossible, "forward",
                                "the pair has no peer access, so copies go through host memory");
        blame_refusal(text, row, sign->source, sign->target);
        continue;
      }
      TextRow& row = peer_row(text, *sign, Verdict::unknown, "forward",
                              "peer access is offered; nothing shows a transfer");
      row.weight = RowWeight::pair_only;
      if (offer_is_doubtful(text, sign->source, sign->target))
        blame(row, Cause::p2p_advertised_unproven);
      blame(row, Cause::evidence_capability_only);
    }
  }
}

/// Peer access off and on, of the same pair: only a difference shows that it is engaged.
void judge_measured_pair(TextCase& text, const CaptureSign& sign) {
  const double gain = measured_ratio(sign, one_way_on, one_way_off);
  const double both_gain = measured_ratio(sign, two_way_on, two_way_off);
  const double latency = measured_ratio(sign, latency_on, latency_off);
  const bool quick = latency >= 0 && latency <= 0.5;
  if (gain < 0) {
    TextRow& row = peer_row(text, sign, Verdict::unknown, "forward",
                            "the bandwidth with peer access off, or with it on, is missing");
    row.weight = RowWeight::pair_only;
    blame(row, Cause::evidence_text_incomplete);
    return;
  }
  if (text.cannot(sign.source, sign.target)) return;
  if (gain >= 1.5 || (gain >= 1.1 && quick)) {
    TextRow& row = peer_row(text, sign, Verdict::direct, "forward",
                            "bandwidth rises when peer access is switched on");
    row.use = true;
    return;
  }
  if (gain <= 0.8) {
    TextRow& row = peer_row(text, sign, Verdict::degraded, "forward",
                            "peer access is engaged, and slower than copies through host memory");
    blame(row, Cause::p2p_slower_than_staged);
    const CaptureSign* bar1 = text.smallest_bar1();
    if (bar1 != nullptr && bar1->value < 1024) {
      blame(row, Cause::machine_bar1_too_small);
      cite(row, *bar1);
    }
    return;
  }
  const bool engaged = quick || both_gain >= 1.2;
  TextRow& row = peer_row(text, sign, engaged ? Verdict::degraded : Verdict::unknown, "forward",
                          engaged ? "peer access is engaged, and one way it is as fast as without"
                                  : "bandwidth is the same with peer access off and on");
  blame(row, Cause::p2p_no_gain);
}

void judge_measurements(TextCase& text) {
  for (const CaptureSign* sign : text.all(SignKind::peer_measured))
    judge_measured_pair(text, *sign);
  for (const CaptureSign* sign : text.all(SignKind::peer_bandwidth)) {
    if (sign->word == "checked") {
      TextRow& row =
          peer_row(text, *sign, Verdict::direct, "forward",
                   "a test that needs a peer mapping and compares the data has a result");
      row.use = true;
      continue;
    }
    TextRow& row = peer_row(text, *sign, Verdict::unknown, "forward",
                            sign->word == "mismatch" ? "another test of this run found wrong data"
                                                     : "this version compares no data");
    row.weight = RowWeight::pair_only;
    blame(row, sign->word == "mismatch" ? Cause::p2p_wrong_data : Cause::evidence_capability_only);
  }
}

void judge_data(TextCase& text) {
  for (const CaptureSign* sign : text.all(SignKind::peer_waived)) {
    TextRow& row = text.add(Member::p2p, Verdict::impossible, only_pair(text, *sign), "both",
                            "the test is left out, because the driver refuses a peer mapping");
    if (text.any_geforce())
      blame(row, Cause::p2p_product_not_supported);
    else if (text.any(SignKind::product))
      blame(row, Cause::p2p_chipset_not_supported);
    cite(row, *sign);
  }
  for (const CaptureSign* sign : text.all(SignKind::peer_mismatch)) {
    TextRow& row = text.add(Member::p2p, Verdict::broken, only_pair(text, *sign), "both",
                            "the copy ran, and other data arrived");
    blame(row, Cause::p2p_wrong_data);
    cite(row, *sign);
  }
  for (const CaptureSign* sign : text.all(SignKind::peer_data_bad)) {
    TextRow& row = peer_row(text, *sign, Verdict::broken,
                            sign->direction.empty() ? "forward" : sign->direction,
                            "the owner of the memory does not see what was written");
    if (row.verdict.subject.empty()) row.verdict.subject = only_pair(text, *sign);
    // The hint for readers is the pair; the direction stands beside it.
    blame(row, Cause::p2p_wrong_data);
    if (text.guest()) {
      blame(row, Cause::machine_guest_topology_hidden);
      cite(row, *text.first(SignKind::guest));
    }
  }
  for (const CaptureSign* sign : text.all(SignKind::peer_data_good)) {
    TextRow& row = peer_row(
        text, *sign, Verdict::direct, sign->direction.empty() ? "forward" : sign->direction,
        "the owner of the memory sees what was written through the peer window");
    if (row.verdict.subject.empty()) row.verdict.subject = only_pair(text, *sign);
    row.use = true;
  }
}

void judge_unmapped(TextCase& text) {
  for (const CaptureSign* sign : text.all(SignKind::peer_unmapped)) {
    TextRow& row = peer_row(text, *sign, Verdict::impossible, "forward",
                            "the driver cannot map the peer's window through the IOMMU");
    blame(row, Cause::machine_iommu_translated);
    blame(row, Cause::machine_iommu_fault);
  }
}

}  // namespace

void judge_text_p2p(TextCase& text) {
  judge_transports(text);
  judge_measurements(text);
  judge_data(text);
  judge_unmapped(text);
  judge_refusals(text);
  judge_status(text);
  judge_access(text);
}

}  // namespace nobounce::judge
