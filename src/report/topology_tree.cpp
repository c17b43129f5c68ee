// The machine's facts and its tree as text.
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "report/quantity.hpp"
#include "report/topology_report.hpp"

namespace nobounce::report {

namespace {

struct Node {
  std::string text;
  std::vector<Node> children;
};

void draw(const std::vector<Node>& nodes, const std::string& margin, std::string& text) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool last = i + 1 == nodes.size();
    text += margin + (last ? "└─ " : "├─ ") + visible(nodes[i].text) + "\n";
    draw(nodes[i].children, margin + (last ? "   " : "│  "), text);
  }
}

std::string link_text(const PcieLink& link) {
  if (link.generation == 0 || link.width == 0) return {};
  std::string text = fmt::format("  Gen{} x{}", link.generation, link.width);
  const bool slower = (link.generation_max != 0 && link.generation < link.generation_max) ||
                      (link.width_max != 0 && link.width < link.width_max);
  if (slower) text += fmt::format(" of Gen{} x{}", link.generation_max, link.width_max);
  return text;
}

std::string spaced(const std::string& text) {
  return text.empty() ? text : "  " + text;
}

std::string mode_text(GpuMode mode) {
  switch (mode) {
    case GpuMode::whole:
      return "";
    case GpuMode::mig:
      return "  (split: MIG)";
    case GpuMode::vgpu:
      return "  (vGPU)";
    case GpuMode::integrated:
      return "  (integrated)";
  }
  return "";
}

std::string port_text(const Nic& nic) {
  if (!nic.active) return "port down";
  const std::string_view layer = nic.link_layer == LinkLayer::unknown
                                     ? std::string_view("unknown link layer")
                                     : to_string(nic.link_layer);
  return nic.rate_gbps == 0 ? std::string(layer) : fmt::format("{} Gb/s {}", nic.rate_gbps, layer);
}

/// ` raid0 over nvme0n1 nvme1n1`
std::string layers_text(const Drive& drive) {
  std::string text = spaced(drive.layer);
  if (drive.parts.empty()) return text;
  text += " over";
  for (const std::string& part : drive.parts) text += " " + part;
  return text;
}

/// Builds the tree from the parents that devices name.
class TreeBuilder {
 public:
  explicit TreeBuilder(const Machine& machine) : machine_(machine) {}

  [[nodiscard]] std::vector<Node> roots() const {
    std::vector<Node> nodes;
    for (std::uint32_t numa = 0; numa < machine_.numa_nodes.size(); ++numa) {
      const NumaNode& entry = machine_.numa_nodes[numa];
      Node node{fmt::format("numa:{}  socket {}{}", numa, entry.socket,
                            entry.memory_bytes == 0 ? "" : spaced(short_bytes(entry.memory_bytes))),
                {}};
      for (std::uint32_t i = 0; i < machine_.host_bridges.size(); ++i) {
        if (machine_.host_bridges[i].numa == numa) node.children.push_back(host_bridge(i));
      }
      nodes.push_back(std::move(node));
    }
    return nodes;
  }

 private:
  /// A virtual machine's own ports say nothing of the ports that its devices really hang under.
  [[nodiscard]] std::string_view acs_text(AcsMode mode) const {
    return machine_.guest ? "not visible in a virtual machine" : to_string(mode);
  }

  [[nodiscard]] Node host_bridge(std::uint32_t index) const {
    const HostBridge& bridge = machine_.host_bridges[index];
    return {fmt::format("host_bridge:{}  peer forwarding {}, ACS {}", index,
                        to_string(bridge.peer_forwarding), acs_text(bridge.acs)),
            below({Parent::Kind::host_bridge, index})};
  }

