// NVML's word for peer access between two GPUs, as a machine's.
#pragma once

#include <nobounce/machine.hpp>

namespace nobounce::system {

/// Of nvmlDeviceGetP2PStatus. A number that it does not have is unknown.
[[nodiscard]] PeerStatus peer_status_of(int nvml_status);

}  // namespace nobounce::system
