// Judges every precondition of a peer copy: what the driver offers, the bus, access, the memory.
#include "judge/peer.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "core/device_refs.hpp"
#include "judge/findings.hpp"
#include "judge/gpu_mode.hpp"
#include "judge/path.hpp"

namespace nobounce::judge {
namespace {

constexpr const char* status_source = "nvmlDeviceGetP2PStatus";
constexpr const char* access_source = "cuDeviceCanAccessPeer";

using core::gpu_ref;

bool says_no(PeerStatus status) {
  return status != PeerStatus::ok && status != PeerStatus::unknown;
}

/// The driver's word on a pair, and whose word it is.
struct Word {
  PeerStatus status = PeerStatus::unknown;
  std::string of;
  [[nodiscard]] std::string text() const {
    return "peer status of " + of + ": " + std::string(to_string(status));
  }
};

class PeerJudge {
 public:
  explicit PeerJudge(const PeerQuestion& question)
      : question_(question),
        machine_(question.machine),
        path_(path_between(machine_, gpu_ref(question.source), gpu_ref(question.target))),
        pair_(device_name(machine_, gpu_ref(question.source)) + " -> " +
              device_name(machine_, gpu_ref(question.target))),
        word_(word()),
        can_access_(can_access()) {}

  PeerJudgement judge() {
    judge_pair_mode(machine_, question_.source, question_.target, by_nvlink(), result_.findings);
    judge_product();
    judge_generations();
    judge_chipset();
    judge_setting();
    judge_advertised();
    judge_bus();
    judge_access();
    judge_memory(question_.source, question_.source_kind, question_.target, question_.target_kind);
    judge_memory(question_.target, question_.target_kind, question_.source, question_.source_kind);
    result_.possible = first_unmet(result_.findings) == Cause::none;
    result_.suspect = suspect();
    if (!result_.possible) result_.degraded_causes.clear();
    result_.degraded = !result_.degraded_causes.empty();
    result_.link = path_.link;
    return std::move(result_);
  }

 private:
  void add(Finding finding) { result_.findings.push_back(std::move(finding)); }
  [[nodiscard]] bool by_nvlink() const { return path_.nvlink_count > 0; }

  // --- what the driver says ---

  [[nodiscard]] const core::PeerFacts* facts(std::uint32_t source, std::uint32_t target) const {
    for (const core::PeerFacts& each : question_.host.peers) {
      if (each.source == source && each.target == target) return &each;
    }
    return nullptr;
  }

  /// The pair's own status where it was read, else the worse of what is said of the two GPUs.
  [[nodiscard]] Word word() const {
    if (const auto* pair = facts(question_.source, question_.target); pair != nullptr) {
      for (const std::optional<PeerStatus>& status : {pair->read, pair->write}) {
        if (status.has_value() && says_no(*status)) return {*status, pair_};
      }
      if (pair->read == PeerStatus::ok && pair->write == PeerStatus::ok) {
        return {PeerStatus::ok, pair_};
      }
    }
    Word word{PeerStatus::ok, "both GPUs"};
    for (const std::uint32_t gpu : {question_.source, question_.target}) {
      const PeerStatus status = machine_.gpus[gpu].peer_status;
      const std::string name = device_name(machine_, gpu_ref(gpu));
      if (says_no(status)) return {status, name};
      if (status == PeerStatus::unknown) word = {status, name};
    }
    return word;
  }

  /// Both ways: a copy is enabled in both contexts.
  [[nodiscard]] core::Fact can_access() const {
    core::Fact both{true, "each GPU may access the other", access_source};
    for (const auto& [source, target] : {std::pair{question_.source, question_.target},
                                         std::pair{question_.target, question_.source}}) {
      const core::PeerFacts* pair = facts(source, target);
      if (pair == nullptr || !pair->can_access.value.has_value()) {
        both.value.reset();
      } else if (!*pair->can_access.value) {
        return pair->can_access;
      }
    }
    if (!both.value.has_value()) both.observed = "the driver was not asked";
    return both;
  }

  /// The driver refuses, and its status does not say why.
  [[nodiscard]] bool refused_without_reason() const {
    return can_access_.value == false && !says_no(word_.status);
  }

  [[nodiscard]] bool same_product() const {
    return machine_.gpus[question_.source].product == machine_.gpus[question_.target].product;
  }

