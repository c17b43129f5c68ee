// Distances of adapters, told from the levels that paths have.
#include "core/adapter_distance.hpp"

#include <algorithm>

namespace nobounce::core {

std::string_view to_string(AdapterDistance distance) {
  switch (distance) {
    case AdapterDistance::same_switch:
      return "below the same switch";
    case AdapterDistance::same_host_bridge:
      return "below the same host bridge";
    case AdapterDistance::same_socket:
      return "on the same socket";
    case AdapterDistance::other_socket:
      return "on another socket";
  }
  return "somewhere";
}

AdapterDistance adapter_distance(const Machine& machine, std::uint32_t nic, DeviceRef memory) {
  const DeviceRef adapter{DeviceRef::Kind::nic, static_cast<std::uint16_t>(nic)};
  switch (path_between(machine, adapter, memory).pcie_level) {
    case PathLevel::self:
    case PathLevel::nvlink:
    case PathLevel::pix:
    case PathLevel::pxb:
      return AdapterDistance::same_switch;
    case PathLevel::phb:
      return AdapterDistance::same_host_bridge;
    case PathLevel::node:
      return AdapterDistance::same_socket;
    case PathLevel::sys:
      break;
  }
  return AdapterDistance::other_socket;
}

std::vector<RankedAdapter> adapters_by_distance(const Machine& machine, DeviceRef memory) {
  std::vector<RankedAdapter> ranked;
  for (std::uint32_t nic = 0; nic < machine.nics.size(); ++nic) {
    ranked.push_back({nic, adapter_distance(machine, nic, memory)});
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const RankedAdapter& one, const RankedAdapter& other) {
                     return one.distance < other.distance;
                   });
  return ranked;
}

Link adapter_link(const Machine& machine, std::uint32_t nic, DeviceRef memory) {
  const DeviceRef adapter{DeviceRef::Kind::nic, static_cast<std::uint16_t>(nic)};
  const Link link = path_between(machine, adapter, memory).link;
  const IommuMode own = machine.nics.at(nic).iommu;
  const IommuMode mode = own == IommuMode::inherit ? machine.kernel.iommu : own;
  return mode == IommuMode::translated && link == Link::pcie_switch ? Link::host_bridge : link;
}

}  // namespace nobounce::core
