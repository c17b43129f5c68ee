// Routes over the links of a machine, made from its description once.
#include "fabric/bus_routes.hpp"

#include <algorithm>

namespace nobounce::fabric {

namespace {

DeviceRef ref(DeviceRef::Kind kind, std::size_t index) {
  return {kind, static_cast<std::uint16_t>(index)};
}

std::string name_of(DeviceRef device) {
  const std::string index = std::to_string(device.index);
  switch (device.kind) {
    case DeviceRef::Kind::gpu:
      return "gpu:" + index;
    case DeviceRef::Kind::nic:
      return "nic:" + index;
    case DeviceRef::Kind::drive:
      return "drive:" + index;
    default:
      return "device:" + index;
  }
}

std::string pair_name(std::string_view kind, std::uint32_t a, std::uint32_t b) {
  return std::string(kind) + ":" + std::to_string(std::min(a, b)) + "-" +
         std::to_string(std::max(a, b));
}

}  // namespace

std::uint64_t BusRoutes::number(DeviceRef device) {
  return (static_cast<std::uint64_t>(device.kind) << 32) | device.index;
}

Parent BusRoutes::parent_of(DeviceRef device) const {
  switch (device.kind) {
    case DeviceRef::Kind::gpu:
      return machine_.gpus.at(device.index).parent;
    case DeviceRef::Kind::nic:
      return machine_.nics.at(device.index).parent;
    default:
      return machine_.drives.at(device.index).parent;
  }
}

DeviceRef BusRoutes::mover_of_drive(std::uint32_t drive) const {
  const Parent parent = machine_.drives.at(drive).parent;
  const bool by_nic = parent.kind == Parent::Kind::nic && mutant_ != Mutant::bus_nic_forgotten;
  return by_nic ? ref(DeviceRef::Kind::nic, parent.index) : ref(DeviceRef::Kind::drive, drive);
}

std::vector<std::string> BusRoutes::chain_of(DeviceRef device) const {
  std::vector<std::string> chain;
  std::string below = name_of(device);
  Parent parent = parent_of(device);
  while (parent.kind == Parent::Kind::pci_switch) {
    const std::string name = "switch:" + std::to_string(parent.index);
    chain.push_back(name + "/" + below);
    below = name;
    parent = machine_.switches.at(parent.index).parent;
  }
  chain.push_back("host_bridge:" + std::to_string(parent.index) + "/" + below);
  return chain;
}

std::uint32_t BusRoutes::bridge_of(DeviceRef device) const {
  Parent parent = parent_of(device);
  while (parent.kind == Parent::Kind::pci_switch) {
    parent = machine_.switches.at(parent.index).parent;
  }
  return parent.index;
}

std::uint32_t BusRoutes::node_of(DeviceRef device) const {
  return machine_.host_bridges.at(bridge_of(device)).numa;
}

void BusRoutes::add_socket_hop(BusRoute& route, std::uint32_t source, std::uint32_t target) const {
  const std::uint32_t from = machine_.numa_nodes.at(source).socket;
  const std::uint32_t to = machine_.numa_nodes.at(target).socket;
  if (from == to) return;
  route.hops.push_back({pair_name("inter_socket", from, to), to > from});
  route.link = Link::inter_socket;
}

BusRoute BusRoutes::make_to_dram(DeviceRef device, std::uint32_t node) const {
  BusRoute route;
  route.link = Link::host_bridge;
  for (const std::string& link : chain_of(device)) route.hops.push_back({link, false});
  add_socket_hop(route, node_of(device), node);
  return route;
}

BusRoute BusRoutes::make_peer(DeviceRef source, DeviceRef target, bool upwards) const {
  BusRoute route;
  const Path path = path_between(machine_, source, target);
  const bool acs = path.redirected && mutant_ != Mutant::bus_acs_ignored;
  std::vector<std::string> up = chain_of(source);
  std::vector<std::string> down = chain_of(target);
  route.redirected = path.common_switch.has_value() && (acs || upwards);
  const bool by_bridge = upwards || acs || !path.common_switch.has_value();
  if (by_bridge) {
    route.link = Link::host_bridge;
    const auto forwards = [this](std::uint32_t bridge) {
      return machine_.host_bridges.at(bridge).peer_forwarding == PeerForwarding::allowed;
    };
    const bool both = mutant_ != Mutant::bus_one_bridge_asked;
    route.allowed = forwards(bridge_of(source)) && (!both || forwards(bridge_of(target)));
  } else {
    // The links above the common switch stay idle.
    route.link = Link::pcie_switch;
    while (!up.empty() && !down.empty() && up.back() == down.back()) {
      up.pop_back();
      down.pop_back();
    }
  }
  for (const std::string& link : up) route.hops.push_back({link, false});
  route.hops_if_lost = route.hops.size();
  if (by_bridge) add_socket_hop(route, node_of(source), node_of(target));
  std::reverse(down.begin(), down.end());
  for (const std::string& link : down) route.hops.push_back({link, true});
  return route;
}

BusRoutes::BusRoutes(const Machine& machine, Mutant mutant) : machine_(machine), mutant_(mutant) {
  std::vector<DeviceRef> devices;
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    devices.push_back(ref(DeviceRef::Kind::gpu, i));
  }
  for (std::size_t i = 0; i < machine.nics.size(); ++i) {
    devices.push_back(ref(DeviceRef::Kind::nic, i));
  }
  for (std::size_t i = 0; i < machine.drives.size(); ++i) {
    if (machine.drives[i].parent.kind == Parent::Kind::nic) continue;
    devices.push_back(ref(DeviceRef::Kind::drive, i));
  }
  for (const DeviceRef device : devices) {
    for (std::uint32_t node = 0; node < machine.numa_nodes.size(); ++node) {
      BusRoute route = make_to_dram(device, node);
      to_dram_.emplace(Key{number(device), node}, route);
      std::reverse(route.hops.begin(), route.hops.end());
      for (BusHop& hop : route.hops) hop.towards_device = !hop.towards_device;
      from_dram_.emplace(Key{node, number(device)}, std::move(route));
    }
    for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
      const DeviceRef gpu = ref(DeviceRef::Kind::gpu, i);
      if (gpu == device) continue;
      for (const auto& [source, target] : {std::pair{device, gpu}, std::pair{gpu, device}}) {
        const Key key{number(source), number(target)};
        peer_.emplace(key, make_peer(source, target, false));
        upwards_.emplace(key, make_peer(source, target, true));
      }
    }
  }
  for (const NvLink& link : machine.nvlinks) {
    if (link.count == 0 || link.source_gpu == link.target_gpu) continue;
    if (mutant_ == Mutant::bus_nvlink_unused) continue;
    const std::string name = pair_name("nvlink", link.source_gpu, link.target_gpu);
    for (const auto& [source, target] : {std::pair{link.source_gpu, link.target_gpu},
                                         std::pair{link.target_gpu, link.source_gpu}}) {
      BusRoute route;
      route.link = Link::nvlink;
      route.hops.push_back({name, target > source});
      nvlink_.emplace(std::pair{source, target}, std::move(route));
    }
  }
}

const BusRoute& BusRoutes::to_dram(DeviceRef device, std::uint32_t node) const {
  return to_dram_.at({number(device), node});
}

const BusRoute& BusRoutes::from_dram(std::uint32_t node, DeviceRef device) const {
  return from_dram_.at({node, number(device)});
}

const BusRoute& BusRoutes::peer(DeviceRef source, DeviceRef target) const {
  return peer_.at({number(source), number(target)});
}

const BusRoute& BusRoutes::peer_upwards(DeviceRef source, DeviceRef target) const {
  return upwards_.at({number(source), number(target)});
}

const BusRoute* BusRoutes::nvlink(std::uint32_t source, std::uint32_t target) const {
  const auto found = nvlink_.find({source, target});
  return found == nvlink_.end() ? nullptr : &found->second;
}

}  // namespace nobounce::fabric
