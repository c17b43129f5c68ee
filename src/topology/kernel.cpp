// Reads /proc and /sys/devices/system.
#include "topology/kernel.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "topology/sysfs_text.hpp"

namespace nobounce::topology {
namespace {

constexpr std::uint32_t amd_zen_family = 0x17;
constexpr std::uint32_t intel = 0x8086;

/// The value of `name : value`; empty where the line is of another name.
std::string_view value_of(std::string_view line, std::string_view name) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || trimmed(line.substr(0, colon)) != name) return {};
  return trimmed(line.substr(colon + 1));
}

bool is_virtual_vendor(std::string_view vendor) {
  constexpr std::array<std::string_view, 5> vendors = {"QEMU", "Amazon EC2", "Google", "Xen",
                                                       "VMware, Inc."};
  return std::find(vendors.begin(), vendors.end(), vendor) != vendors.end();
}

/// Kibibytes after `MemTotal:`, in bytes.
std::uint64_t memory_total(std::string_view meminfo) {
  for (const std::string_view line : split(meminfo, '\n')) {
    const std::size_t at = line.find("MemTotal:");
    if (at == std::string_view::npos) continue;
    const std::vector<std::string_view> words = split(trimmed(line.substr(at + 9)), ' ');
    const auto kibibytes = words.empty() ? std::nullopt : number_of(words.front());
    if (kibibytes.has_value() && *kibibytes > 0)
      return static_cast<std::uint64_t>(*kibibytes) * 1024;
  }
  return 0;
}

NumaNode read_numa_node(system::Files& files, const std::string& path) {
  NumaNode node;
  node.memory_bytes = memory_total(text_at(files, path + "/meminfo"));
  const std::string cpus = text_at(files, path + "/cpulist");
  const std::string first = cpus.substr(0, cpus.find_first_of(",-"));
  if (first.empty()) return node;  // memory without processors
  const auto socket =
      number_at(files, "/sys/devices/system/cpu/cpu" + first + "/topology/physical_package_id");
  if (socket.has_value() && *socket >= 0) node.socket = static_cast<std::uint32_t>(*socket);
  return node;
}

/// Whether the kernel was built with CONFIG_PCI_P2PDMA. False where neither file can be read.
bool read_p2pdma(system::Files& files, const std::string& release) {
  if (const Result<std::string> config = files.read("/boot/config-" + release)) {
    return config->find("\nCONFIG_PCI_P2PDMA=y") != std::string::npos;
  }
  const Result<std::string> symbols = files.read("/proc/kallsyms");
  return symbols && symbols->find(" p2pdma_pgmap_ops") != std::string::npos;
}

bool is_loaded(system::Files& files, const std::vector<std::string_view>& loaded,
               const std::string& name) {
  return std::find(loaded.begin(), loaded.end(), name) != loaded.end() ||
         files.exists("/sys/module/" + name);
}

}  // namespace

Processor read_processor(system::Files& files) {
  Processor processor;
  ProcessorFacts& facts = processor.facts;
  facts = ProcessorFacts{text_at(files, "/proc/sys/kernel/arch"), {}, 0, 0, {}};
  const std::string text = text_at(files, "/proc/cpuinfo");
  const auto number = [](std::string_view value) {
    return static_cast<std::uint32_t>(std::max<std::int64_t>(number_of(value).value_or(0), 0));
  };
  for (const std::string_view line : split(text, '\n')) {
    if (facts.vendor.empty()) facts.vendor = value_of(line, "vendor_id");
    if (facts.family == 0) facts.family = number(value_of(line, "cpu family"));
    if (facts.model == 0) facts.model = number(value_of(line, "model"));
    if (facts.name.empty()) facts.name = value_of(line, "model name");
    if (facts.architecture.empty() && !value_of(line, "CPU implementer").empty()) {
      facts.architecture = "aarch64";
    }
    if (const std::string_view flags = value_of(line, "flags"); !flags.empty()) {
      if (facts.architecture.empty()) facts.architecture = "x86_64";
      const std::vector<std::string_view> words = split(flags, ' ');
      processor.guest = std::find(words.begin(), words.end(), "hypervisor") != words.end();
      return processor;
    }
  }
  // Other architectures have no such flag.
  processor.guest = is_virtual_vendor(text_at(files, "/sys/class/dmi/id/sys_vendor"));
  return processor;
}

