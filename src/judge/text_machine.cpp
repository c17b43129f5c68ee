// Text about the machine: distances, ACS, IOMMU, windows, guests. It says what could be, never what
// was.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "judge/text_case.hpp"

namespace nobounce::judge {

namespace {

using core::CaptureSign;
using core::SignKind;

constexpr std::size_t background_rows_max = 1000;

int level_rank(const std::string& word) {
  if (word.rfind("NV", 0) == 0 || word == "XGMI" || word == "C2C") return 0;
  if (word == "PIX" || word == "PSB") return 1;
  if (word == "PXB") return 2;
  if (word == "PHB") return 3;
  if (word == "NODE") return 4;
  return 5;
}

void blame_level(TextRow& row, const std::string& word) {
  if (word == "SYS") blame(row, Cause::machine_cross_socket);
  if (word == "PHB" || word == "NODE") blame(row, Cause::machine_cross_host_bridge);
}

std::string level_words(const std::string& word) {
  if (word.rfind("NV", 0) == 0) return "the pair is joined by NVLink (" + word + ")";
  if (word == "XGMI") return "the pair is joined by XGMI";
  if (word == "SYS") return "the pair is on different sockets (SYS)";
  if (word == "PHB" || word == "NODE") return "the pair meets above a host bridge (" + word + ")";
  return "the pair meets below a PCIe switch (" + word + ")";
}

/// For each GPU its nearest adapter; for GPUs every pair.
void judge_levels(TextCase& text) {
  std::map<std::string, const CaptureSign*> nearest;
  std::size_t written = 0;
  const bool hidden = text.any(SignKind::nvlink_hidden);
  const bool coherent = text.coherent();
  for (const CaptureSign* sign : text.all(SignKind::level)) {
    const bool first = text_is_gpu(sign->source);
    const bool second = text_is_gpu(sign->target);
    if (first && second) {
      if (++written > background_rows_max) continue;
      std::string reason = level_words(sign->word);
      if (hidden) reason += ", as far as PCIe goes: this form of the matrix hides NVLink";
      TextRow& row = text.add(Member::p2p, Verdict::unknown, sign->source + "-" + sign->target,
                              "both", reason + "; nothing shows a transfer");
      row.source = sign->source;
      row.target = sign->target;
      row.weight = RowWeight::background;
      if (!hidden && !coherent) blame_level(row, sign->word);
      blame(row, Cause::evidence_capability_only);
      cite(row, *sign);
    } else if (first) {
      auto [found, fresh] = nearest.emplace(sign->source, sign);
      if (!fresh && level_rank(sign->word) < level_rank(found->second->word)) found->second = sign;
    }
  }
  for (const auto& [gpu, sign] : nearest) {
    if (++written > 2 * background_rows_max) break;
    TextRow& row =
        text.add(Member::rdma, Verdict::unknown, gpu + "-" + sign->target, "both",
                 level_words(sign->word) + ", and no adapter is nearer; nothing shows a transfer");
    row.source = gpu;
    row.target = sign->target;
    row.weight = RowWeight::background;
    if (coherent) {
      row.verdict.reason +=
          "; the GPU has a coherent link to its processor, so the distance says little";
      blame(row, Cause::machine_coherent_link);
    } else {
      blame_level(row, sign->word);
    }
    blame(row, Cause::evidence_capability_only);
    cite(row, *sign);
  }
}

/// A text that shows devices and nothing else still gets its answer: unknown.
void judge_shown(TextCase& text) {
  const auto has_row = [&text](Member member) {
    return std::any_of(text.rows().begin(), text.rows().end(),
                       [member](const TextRow& row) { return row.verdict.member == member; });
  };
  for (const CaptureSign* sign : text.all(SignKind::topology_shown)) {
    const Member member = sign->word == "legend" || sign->word == "query" || sign->word == "xml"
                              ? Member::rdma
                              : Member::p2p;
    if (has_row(member)) continue;
    TextRow& row =
        text.add(member, Verdict::unknown, member == Member::rdma ? "GPU-NIC" : "GPU pairs", "both",
                 "devices are shown, and no transfer");
    row.weight = RowWeight::background;
    blame(row, Cause::evidence_capability_only);
    cite(row, *sign);
  }
  for (const CaptureSign* sign : text.all(SignKind::graph_shown)) {
    if (sign->word != "lspci" && sign->word != "domain type") continue;
    if (has_row(Member::p2p)) continue;
    TextRow& row = text.add(Member::p2p, Verdict::unknown, "GPU pairs", "both",
                            "the machine is shown, and no transfer");
    row.weight = RowWeight::background;
    blame(row, Cause::evidence_capability_only);
    cite(row, *sign);
  }
}

/// Traffic of memory that nobody compares with a payload.
void judge_counters_alone(TextCase& text) {
  const CaptureSign* sign = text.first(SignKind::counters_alone);
  if (sign == nullptr || !text.rows().empty()) return;
  TextRow& row = text.add(Member::host, Verdict::unknown, "memory", "both",
                          "traffic of the memory controllers is counted; without the bytes of a "
                          "transfer and an idle window beside it that shows no path");
  row.weight = RowWeight::background;
  blame(row, Cause::evidence_text_incomplete);
  cite(row, *sign);
}

TextRow& machine_row(TextCase& text, const CaptureSign& sign, Member member, std::string reason) {
  TextRow& row = text.add(
      member, Verdict::unknown,
      sign.source.empty() ? (member == Member::p2p ? "GPU pairs" : "GPU-NIC") : sign.source, "both",
      std::move(reason));
  row.weight = RowWeight::background;
  cite(row, sign);
  return row;
}

/// A matrix has NVLink between all pairs of GPUs, and shows adapters.
bool pairs_are_bridged(const TextCase& text) {
  bool pairs = false;
  bool adapters = false;
  for (const CaptureSign* sign : text.all(SignKind::level)) {
    const bool pair = text_is_gpu(sign->source) && text_is_gpu(sign->target);
    if (pair && sign->word.rfind("NV", 0) != 0) return false;
    pairs = pairs || pair;
    adapters = adapters || !pair;
  }
  return pairs && adapters;
}

/// Ports that redirect, all in one row per member: whether they lie on a pair's path is not shown.
void judge_acs(TextCase& text) {
  // NVLink crosses no port.
  const bool bridged = pairs_are_bridged(text);
  const bool adapters = text.any(SignKind::nic_shown) || bridged;
  std::vector<Member> members;
  if (!bridged) members.push_back(Member::p2p);
  if (adapters) members.push_back(Member::rdma);
  const auto leave = [&](SignKind kind, Cause cause, const char* reason) {
    const auto& signs = text.all(kind);
    if (signs.empty()) return;
    for (const Member member : members) {
      TextRow& row = machine_row(text, *signs.front(), member, reason);
      if (signs.size() > 1) row.verdict.subject = std::to_string(signs.size()) + " ports";
      for (const CaptureSign* sign : signs) cite(row, *sign);
      blame(row, cause);
      if (text.guest()) {
        blame(row, Cause::machine_guest_topology_hidden);
        cite(row, *text.first(SignKind::guest));
      }
    }
  };
  leave(SignKind::acs_redirect, Cause::machine_acs_redirect,
        "ports redirect peer requests; whether they lie between a pair is not shown");
  leave(SignKind::acs_validation, Cause::machine_acs_source_validation_only,
        "ports validate sources and redirect nothing: harmless; other ports are not shown");
  leave(SignKind::acs_unreadable, Cause::machine_acs_unreadable,
        "the ACS bits cannot be read without root: this is not the same as off");
  leave(SignKind::acs_clear, Cause::evidence_capability_only,
        "the ports that are shown redirect nothing; others may lie on the path");
}

void judge_guest(TextCase& text) {
  const CaptureSign* sign = text.first(SignKind::guest);
  if (sign == nullptr) return;
  for (const Member member : {Member::p2p, Member::rdma}) {
    TextRow& row =
        text.add(member, Verdict::unknown, member == Member::p2p ? "GPU pairs" : "GPU-NIC", "both",
                 "a virtual machine hides the real paths");
    row.weight = RowWeight::background;
    blame(row, Cause::machine_guest_topology_hidden);
    cite(row, *sign);
  }
}

/// `xhci_hcd`, `snd_hda_intel`: the driver of a device that is none of ours. What stands before an
/// address may also be the IOMMU's own words, or the driver that gives the device to a guest.
bool is_driver_of_others(const std::string& word) {
  if (word.empty() || word == "device" || word == "Request" || word == "DMAR" || word == "pci")
    return false;
  const bool name = std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  if (!name) return false;
  for (const char* ours : {"nvidia", "nouveau", "amdgpu", "vfio", "mlx", "bnxt", "nvme", "irdma",
                           "ice", "ionic", "efa", "hfi1", "erdma", "pcieport"}) {
    if (word.rfind(ours, 0) == 0) return false;
  }
  return true;
}

void judge_iommu(TextCase& text) {
  for (const CaptureSign* sign : text.all(SignKind::iommu_fault)) {
    const bool adapter =
        sign->word.find("mlx") != std::string::npos || sign->word.find("bnxt") != std::string::npos;
    const bool drive = sign->word.find("nvme") != std::string::npos;
    const Member member = adapter ? Member::rdma : drive ? Member::storage : Member::p2p;
    // Faults of a device on the root bus (a graphics unit of the processor, audio) say nothing of
    // GPUs, adapters and drives.
    const bool integrated = sign->word.find("nvidia") == std::string::npos && !adapter && !drive &&
                            (sign->source.empty() || sign->source.rfind("00:", 0) == 0 ||
                             sign->source.rfind("0000:00:", 0) == 0);
    const bool other = is_driver_of_others(sign->word);
    std::string reason = "the IOMMU refuses accesses of this device";
    if (integrated) reason = "the IOMMU refuses accesses of a device that may be no GPU";
    if (other)
      reason = "the IOMMU refuses accesses of a device of " + sign->word +
               ", which is no GPU, adapter or drive: nothing is said of those";
    TextRow& row =
        text.add(member, integrated || other ? Verdict::unknown : Verdict::broken,
                 sign->source.empty() ? "unknown device" : sign->source, "both", std::move(reason));
    row.source = sign->source;
    blame(row, other ? Cause::evidence_text_incomplete : Cause::machine_iommu_fault);
    if (other) row.weight = RowWeight::background;
    cite(row, *sign);
  }
  for (const CaptureSign* sign : text.all(SignKind::iommu_translated)) {
    TextRow& row =
        machine_row(text, *sign, Member::p2p,
                    "the IOMMU may translate: a risk for peer access, no proof of a fault");
    blame(row, Cause::machine_iommu_translated);
  }
  for (const CaptureSign* sign : text.all(SignKind::iommu_off)) {
    TextRow& row = machine_row(text, *sign, Member::p2p,
                               "the IOMMU is switched off, so its default type has no effect");
    blame(row, Cause::evidence_capability_only);
  }
}

void judge_refused_dma(TextCase& text) {
  for (const CaptureSign* sign : text.all(SignKind::peer_dma_refused)) {
    const bool drive = sign->word.find("nvme") != std::string::npos || sign->word.empty();
    const bool adapter =
        sign->word.find("mlx") != std::string::npos || sign->word.find("bnxt") != std::string::npos;
    TextRow& row = text.add(adapter ? Member::rdma
                            : drive ? Member::storage
                                    : Member::p2p,
                            Verdict::impossible,
                            sign->target.empty() ? sign->source : sign->source + "-" + sign->target,
                            "both", "the kernel refuses peer DMA between the two devices");
    row.source = sign->source;
    row.target = sign->target;
    blame(row, sign->other == "acs" ? Cause::machine_acs_redirect
                                    : Cause::machine_host_bridge_not_allowed);
    cite(row, *sign);
  }
}

/// A window below the memory of a product whose stock driver offers no peer access anyway.
void judge_windows(TextCase& text) {
  const bool shown = text.any(SignKind::peer_status) || text.any(SignKind::peer_measured) ||
                     text.any(SignKind::peer_access) || text.any(SignKind::peer_use);
  // Where it is the reason of something, that row says all.
  const bool blamed = std::any_of(text.rows().begin(), text.rows().end(), [](const TextRow& row) {
    const std::vector<Cause>& causes = row.verdict.causes;
    return row.verdict.verdict != Verdict::unknown &&
           std::find(causes.begin(), causes.end(), Cause::machine_bar1_too_small) != causes.end();
  });
  for (const CaptureSign* window : text.all(SignKind::bar1_size)) {
    const CaptureSign* memory = text.memory_beside(*window);
    const bool small = memory != nullptr && window->value < memory->value;
    const std::string subject = window->source.empty() ? "GPU" : window->source;
    if (small && text.is_geforce(window->source) && !shown) {
      TextRow& row =
          text.add(Member::p2p, Verdict::impossible, subject, "both",
                   "the stock driver offers no peer access on this product, and a modified "
                   "one needs a window as large as the memory");
      blame(row, Cause::p2p_product_not_supported);
      blame(row, Cause::machine_bar1_too_small);
      cite(row, *window);
      cite(row, *memory);
      continue;
    }
    if (memory == nullptr && window->value >= 1024) continue;
    if (blamed) continue;
    const bool tight = small || window->value < 1024;
    std::string reason =
        "the window covers the memory, so it is no obstacle; nothing shows a registration";
    if (tight)
      reason = "the window is " + std::to_string(static_cast<std::uint64_t>(window->value)) +
               " MiB, which bounds what can be registered at one time; no registration is shown";
    if (small) reason.replace(reason.find(','), 1, ", less than the memory,");
    TextRow& row = text.add(Member::rdma, Verdict::unknown, subject, "both", std::move(reason));
    row.weight = RowWeight::background;
    blame(row, tight ? Cause::machine_bar1_too_small : Cause::evidence_capability_only);
    cite(row, *window);
  }
}

/// Machines with NVSwitches whose fabric manager does not serve them: CUDA does not start.
void judge_fabric(TextCase& text) {
  const CaptureSign* shown = nullptr;
  for (const CaptureSign* sign : text.all(SignKind::fabric_down)) {
    if (shown == nullptr || (shown->word != "version" && sign->word == "version")) shown = sign;
  }
  if (shown == nullptr) return;
  TextRow& row = text.add(
      Member::p2p, Verdict::impossible, "GPU pairs", "both",
      shown->word == "version"
          ? "the fabric manager is of another version than the driver and does not serve it"
          : "CUDA says that the system is not initialized (802): where there are NVSwitches the "
            "fabric manager does not run, or is of another version than the driver");
  blame(row, Cause::machine_fabric_manager_absent);
  for (const CaptureSign* sign : text.all(SignKind::fabric_down)) cite(row, *sign);
}

/// A GPU that is gone: whatever was asked of it fails.
void judge_lost(TextCase& text) {
  for (const CaptureSign* sign : text.all(SignKind::gpu_lost)) {
    TextRow& row = text.add(Member::host, Verdict::broken,
                            sign->source.empty() ? std::string("GPU") : sign->source, "both",
                            "the driver cannot reach this GPU any more: it has fallen off the bus "
                            "(Xid 79), and everything from and to it fails");
    row.format = "gpu_lost";
    cite(row, *sign);
  }
}

void judge_links(TextCase& text) {
  for (const CaptureSign* sign : text.all(SignKind::link_downtrained)) {
    const bool adapter = sign->other.rfind("mlx", 0) == 0 || sign->other.rfind("bnxt", 0) == 0;
    const bool drive = sign->other.rfind("nvme", 0) == 0;
    TextRow& row =
        machine_row(text, *sign,
                    adapter ? Member::rdma
                    : drive ? Member::storage
                            : Member::p2p,
                    sign->other.empty()
                        ? "a link runs below its width (" + sign->word + ")"
                        : "the slot, or a link on the way, gives the device less than it can (" +
                              sign->word + ")");
    blame(row, Cause::machine_link_downtrained);
  }
}

}  // namespace

void judge_text_machine(TextCase& text) {
  judge_iommu(text);
  judge_refused_dma(text);
  judge_acs(text);
  judge_guest(text);
  judge_windows(text);
  judge_links(text);
  judge_lost(text);
  judge_fabric(text);
  judge_levels(text);
  judge_shown(text);
  judge_counters_alone(text);
}

}  // namespace nobounce::judge
