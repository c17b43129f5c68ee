// Judges a path by the kernel's rules for peer requests and the machine's link states.
#include "judge/path.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "judge/findings.hpp"

namespace nobounce::judge {
namespace {

constexpr std::string_view topology_source = "/sys/bus/pci/devices";

class PathJudge {
 public:
  PathJudge(const Machine& machine, DeviceRef device, std::uint32_t gpu)
      : machine_(machine),
        device_(device),
        gpu_{DeviceRef::Kind::gpu, static_cast<std::uint16_t>(gpu)},
        peers_(device.kind == DeviceRef::Kind::gpu),
        path_(path_between(machine, device, gpu_)),
        pair_(device_name(machine, device) + " -> " + device_name(machine, gpu_)) {}

  PathJudgement judge(const core::TextFact& iommu) {
    judge_guest();
    judge_iommu(iommu);
    judge_acs();
    judge_host_bridge();
    judge_links();
    return std::move(result_);
  }

 private:
  void add(Finding finding) { result_.findings.push_back(std::move(finding)); }
  void degrade(Cause cause) { result_.degraded_causes.push_back(cause); }

  void judge_guest() {
    const Rule rule{Cause::machine_guest_topology_hidden, pair_, "the real PCIe topology"};
    if (machine_.guest) {
      add(unknown(rule, "a virtual machine: its hypervisor shows a PCIe tree of its own",
                  "/proc/cpuinfo"));
    } else {
      add(met(rule, "not a virtual machine", "/proc/cpuinfo"));
    }
  }

  void judge_iommu(const core::TextFact& iommu) {
    const Rule rule{Cause::machine_iommu_translated, pair_,
                    "IOMMU off, or passing addresses through"};
    const std::string general = iommu.value.value_or("unknown");
    const std::string mode = worse_mode(own_mode(device_, general), own_mode(gpu_, general));
    const std::string observed = "IOMMU mode: " + mode;
    if (mode == to_string(IommuMode::off) || mode == to_string(IommuMode::identity)) {
      add(met(rule, observed, iommu.source));
    } else if (mode == to_string(IommuMode::translated) && peers_) {
      add(unknown(rule, observed + "; only a verified copy tells whether the driver maps it",
                  iommu.source, rule.cause));
    } else if (mode == to_string(IommuMode::translated)) {
      add(unmet(rule, observed, iommu.source));
    } else {
      add(unknown(rule, "the IOMMU mode could not be read", iommu.source,
                  Cause::machine_iommu_unknown));
    }
  }

  /// What the IOMMU does to a device: its group's domain, where that differs from the kernel's
  /// rule.
  [[nodiscard]] std::string own_mode(DeviceRef device, const std::string& general) const {
    const bool differs = iommu_of(machine_, device) != machine_.kernel.iommu;
    return differs ? std::string(to_string(iommu_of(machine_, device))) : general;
  }

  /// Translated forbids most, then not known, then passing through.
  static std::string worse_mode(const std::string& one, const std::string& other) {
    for (const IommuMode mode : {IommuMode::translated, IommuMode::unknown, IommuMode::identity}) {
      const std::string word(to_string(mode));
      if (one == word || other == word) return word;
    }
    return one;
  }

  /// Every port that redirects lets translated requests pass, and the adapter sends such.
  [[nodiscard]] bool translated_pass() const {
    std::optional<std::uint32_t> nic;
    if (device_.kind == DeviceRef::Kind::nic) nic = device_.index;
    if (device_.kind == DeviceRef::Kind::drive) {  // remote media come by their adapter
      const Parent& parent = machine_.drives[device_.index].parent;
      if (parent.kind == Parent::Kind::nic) nic = parent.index;
    }
    if (!nic.has_value() || machine_.nics[*nic].ats != Answer::yes) return false;
    return std::all_of(path_.ports.begin(), path_.ports.end(), [](const PathPort& port) {
      return port.acs != AcsMode::redirect ||
             ((port.control & acs_bits::direct_translated) != 0 &&
              (port.control & acs_bits::translation_blocking) == 0);
    });
  }

