// Links of transfers, from where their places lie.
#include "session/links.hpp"

#include <iterator>
#include <optional>

namespace nobounce::session {
namespace {

DeviceRef host_node(std::uint32_t numa) {
  return {DeviceRef::Kind::host, static_cast<std::uint16_t>(numa)};
}

/// Where a place's bytes are.
DeviceRef location(SessionState& state, const Place& place) {
  if (const auto* gpu = std::get_if<GpuMemory>(&place)) {
    return {DeviceRef::Kind::gpu, static_cast<std::uint16_t>(gpu->gpu)};
  }
  if (const auto* range = std::get_if<FileRange>(&place)) {
    const FileEntry* file = state.files.entry(range->file);
    if (file != nullptr && file->facts.drive.has_value()) {
      return {DeviceRef::Kind::drive, static_cast<std::uint16_t>(*file->facts.drive)};
    }
    return host_node(0);
  }
  if (const auto* range = std::get_if<BlockRange>(&place)) {
    return {DeviceRef::Kind::drive, static_cast<std::uint16_t>(range->drive)};
  }
  if (const auto* memory = std::get_if<HostMemory>(&place)) {
    const std::scoped_lock lock(state.regions_mutex);
    return host_node(node_of_region(state, *memory));
  }
  return host_node(0);
}

/// From best to worst, for the worse of two.
int badness(Link link) {
  switch (link) {
    case Link::none:
      return 0;
    case Link::c2c:
      return 1;
    case Link::nvlink:
      return 2;
    case Link::pcie_switch:
      return 3;
    case Link::host_bridge:
      return 4;
    case Link::inter_socket:
      return 5;
  }
  return 5;
}

Link between(const SessionState& state, DeviceRef first, DeviceRef second) {
  const bool both_host =
      first.kind == DeviceRef::Kind::host && second.kind == DeviceRef::Kind::host;
  if (both_host) {
    return socket_of(state.machine, first) == socket_of(state.machine, second) ? Link::none
                                                                               : Link::inter_socket;
  }
  return path_between(state.machine, first, second).link;
}

bool has_nodes(const SessionState& state) {
  return !state.machine.numa_nodes.empty();
}

}  // namespace

std::uint32_t node_of_region(const SessionState& state, const HostMemory& memory) {
  const auto address = reinterpret_cast<std::uint64_t>(memory.address);
  const auto after = state.host_regions.upper_bound(address);
  if (after == state.host_regions.begin()) return 0;
  const auto& [start, region] = *std::prev(after);
  return address - start < region.length_bytes ? region.numa : 0;
}

Link staged_link(SessionState& state, const Place& source, const Place& target) {
  if (!has_nodes(state)) return Link::none;
  const DeviceRef from = location(state, source);
  const DeviceRef to = location(state, target);
  const bool gpu_takes_part = from.kind == DeviceRef::Kind::gpu || to.kind == DeviceRef::Kind::gpu;
  const DeviceRef near = to.kind == DeviceRef::Kind::gpu ? to : from;
  const DeviceRef bounce = gpu_takes_part ? host_node(numa_of(state.machine, near)) : host_node(0);
  const Link first = between(state, from, bounce);
  const Link second = between(state, bounce, to);
  return worse_link(first, second);
}

Link worse_link(Link one, Link other) {
  return badness(one) < badness(other) ? other : one;
}

Link straight_link(SessionState& state, const Place& source, const Place& target) {
  if (!has_nodes(state)) return Link::none;
  return between(state, location(state, source), location(state, target));
}

}  // namespace nobounce::session
