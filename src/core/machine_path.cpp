// How two devices of a machine are joined: the bridge they meet at, and every port in between.
#include <algorithm>
#include <cassert>
#include <charconv>
#include <system_error>

#include <nobounce/machine.hpp>

namespace nobounce {

namespace {

// One step upwards: out of a device, through a downstream port of a switch or a root port.
struct Hop {
  Parent into;
  PathPort port;
};

Parent parent_of(const Machine& machine, DeviceRef device) {
  switch (device.kind) {
    case DeviceRef::Kind::gpu:
      return machine.gpus.at(device.index).parent;
    case DeviceRef::Kind::nic:
      return machine.nics.at(device.index).parent;
    case DeviceRef::Kind::drive:
      return machine.drives.at(device.index).parent;
    default:
      return Parent{};
  }
}

// Remote media have no place of their own on the bus: they sit where their NIC sits.
DeviceRef on_the_bus(const Machine& machine, DeviceRef device) {
  if (device.kind == DeviceRef::Kind::drive) {
    const Parent parent = machine.drives.at(device.index).parent;
    if (parent.kind == Parent::Kind::nic) {
      return DeviceRef{DeviceRef::Kind::nic, static_cast<std::uint16_t>(parent.index)};
    }
  }
  return device;
}

std::string port_device_name(DeviceRef device) {
  const std::string index = std::to_string(device.index);
  if (device.kind == DeviceRef::Kind::gpu) return "gpu:" + index;
  if (device.kind == DeviceRef::Kind::nic) return "nic:" + index;
  return "drive:" + index;
}

struct Acs {
  AcsMode mode = AcsMode::off;
  std::uint32_t control = 0;
};

Acs port_acs(const Machine& machine, const Parent& parent, const std::string& child) {
  const bool by_switch = parent.kind == Parent::Kind::pci_switch;
  AcsMode mode =
      by_switch ? machine.switches.at(parent.index).acs : machine.host_bridges.at(parent.index).acs;
  const std::vector<SwitchPort>& ports = by_switch ? machine.switches.at(parent.index).ports
                                                   : machine.host_bridges.at(parent.index).ports;
  for (const SwitchPort& port : ports) {
    if (port.device != child) continue;
    if (port.acs != AcsMode::inherit) mode = port.acs;
    return {mode, acs_control(mode, port.acs_control)};
  }
  return {mode, acs_control(mode)};
}

PathPort path_port(const Machine& machine, const Parent& parent, const std::string& child) {
  const Acs acs = port_acs(machine, parent, child);
  return PathPort{to_string(parent) + "/" + child, acs.mode, acs.control};
}

// From the device up to its host bridge, which is the last hop.
std::vector<Hop> hops_up(const Machine& machine, DeviceRef device) {
  std::vector<Hop> hops;
  std::string child = port_device_name(device);
  Parent parent = parent_of(machine, device);
  while (true) {
    hops.push_back(Hop{parent, path_port(machine, parent, child)});
    if (parent.kind == Parent::Kind::host_bridge) return hops;
    assert(hops.size() <= machine.switches.size() && "a machine with a cycle was not validated");
    child = to_string(parent);
    parent = machine.switches.at(parent.index).parent;
  }
}

bool is_memory(DeviceRef device) {
  return device.kind == DeviceRef::Kind::host;
}

bool exists(const Machine& machine, DeviceRef device) {
  switch (device.kind) {
    case DeviceRef::Kind::gpu:
      return device.index < machine.gpus.size();
    case DeviceRef::Kind::nic:
      return device.index < machine.nics.size();
    case DeviceRef::Kind::drive:
      return device.index < machine.drives.size();
    case DeviceRef::Kind::host:
      return device.index < std::max<std::size_t>(machine.numa_nodes.size(), 1);
    default:
      return false;
  }
}

PeerForwarding weaker(PeerForwarding a, PeerForwarding b) {
  const auto strength = [](PeerForwarding value) {
    return value == PeerForwarding::refused ? 0 : value == PeerForwarding::unknown ? 1 : 2;
  };
  return strength(a) <= strength(b) ? a : b;
}

std::uint32_t host_bridge_of(const std::vector<Hop>& hops) {
  return hops.back().into.index;
}

PathLevel level_over_host(const Machine& machine, DeviceRef source, DeviceRef target) {
  if (socket_of(machine, source) != socket_of(machine, target)) return PathLevel::sys;
  return PathLevel::node;
}

// One end is a NUMA node's memory: everything between goes upstream anyway, so ACS redirects
// nothing.
Path path_to_memory(const Machine& machine, DeviceRef source, DeviceRef target) {
  Path path;
  const bool same_node = numa_of(machine, source) == numa_of(machine, target);
  path.pcie_level = same_node ? PathLevel::phb : level_over_host(machine, source, target);
  path.crosses_socket = path.pcie_level == PathLevel::sys;
  path.forwarding = PeerForwarding::allowed;
  path.link = path.crosses_socket ? Link::inter_socket : Link::host_bridge;
  if (is_memory(source) && is_memory(target)) {
    if (same_node) path.pcie_level = PathLevel::self;
    if (!path.crosses_socket) path.link = Link::none;
  } else {
    const DeviceRef device = on_the_bus(machine, is_memory(source) ? target : source);
    if (device.kind == DeviceRef::Kind::gpu && machine.gpus.at(device.index).coherent) {
      path.link = Link::c2c;
      path.level = path.pcie_level;
      return path;
    }
    path.crosses_host_bridge = true;
    for (const Hop& hop : hops_up(machine, device)) path.ports.push_back(hop.port);
    if (is_memory(source)) std::reverse(path.ports.begin(), path.ports.end());
  }
  path.level = path.pcie_level;
  return path;
}

Path path_of_same_device() {
  Path path;
  path.level = path.pcie_level = PathLevel::self;
  path.forwarding = PeerForwarding::allowed;
  path.link = Link::none;
  return path;
}

// Where two chains of hops meet: how many hops of each lie below the meeting point, it included.
struct Meeting {
  std::size_t source_hops = 0;
  std::size_t target_hops = 0;
  std::optional<std::uint32_t> common_switch;
};

Meeting meet(const std::vector<Hop>& source, const std::vector<Hop>& target) {
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i].into.kind != Parent::Kind::pci_switch) continue;
    for (std::size_t j = 0; j < target.size(); ++j) {
      if (target[j].into == source[i].into) return Meeting{i + 1, j + 1, source[i].into.index};
    }
  }
  return Meeting{source.size(), target.size(), std::nullopt};
}