  [[nodiscard]] bool coherent() const { return !peers_ && machine_.gpus[gpu_.index].coherent; }
  /// The link joins the GPU to the processor of its own socket, and to no other.
  [[nodiscard]] bool by_chip_link() const { return coherent() && !path_.crosses_socket; }
  [[nodiscard]] bool by_far_chip_link() const { return coherent() && path_.crosses_socket; }

  [[nodiscard]] std::string ports_with(AcsMode mode) const {
    std::string names;
    for (const PathPort& port : path_.ports) {
      if (port.acs != mode) continue;
      if (!names.empty()) names += ", ";
      names += port.name;
    }
    return names;
  }

  void judge_acs() {
    const Rule rule{Cause::machine_acs_redirect, pair_,
                    "no port on the path that redirects peer requests"};
    const std::string source = std::string(topology_source) + "/*/config";
    if (machine_.guest) {
      add(unknown(rule, "ACS is the host's: a virtual machine does not see it", source));
    } else if (by_chip_link()) {
      add(met(rule, "the GPU is reached over NVLink-C2C, not by a peer request", source));
    } else if (path_.redirected && by_far_chip_link()) {
      add(unknown(rule,
                  ports_with(AcsMode::redirect) +
                      " redirects peer requests upstream; nobody can tell whether they reach a GPU "
                      "behind NVLink-C2C on another socket",
                  source));
    } else if (path_.redirected && translated_pass()) {
      add(met(rule,
              ports_with(AcsMode::redirect) +
                  " redirects, but lets translated requests pass, and the adapter's ATS is on",
              source));
    } else if (path_.redirected) {
      add_by_forwarding(rule, ports_with(AcsMode::redirect) + " redirects peer requests upstream",
                        source);
    } else if (const std::string hidden = ports_with(AcsMode::unknown); !hidden.empty()) {
      add(unknown(rule, "ACS of " + hidden + " could not be read", source,
                  Cause::machine_acs_unreadable));
    } else if (const std::string valid = ports_with(AcsMode::source_validation); !valid.empty()) {
      add(met(rule, valid + " validates sources only, which is harmless", source));
    } else {
      add(met(rule, "no port on the path redirects", source));
    }
  }

  /// Requests that go up to a host bridge arrive only where it forwards them.
  void add_by_forwarding(const Rule& rule, const std::string& observed, std::string source) {
    switch (path_.forwarding) {
      case PeerForwarding::refused:
        if (peers_) {
          // The kernel's list is not the driver's: pairs that it does not know do work, and fail.
          add(unknown(
              rule,
              observed + "; the kernel's list of host bridges that forward does not name this one, "
                         "which NVIDIA's driver does not ask: only a verified copy tells",
              std::move(source), rule.cause));
          return;
        }
        add(unmet(rule,
                  observed + "; the kernel does not allow peer requests through this host bridge",
                  std::move(source)));
        return;
      case PeerForwarding::allowed:
        add(met(rule, observed + "; the host bridge forwards them: slower than below one switch",
                std::move(source)));
        degrade(rule.cause);
        return;
      case PeerForwarding::unknown:
        add(unknown(rule, observed + "; nobody can tell whether the host bridge forwards them",
                    std::move(source)));
        return;
    }
  }

