// How far network adapters are from the memory that they are to move.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <nobounce/machine.hpp>

namespace nobounce::core {

/// Nearest first: below one switch, one host bridge, on one socket, elsewhere.
enum class AdapterDistance : std::uint8_t {
  same_switch,
  same_host_bridge,
  same_socket,
  other_socket,
};

[[nodiscard]] std::string_view to_string(AdapterDistance distance);

/// Between an adapter and a GPU or a NUMA node of the machine.
[[nodiscard]] AdapterDistance adapter_distance(const Machine& machine, std::uint32_t nic,
                                               DeviceRef memory);

struct RankedAdapter {
  std::uint32_t nic = 0;
  AdapterDistance distance = AdapterDistance::other_socket;
  bool operator==(const RankedAdapter&) const = default;
};

/// All adapters of the machine, nearest first; equally near ones in their order.
[[nodiscard]] std::vector<RankedAdapter> adapters_by_distance(const Machine& machine,
                                                              DeviceRef memory);

/// What bytes travel over between an adapter and memory. Behind a translating IOMMU requests to a
/// GPU go up to it, whatever lies between.
[[nodiscard]] Link adapter_link(const Machine& machine, std::uint32_t nic, DeviceRef memory);

}  // namespace nobounce::core