std::uint32_t nvlinks_between(const Machine& machine, DeviceRef source, DeviceRef target) {
  if (source.kind != DeviceRef::Kind::gpu || target.kind != DeviceRef::Kind::gpu) return 0;
  std::uint32_t count = 0;
  for (const NvLink& link : machine.nvlinks) {
    const bool forth = link.source_gpu == source.index && link.target_gpu == target.index;
    const bool back = link.source_gpu == target.index && link.target_gpu == source.index;
    if (forth || back) count += link.count;
  }
  return count;
}

Path pcie_path(const Machine& machine, DeviceRef source, DeviceRef target) {
  const std::vector<Hop> up = hops_up(machine, source);
  const std::vector<Hop> down = hops_up(machine, target);
  const Meeting meeting = meet(up, down);
  Path path;
  path.common_switch = meeting.common_switch;
  for (std::size_t i = 0; i < meeting.source_hops; ++i) path.ports.push_back(up[i].port);
  for (std::size_t i = meeting.target_hops; i > 0; --i) path.ports.push_back(down[i - 1].port);
  path.redirected = std::any_of(path.ports.begin(), path.ports.end(),
                                [](const auto& port) { return port.acs == AcsMode::redirect; });
  path.forwarding = weaker(machine.host_bridges.at(host_bridge_of(up)).peer_forwarding,
                           machine.host_bridges.at(host_bridge_of(down)).peer_forwarding);
  if (path.common_switch.has_value()) {
    const bool one_switch = meeting.source_hops == 1 && meeting.target_hops == 1;
    path.pcie_level = one_switch ? PathLevel::pix : PathLevel::pxb;
  } else {
    path.crosses_host_bridge = true;
    path.pcie_level = host_bridge_of(up) == host_bridge_of(down)
                          ? PathLevel::phb
                          : level_over_host(machine, source, target);
  }
  path.crosses_socket = path.pcie_level == PathLevel::sys;
  if (path.crosses_socket) {
    path.link = Link::inter_socket;
  } else {
    const bool by_switch = path.common_switch.has_value() && !path.redirected;
    path.link = by_switch ? Link::pcie_switch : Link::host_bridge;
  }
  return path;
}

}  // namespace