/// The version in `NVRM version: NVIDIA UNIX ... Kernel Module for x86_64  580.95.05  Release`.
std::string nvidia_version(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  for (const std::string_view word : split(line, ' ')) {
    const bool number = word.find_first_not_of("0123456789.") == std::string_view::npos;
    if (number && word.find('.') != std::string_view::npos) return std::string(word);
  }
  return {};
}

KernelFacts read_kernel(system::Files& files) {
  KernelFacts kernel;
  kernel.release = text_at(files, "/proc/sys/kernel/osrelease");
  kernel.pci_p2pdma = read_p2pdma(files, kernel.release);
  // Exporting GPU memory is a thing of NVIDIA's open kernel modules.
  const std::string version = text_at(files, "/proc/driver/nvidia/version");
  kernel.dmabuf = version.find("Open Kernel Module") != std::string::npos;
  kernel.nvidia_driver = nvidia_version(version);
  kernel.iommu = IommuMode::unknown;
  return kernel;
}

ModuleFacts read_modules(system::Files& files) {
  const std::string text = text_at(files, "/proc/modules");
  std::vector<std::string_view> loaded;
  for (const std::string_view line : split(text, '\n'))
    loaded.push_back(line.substr(0, line.find(' ')));
  ModuleFacts modules;
  modules.nvidia_fs = is_loaded(files, loaded, "nvidia_fs");
  modules.nvidia_peermem =
      is_loaded(files, loaded, "nvidia_peermem") || is_loaded(files, loaded, "nv_peer_mem");
  modules.nvme = is_loaded(files, loaded, "nvme");
  return modules;
}

std::vector<NumaNode> read_numa_nodes(system::Files& files) {
  const std::string root = "/sys/devices/system/node";
  std::vector<NumaNode> nodes;
  for (const std::string& name : names_in(files, root)) {
    if (name.substr(0, 4) != "node") continue;
    const auto number = number_of(std::string_view(name).substr(4));
    if (!number.has_value() || *number < 0 || *number >= 1024) continue;
    const auto index = static_cast<std::size_t>(*number);
    if (index >= nodes.size()) nodes.resize(index + 1);
    nodes[index] = read_numa_node(files, root + "/" + name);
  }
  if (nodes.empty()) nodes.push_back(NumaNode{0, memory_total(text_at(files, "/proc/meminfo"))});
  return nodes;
}

PeerForwarding forwarding_of(const PciTree& tree, std::string_view root,
                             const Processor& processor) {
  if (processor.guest) return PeerForwarding::unknown;
  if (processor.facts.vendor == "AuthenticAMD" && processor.facts.family >= amd_zen_family)
    return PeerForwarding::allowed;
  const PciFunction* first = nullptr;
  for (const PciFunction& function : tree.functions()) {
    if (function.root != root || !function.bridges.empty()) continue;
    const bool first_slot = function.bdf.substr(function.bdf.size() - 4) == "00.0";
    if (first == nullptr && (first_slot || function.is_root_port())) first = &function;
    if (first_slot) first = &function;
  }
  if (first == nullptr) return PeerForwarding::unknown;
  if (first->vendor == intel) {
    constexpr std::array<std::uint32_t, 6> listed = {0x2020, 0x2030, 0x2031,
                                                     0x2032, 0x2033, 0x09a2};
    // Peers below the same host bridge only: true of some pairs, so nothing can be said of the
    // bridge.
    constexpr std::array<std::uint32_t, 4> same_bridge_only = {0x3c00, 0x3c01, 0x2f00, 0x2f01};
    if (std::find(listed.begin(), listed.end(), first->device) != listed.end())
      return PeerForwarding::allowed;
    if (std::find(same_bridge_only.begin(), same_bridge_only.end(), first->device) !=
        same_bridge_only.end()) {
      return PeerForwarding::unknown;
    }
  }
  // Older kernels look at function 00.0 only; without one it depends on the kernel.
  const bool first_slot = first->bdf.substr(first->bdf.size() - 4) == "00.0";
  return first_slot ? PeerForwarding::refused : PeerForwarding::unknown;
}

}  // namespace nobounce::topology