  void judge_host_bridge() {
    const std::string level = level_text(path_);
    const Rule rule{
        path_.crosses_socket ? Cause::machine_cross_socket : Cause::machine_cross_host_bridge,
        pair_, "a common PCIe switch, or a host bridge that forwards peer requests"};
    const std::string source(topology_source);
    if (machine_.guest) {
      add(unknown(rule, level + " as this virtual machine sees it", source));
    } else if (by_chip_link()) {
      add(met({Cause::machine_coherent_link, pair_, "a coherent link, or a common PCIe switch"},
              level + " over PCIe, which says nothing here: NVLink-C2C joins GPU and processor",
              source));
    } else if (by_far_chip_link()) {
      add(unknown(rule,
                  level +
                      ": NVLink-C2C joins the GPU to another socket's processor; nobody can tell "
                      "whether requests from this socket reach it",
                  source));
    } else if (path_.common_switch.has_value()) {
      add(met(rule, level + ": below one PCIe switch", source));
    } else {
      add_by_forwarding(rule,
                        level + (path_.crosses_socket ? ": on different sockets"
                                                      : ": they meet only above a host bridge"),
                        source);
    }
  }

  void judge_links() {
    if (device_.kind == DeviceRef::Kind::drive) {
      const Drive& drive = machine_.drives[device_.index];
      // Remote media hang on the link of their adapter.
      if (drive.parent.kind == Parent::Kind::nic) {
        const DeviceRef nic{DeviceRef::Kind::nic, static_cast<std::uint16_t>(drive.parent.index)};
        judge_link(nic, machine_.nics[drive.parent.index].link,
                   machine_.nics[drive.parent.index].bdf);
      } else {
        judge_link(device_, drive.link, drive.bdf);
      }
    } else if (device_.kind == DeviceRef::Kind::nic) {
      judge_link(device_, machine_.nics[device_.index].link, machine_.nics[device_.index].bdf);
    } else if (peers_) {
      judge_link(device_, machine_.gpus[device_.index].link, machine_.gpus[device_.index].bdf);
    }
    judge_link(gpu_, machine_.gpus[gpu_.index].link, machine_.gpus[gpu_.index].bdf);
  }

  void judge_link(DeviceRef device, const PcieLink& link, const std::string& bdf) {
    const Rule rule{Cause::machine_link_downtrained, device_name(machine_, device),
                    "a link at its full width and speed (a note: slower still works)"};
    const std::string source =
        std::string(topology_source) + "/" + bdf + "/current_link_{speed,width}";
    if (link.generation == 0 || link.width == 0 || link.generation_max == 0 ||
        link.width_max == 0) {
      add(unknown(rule, "the state of the link could not be read", source));
      return;
    }
    std::string observed = "generation " + std::to_string(link.generation) + " of " +
                           std::to_string(link.generation_max) + ", " + std::to_string(link.width) +
                           " of " + std::to_string(link.width_max) + " lanes";
    const bool slow = link.generation < link.generation_max;
    const bool narrow = link.width < link.width_max;
    // GPUs lower their speed when idle, so speed alone is said but not held against them.
    if (narrow || (slow && device.kind != DeviceRef::Kind::gpu)) {
      degrade(rule.cause);
    } else if (slow) {
      observed += " (GPUs lower the speed when idle)";
    }
    add(met(rule, std::move(observed), source));
  }

  const Machine& machine_;
  DeviceRef device_;
  DeviceRef gpu_;
  bool peers_;  ///< two GPUs: their driver decides, not the kernel
  Path path_;
  std::string pair_;
  PathJudgement result_;
};

}  // namespace

PathJudgement judge_path(const Machine& machine, DeviceRef device, std::uint32_t gpu,
                         const core::TextFact& iommu) {
  return PathJudge(machine, device, gpu).judge(iommu);
}

PathJudgement judge_peer_path(const Machine& machine, std::uint32_t source_gpu,
                              std::uint32_t target_gpu, const core::TextFact& iommu) {
  const DeviceRef source{DeviceRef::Kind::gpu, static_cast<std::uint16_t>(source_gpu)};
  return PathJudge(machine, source, target_gpu).judge(iommu);
}

Finding path_unknown(std::string subject, std::string observed, std::string source) {
  return unknown(
      Rule{Cause::machine_link_unknown, std::move(subject), "a known path between the two"},
      std::move(observed), std::move(source));
}

}  // namespace nobounce::judge