  /// The product and the chipset limit PCIe: NVLink works without them where the driver says so.
  void judge_status(const Rule& rule, bool is_the_reason) {
    if (is_the_reason && by_nvlink() && can_access_.value == true) {
      add(met(rule,
              word_.text() + ", over PCIe; " + level_text(path_) + "; " + can_access_.observed,
              access_source));
    } else if (is_the_reason) {
      add(unmet(rule, word_.text(), status_source));
    } else if (word_.status != PeerStatus::unknown) {
      add(met(rule, word_.text(), status_source));
    } else if (can_access_.value == true) {
      add(met(rule, can_access_.observed, access_source));
    } else {
      add(unknown(rule, "the peer status could not be read", status_source));
    }
  }

  void judge_product() {
    const Rule rule{Cause::p2p_product_not_supported, pair_, "products with peer access"};
    if (refused_without_reason() && same_product()) {
      add(unmet(rule, can_access_.observed + "; " + word_.text(), access_source));
      return;
    }
    judge_status(rule, word_.status == PeerStatus::gns || word_.status == PeerStatus::ns);
  }

  void judge_generations() {
    const Rule rule{Cause::p2p_different_generations, pair_,
                    "the same product twice, or two that the driver lets access each other"};
    const std::string& first = machine_.gpus[question_.source].product;
    const std::string& second = machine_.gpus[question_.target].product;
    if (first.empty() || second.empty()) {
      add(unknown(rule, "the products could not be read", "nvmlDeviceGetName"));
    } else if (same_product()) {
      add(met(rule, "both are " + first, "nvmlDeviceGetName"));
    } else if (can_access_.value == true) {
      add(met(rule, first + " and " + second + "; " + can_access_.observed, access_source));
    } else if (refused_without_reason()) {
      add(unmet(rule, first + " and " + second + "; " + can_access_.observed, access_source));
    } else {
      add(unknown(rule, first + " and " + second, "nvmlDeviceGetName"));
    }
  }

  void judge_chipset() {
    judge_status({Cause::p2p_chipset_not_supported, pair_, "a chipset that the driver trusts"},
                 word_.status == PeerStatus::cns || word_.status == PeerStatus::tns);
  }

  void judge_setting() {
    judge_status({Cause::p2p_disabled_by_setting, pair_, "peer access not switched off"},
                 word_.status == PeerStatus::dr);
  }

  /// Offered where it is not sold: by a hypervisor's word, or by a modified driver.
  void judge_advertised() {
    const Rule rule{Cause::p2p_advertised_unproven, pair_, "peer access as sold"};
    const auto is_consumer = [this](std::uint32_t gpu) {
      return machine_.gpus[gpu].product.find("GeForce RTX") != std::string::npos;
    };
    if (by_nvlink()) {
      add(met(rule, level_text(path_), "nvmlDeviceGetNvLinkState"));
    } else if (machine_.guest) {
      add(unknown(rule, "a virtual machine: the hypervisor may vouch for what it cannot know",
                  "/proc/cpuinfo", rule.cause));
    } else if (is_consumer(question_.source) || is_consumer(question_.target)) {
      add(unknown(rule, "a product that is sold without peer access over PCIe", "nvmlDeviceGetName",
                  rule.cause));
    } else {
      add(met(rule, "nothing hints at a modified driver", "nvmlDeviceGetName"));
    }
  }

  // --- bus ---

  void judge_bus() {
    if (by_nvlink()) {
      add(met(
          {path_.crosses_socket ? Cause::machine_cross_socket : Cause::machine_cross_host_bridge,
           pair_, "NVLink, a common PCIe switch, or a host bridge that forwards"},
          level_text(path_) + ": no PCIe port or host bridge is on the way",
          "nvmlDeviceGetNvLinkState"));
      return;
    }
    PathJudgement path =
        judge_peer_path(machine_, question_.source, question_.target, question_.host.storage.iommu);
    std::move(path.findings.begin(), path.findings.end(), std::back_inserter(result_.findings));
    result_.degraded_causes = std::move(path.degraded_causes);
  }