Path path_between(const Machine& machine, DeviceRef source, DeviceRef target) {
  assert(exists(machine, source) && exists(machine, target));
  if (is_memory(source) || is_memory(target)) return path_to_memory(machine, source, target);
  source = on_the_bus(machine, source);
  target = on_the_bus(machine, target);
  if (source == target) return path_of_same_device();
  Path path = pcie_path(machine, source, target);
  path.level = path.pcie_level;
  path.nvlink_count = nvlinks_between(machine, source, target);
  if (path.nvlink_count > 0) {
    path.level = PathLevel::nvlink;
    path.link = Link::nvlink;
  }
  return path;
}

std::string level_text(const Path& path) {
  std::string text(to_string(path.level));
  if (path.level == PathLevel::nvlink) text += std::to_string(path.nvlink_count);
  return text;
}

IommuMode iommu_of(const Machine& machine, DeviceRef device) {
  device = on_the_bus(machine, device);
  IommuMode mode = IommuMode::inherit;
  if (exists(machine, device)) {
    if (device.kind == DeviceRef::Kind::gpu) mode = machine.gpus[device.index].iommu;
    if (device.kind == DeviceRef::Kind::nic) mode = machine.nics[device.index].iommu;
    if (device.kind == DeviceRef::Kind::drive) mode = machine.drives[device.index].iommu;
  }
  return mode == IommuMode::inherit ? machine.kernel.iommu : mode;
}

std::uint32_t acs_control(AcsMode mode, std::string_view word) {
  std::uint32_t control = 0;
  if (word.size() > 2 && word.substr(0, 2) == "0x") {
    const auto [end, failure] =
        std::from_chars(word.data() + 2, word.data() + word.size(), control, 16);
    const bool number = failure == std::errc{} && end == word.data() + word.size();
    if (number && acs_mode(control) == mode) return control;
  }
  switch (mode) {
    case AcsMode::redirect:
      return acs_bits::usual_redirect;
    case AcsMode::source_validation:
      return acs_bits::source_validation;
    case AcsMode::off:
    case AcsMode::unknown:
    case AcsMode::inherit:
      break;
  }
  return 0;
}

AcsMode acs_mode(std::uint32_t control) {
  constexpr std::uint32_t redirect =
      acs_bits::request_redirect | acs_bits::completion_redirect | acs_bits::egress_control;
  if ((control & redirect) != 0) return AcsMode::redirect;
  return (control & acs_bits::source_validation) != 0 ? AcsMode::source_validation : AcsMode::off;
}

std::uint32_t numa_of(const Machine& machine, DeviceRef device) {
  if (is_memory(device)) return device.index;
  device = on_the_bus(machine, device);
  if (!exists(machine, device)) return 0;
  const std::uint32_t bridge = host_bridge_of(hops_up(machine, device));
  return machine.host_bridges.at(bridge).numa;
}

std::uint32_t socket_of(const Machine& machine, DeviceRef device) {
  const std::uint32_t numa = numa_of(machine, device);
  return numa < machine.numa_nodes.size() ? machine.numa_nodes[numa].socket : 0;
}

}  // namespace nobounce
