// What the description of a machine says of an adapter, as its port shows it.
#pragma once

#include <cstdint>

#include <nobounce/machine.hpp>

namespace nobounce::fabric {

[[nodiscard]] inline bool is_ethernet(const Nic& nic) {
  return nic.link_layer == LinkLayer::ethernet;
}

/// Addresses of its port: of RoCE each twice, for version 1 and 2.
[[nodiscard]] inline std::uint32_t gids_of(const Nic& nic) {
  return is_ethernet(nic) ? 2 : 1;
}

}  // namespace nobounce::fabric