  /// The path's first doubt, else plainly that the data was wrong.
  [[nodiscard]] Cause suspect() const {
    for (const Finding& finding : result_.findings) {
      if (finding.state != FindingState::unknown) continue;
      for (const Cause doubt : {Cause::machine_acs_redirect, Cause::machine_iommu_translated,
                                Cause::machine_cross_host_bridge, Cause::machine_cross_socket}) {
        if (finding.cause == doubt && !machine_.guest) return doubt;
      }
    }
    for (const Cause degraded : result_.degraded_causes) {
      if (degraded != Cause::machine_link_downtrained) return degraded;
    }
    return Cause::p2p_wrong_data;
  }

  // --- access and memory ---

  void judge_access() {
    add(unknown({Cause::p2p_peer_access_not_enabled, pair_, "peer access enabled in both contexts"},
                "it cannot be queried, only tried: the first copy of the pair does",
                "cuCtxEnablePeerAccess"));
  }

  void judge_memory(std::uint32_t gpu, AllocationKind kind, std::uint32_t other,
                    AllocationKind other_kind) {
    const std::string name = device_name(machine_, gpu_ref(gpu));
    const std::string peer = device_name(machine_, gpu_ref(other));
    const std::string needed = "GPU memory that " + peer + " may access";
    const std::string observed = "allocation kind: " + std::string(to_string(kind));
    const std::string source = "cuPointerGetAttribute";
    switch (kind) {
      case AllocationKind::device:
        add(met({Cause::memory_kind_managed, name, needed}, observed, source));
        return;
      case AllocationKind::managed:
        add(unmet({Cause::memory_kind_managed, name, needed}, observed, source));
        return;
      case AllocationKind::host_pageable:
        add(unmet({Cause::memory_kind_pageable, name, needed}, observed, source));
        return;
      case AllocationKind::host_pinned:
        add(unmet({Cause::memory_kind_unknown, name, needed}, observed + ": not GPU memory",
                  source));
        return;
      case AllocationKind::vmm:
        add(unknown({Cause::memory_kind_vmm, name, needed},
                    observed + ": each mapping needs cuMemSetAccess for " + peer +
                        ", which the first copy tries",
                    "cuMemGetAccess"));
        return;
      case AllocationKind::pool:
        add(unknown({Cause::memory_kind_pool, name, needed},
                    observed + ": the pool needs cuMemPoolSetAccess for " + peer +
                        ", which the first copy tries",
                    "cuMemPoolGetAccess"));
        return;
      case AllocationKind::ipc_import:
        if (other_kind == AllocationKind::ipc_import) {
          add(unmet({Cause::memory_kind_ipc_import, name, needed},
                    observed + " on both ends: neither GPU reaches the other's", source));
          return;
        }
        add(unknown({Cause::memory_kind_ipc_import, name, needed},
                    observed + ": " + name +
                        " alone reaches it and copies by its access to the other end; only a "
                        "verified copy tells",
                    source));
        return;
      case AllocationKind::unknown:
        add(unknown({Cause::memory_kind_unknown, name, needed}, observed, source));
        return;
    }
  }

  const PeerQuestion& question_;
  const Machine& machine_;
  Path path_;
  std::string pair_;
  Word word_;
  core::Fact can_access_;
  PeerJudgement result_;
};

}  // namespace

PeerJudgement judge_peer(const PeerQuestion& question) {
  PeerJudgement nothing;
  if (question.source == question.target) return nothing;
  for (const std::uint32_t gpu : {question.source, question.target}) {
    if (gpu < question.machine.gpus.size()) continue;
    nothing.findings.push_back(
        unmet({Cause::machine_no_gpu, "gpu:" + std::to_string(gpu), "a GPU of that number"},
              std::to_string(question.machine.gpus.size()) + " GPUs on this machine",
              "/sys/bus/pci/devices"));
  }
  return nothing.findings.empty() ? PeerJudge(question).judge() : nothing;
}

void settle(std::vector<Finding>& judged, std::vector<Finding> tried) {
  for (Finding& finding : tried) {
    const auto same = std::find_if(judged.begin(), judged.end(), [&finding](const Finding& each) {
      return each.cause == finding.cause && each.subject == finding.subject;
    });
    if (same == judged.end()) {
      judged.push_back(std::move(finding));
    } else if (finding.state != FindingState::unknown) {
      *same = std::move(finding);
    }
  }
}

}  // namespace nobounce::judge
