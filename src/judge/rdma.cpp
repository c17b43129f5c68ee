// Judges every precondition of RDMA with GPU memory: the library, the adapter and its port, what
// may be registered and how, and the bus between adapter and GPU.
#include "judge/rdma.hpp"

#include <charconv>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "core/adapter_distance.hpp"
#include "judge/findings.hpp"
#include "judge/gpu_mode.hpp"
#include "judge/path.hpp"

namespace nobounce::judge {
namespace {

constexpr std::uint64_t window_page_bytes = 64u << 10;
/// Rings and buffers of one connection: less than that registers nothing of use.
constexpr std::uint64_t memlock_needed_bytes = 64u << 20;
constexpr const char* adapter_source = "/sys/class/infiniband";

class RdmaJudge {
 public:
  explicit RdmaJudge(const RdmaQuestion& question)
      : question_(question),
        machine_(question.machine),
        gpu_{DeviceRef::Kind::gpu, static_cast<std::uint16_t>(question.gpu)},
        device_{DeviceRef::Kind::nic, static_cast<std::uint16_t>(question.nic)},
        nic_(machine_.nics.at(question.nic)),
        gpu_name_(device_name(machine_, gpu_)),
        nic_name_(device_name(machine_, device_)),
        pair_(gpu_name_ + " - " + nic_name_) {}

  RdmaJudgement judge() {
    judge_library();
    judge_adapter();
    judge_locked_memory();
    judge_storage_mode(machine_, question_.gpu, result_.findings);
    judge_ways();
    judge_window();
    judge_kind();
    judge_distance();
    judge_bus();
    result_.possible = first_unmet(result_.findings) == Cause::none;
    if (!result_.possible) result_.degraded_causes.clear();
    result_.degraded = !result_.degraded_causes.empty();
    result_.link = path_between(machine_, device_, gpu_).link;
    return std::move(result_);
  }

 private:
  void add(Finding finding) { result_.findings.push_back(std::move(finding)); }

  [[nodiscard]] const core::GpuFacts* gpu_facts() const {
    for (const core::GpuFacts& each : question_.host.gpus) {
      if (each.gpu == question_.gpu) return &each;
    }
    return nullptr;
  }

  // --- library, adapter, port ---

  void judge_library() {
    add(judge_fact({Cause::rdma_verbs_absent, "libibverbs", "libibverbs that can be loaded"},
                   question_.host.rdma.verbs_library, true));
  }

  void judge_adapter() {
    if (machine_.container.inside || machine_.container.infiniband_hidden) {
      const Rule rule{Cause::container_no_infiniband, nic_name_,
                      "/dev/infiniband in the container"};
      add(machine_.container.infiniband_hidden
              ? unmet(rule, "the adapter is in /sys, and /dev/infiniband is not there",
                      "/dev/infiniband")
              : met(rule, "/dev/infiniband is there", "/dev/infiniband"));
    }
    const Rule pairs{Cause::rdma_no_reliable_connection, nic_name_,
                     "queue pairs of type RC (InfiniBand, RoCE)"};
    const std::string driver = nic_.driver.empty() ? "unknown" : nic_.driver;
    add(nic_.reliable_connections ? met(pairs, "driver " + driver, adapter_source)
                                  : unmet(pairs, "driver " + driver + " has none", adapter_source));
    const std::string port = std::string(adapter_source) + "/" + nic_.name + "/ports/1/state";
    const Rule active{Cause::rdma_port_down, nic_name_, "an active port"};
    add(nic_.active ? met(active, "the port is active", port)
                    : unmet(active, "the port is not active", port));
  }

  void judge_locked_memory() {
    const bool inside = machine_.container.inside;
    const Rule rule{inside ? Cause::container_memlock : Cause::rdma_memlock_limit, "host",
                    "a limit of locked memory of 64 MiB or more"};
    const std::string source = "/proc/self/limits";
    const std::string& text = machine_.process.memlock;
    if (text == "unlimited") {
      add(met(rule, "locked memory is not limited", source));
      return;
    }
    std::uint64_t bytes = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), bytes);
    if (text.empty() || code != std::errc() || end != text.data() + text.size()) {
      add(unknown(rule, "the limit of locked memory could not be read", source));
      return;
    }
    const std::string observed = "locked memory is limited to " + text + " bytes";
    add(bytes < memlock_needed_bytes ? unmet(rule, observed, source) : met(rule, observed, source));
  }

  // --- registering GPU memory ---

  /// One of two ways is enough; where there is none, both are said.
  void judge_ways() {
    const core::GpuFacts* facts = gpu_facts();
    const bool product = facts != nullptr && facts->gpudirect_rdma.value.has_value()
                             ? *facts->gpudirect_rdma.value
                             : machine_.gpus[question_.gpu].gpudirect_rdma;
    const bool dmabuf = machine_.kernel.dmabuf && product;
    const bool peermem = machine_.modules.nvidia_peermem && product;
    const Rule by_dmabuf{Cause::rdma_dmabuf_not_supported, gpu_name_,
                         "dma-buf export of GPU memory, or nvidia_peermem"};
    const Rule by_peermem{Cause::rdma_peermem_not_loaded, gpu_name_,
                          "nvidia_peermem loaded, or dma-buf export of GPU memory"};
    const std::string without =
        product ? std::string() : "; this product's memory is not pinned for other devices";
    if (dmabuf) {
      add(met(by_dmabuf, "dma-bufs of GPU memory can be exported",
              "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED"));
    } else if (peermem) {
      add(met(by_dmabuf, "no dma-bufs of GPU memory; nvidia_peermem does instead",
              "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED"));
    } else {
      add(unmet(by_dmabuf, "no dma-bufs of GPU memory" + without,
                "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED"));
    }
    if (peermem) {
      add(met(by_peermem, "nvidia_peermem is loaded", "/proc/modules"));
    } else if (dmabuf) {
      add(met(by_peermem, "not needed: dma-bufs do instead", "/proc/modules"));
    } else {
      add(unmet(by_peermem,
                (machine_.modules.nvidia_peermem ? "nvidia_peermem is loaded"
                                                 : "nvidia_peermem is not loaded") +
                    without,
                "/proc/modules"));
    }
  }