  [[nodiscard]] std::vector<Node> below(Parent parent) const {
    std::vector<Node> nodes;
    for (std::uint32_t i = 0; i < machine_.switches.size(); ++i) {
      if (machine_.switches[i].parent == parent) nodes.push_back(pci_switch(i));
    }
    for (std::uint32_t i = 0; i < machine_.gpus.size(); ++i) {
      const Gpu& gpu = machine_.gpus[i];
      if (gpu.parent != parent) continue;
      nodes.push_back({fmt::format("gpu:{}{}{}{}  {}, BAR1 {}{}{}", i, spaced(gpu.bdf),
                                   spaced(gpu.product), mode_text(gpu.mode),
                                   short_bytes(gpu.memory_bytes), short_bytes(gpu.bar1_bytes),
                                   link_text(gpu.link), gpu.coherent ? "  NVLink-C2C" : ""),
                       {}});
    }
    for (std::uint32_t i = 0; i < machine_.nics.size(); ++i) {
      const Nic& nic = machine_.nics[i];
      if (nic.parent != parent) continue;
      nodes.push_back({fmt::format("nic:{}{}  {}{}", nic.name, spaced(nic.bdf), port_text(nic),
                                   link_text(nic.link)),
                       below({Parent::Kind::nic, i})});
    }
    for (std::uint32_t i = 0; i < machine_.drives.size(); ++i) {
      const Drive& drive = machine_.drives[i];
      if (drive.parent != parent) continue;
      nodes.push_back({fmt::format("drive:{}{}{}{}{}", drive.name, spaced(drive.bdf),
                                   spaced(drive.driver), layers_text(drive), link_text(drive.link)),
                       mounts_on(drive.name)});
    }
    for (const OtherGpu& gpu : machine_.other_gpus) {
      if (gpu.parent != parent) continue;
      nodes.push_back({fmt::format("another GPU{}  {} {}{}", spaced(gpu.bdf), gpu.vendor,
                                   gpu.pci_id, link_text(gpu.link)),
                       {}});
    }
    return nodes;
  }

  [[nodiscard]] Node pci_switch(std::uint32_t index) const {
    const Switch& entry = machine_.switches[index];
    std::string text = fmt::format("switch:{}  ACS {}", index, acs_text(entry.acs));
    for (const SwitchPort& port : entry.ports) {
      if (port.acs == AcsMode::inherit || port.acs == entry.acs) continue;
      text += fmt::format(", port of {} {}", port.device, to_string(port.acs));
    }
    return {text, below({Parent::Kind::pci_switch, index})};
  }

  [[nodiscard]] std::vector<Node> mounts_on(const std::string& drive) const {
    std::vector<Node> nodes;
    for (const Mount& mount : machine_.mounts) {
      if (mount.drive == drive)
        nodes.push_back({fmt::format("{}  {}  {}", mount.point, mount.type, mount.options), {}});
    }
    return nodes;
  }

  const Machine& machine_;
};

}  // namespace

std::string facts_text(const Machine& machine, Style style) {
  const auto loaded = [](bool flag) { return flag ? "loaded" : "not loaded"; };
  std::string text = fmt::format(
      "{}  Linux {}, IOMMU {}, PCI P2PDMA {}, dma-buf {}{}\n",
      painted(visible(machine.name), Paint::strong, style), visible(machine.kernel.release),
      to_string(machine.kernel.iommu), machine.kernel.pci_p2pdma ? "on" : "off",
      machine.kernel.dmabuf ? "yes" : "no", machine.guest ? ", a virtual machine" : "");
  text += fmt::format("nvidia_fs {}, nvidia_peermem {}, nvme {}, libcufile {}, udev {}\n",
                      loaded(machine.modules.nvidia_fs), loaded(machine.modules.nvidia_peermem),
                      loaded(machine.modules.nvme),
                      machine.libcufile.empty() ? "not installed" : visible(machine.libcufile),
                      machine.udev ? "has records" : "has no records");
  if (machine.container.inside) {
    text += fmt::format("a container{}{}\n", machine.container.runtime.empty() ? "" : ": ",
                        visible(machine.container.runtime));
  }
  if (machine.nvswitches != 0) {
    text += fmt::format("{} NVSwitches, fabric manager {}\n", machine.nvswitches,
                        to_string(machine.fabric_manager));
  }
  for (const Unread& unread : machine.unread) {
    text += fmt::format("not read: {}{}\n", visible(unread.what),
                        unread.needs_root ? " (root could)" : "");
  }
  if (machine.guest) {
    text += painted("The guest hides the real PCIe topology: what follows is what it shows.\n",
                    Paint::notice, style);
  }
  return text;
}

std::string tree_text(const Machine& machine, Style /*style*/) {
  std::string text;
  draw(TreeBuilder(machine).roots(), "", text);
  return text;
}

}  // namespace nobounce::report