  void judge_window() {
    const Rule rule{Cause::machine_bar1_too_small, gpu_name_,
                    "a BAR1 window that what is registered fits into"};
    const core::GpuFacts* facts = gpu_facts();
    std::uint64_t total = machine_.gpus[question_.gpu].bar1_bytes;
    std::string source = "/sys/bus/pci/devices/*/resource";
    if (facts != nullptr && facts->bar1_total_bytes.has_value()) {
      total = *facts->bar1_total_bytes;
      if (!facts->bar1_source.empty()) source = facts->bar1_source;
    }
    if (total == 0) {
      add(unknown(rule, "the size of BAR1 could not be read", source));
      return;
    }
    std::string observed = "BAR1 of " + std::to_string(total) + " bytes";
    if (total < machine_.gpus[question_.gpu].memory_bytes) {
      observed += ": smaller than the GPU's memory, all of which cannot be registered at once";
    }
    add(total < window_page_bytes ? unmet(rule, observed, source) : met(rule, observed, source));
  }

  void judge_kind() {
    const std::string needed = "GPU memory that the driver exports or pins";
    const std::string observed = "allocation kind: " + std::string(to_string(question_.kind));
    const std::string source = "cuPointerGetAttribute";
    switch (question_.kind) {
      case AllocationKind::device:
        add(met({Cause::memory_kind_managed, gpu_name_, needed}, observed, source));
        return;
      case AllocationKind::vmm:
        add(unknown({Cause::memory_kind_vmm, gpu_name_, needed},
                    observed + ": only where it was created as gpuDirectRDMACapable", source));
        return;
      case AllocationKind::pool:
        add(unmet({Cause::memory_kind_pool, gpu_name_, needed}, observed, source));
        return;
      case AllocationKind::managed:
        add(unmet({Cause::memory_kind_managed, gpu_name_, needed}, observed, source));
        return;
      case AllocationKind::ipc_import:
        add(unmet({Cause::memory_kind_ipc_import, gpu_name_, needed}, observed, source));
        return;
      case AllocationKind::unknown:
      case AllocationKind::host_pinned:
      case AllocationKind::host_pageable:
        add(unknown({Cause::memory_kind_unknown, gpu_name_, needed}, observed, source));
        return;
    }
  }

  // --- where they are ---

  void judge_distance() {
    const core::RankedAdapter nearest = core::adapters_by_distance(machine_, gpu_).front();
    const core::AdapterDistance own = core::adapter_distance(machine_, question_.nic, gpu_);
    const Rule rule{Cause::rdma_wrong_nic, pair_, "no adapter nearer to the GPU than this one"};
    const std::string source = "/sys/bus/pci/devices";
    const std::string here = nic_name_ + " is " + std::string(to_string(own));
    if (!(nearest.distance < own)) {
      add(met(rule, here + " as the GPU, and none is nearer", source));
      return;
    }
    const std::string other = "nic:" + machine_.nics[nearest.nic].name;
    const std::string observed =
        here + " as the GPU; " + other + " is " + std::string(to_string(nearest.distance));
    if (question_.named) {
      Finding finding = unmet(rule, observed, source);
      finding.remedy = "use " + other;
      add(std::move(finding));
      return;
    }
    add(met(rule, observed, source));
    result_.degraded_causes.push_back(rule.cause);
  }

  void judge_bus() {
    PathJudgement path = judge_path(machine_, device_, question_.gpu, question_.host.storage.iommu);
    for (Finding& finding : path.findings) {
      // Both ways of registering map GPU memory for the adapter through the IOMMU: requests then go
      // up to it, and arrive where the host bridge forwards them.
      if (finding.cause == Cause::machine_iommu_translated &&
          finding.state == FindingState::unmet && forwarded()) {
        finding.state = FindingState::unknown;
        finding.observed += "; the driver maps GPU memory through it, and only a probe tells";
        result_.degraded_causes.push_back(finding.cause);
      }
      add(std::move(finding));
    }
    for (const Cause cause : path.degraded_causes) result_.degraded_causes.push_back(cause);
  }

  [[nodiscard]] bool forwarded() const {
    return path_between(machine_, device_, gpu_).forwarding == PeerForwarding::allowed;
  }

  const RdmaQuestion& question_;
  const Machine& machine_;
  DeviceRef gpu_;
  DeviceRef device_;
  const Nic& nic_;
  std::string gpu_name_;
  std::string nic_name_;
  std::string pair_;
  RdmaJudgement result_;
};

}  // namespace

RdmaJudgement judge_rdma(const RdmaQuestion& question) {
  return RdmaJudge(question).judge();
}

}  // namespace nobounce::judge
