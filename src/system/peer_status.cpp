// One table.
#include "system/peer_status.hpp"

#include "system/nvml_types.hpp"

namespace nobounce::system {

PeerStatus peer_status_of(int nvml_status) {
  switch (nvml_status) {
    case nvml::p2p_status_ok:
      return PeerStatus::ok;
    case nvml::p2p_status_chipset_not_supported:
      return PeerStatus::cns;
    case nvml::p2p_status_gpu_not_supported:
      return PeerStatus::gns;
    case nvml::p2p_status_ioh_topology_not_supported:
      return PeerStatus::tns;
    case nvml::p2p_status_disabled_by_regkey:
      return PeerStatus::dr;
    case nvml::p2p_status_not_supported:
      return PeerStatus::ns;
    default:
      return PeerStatus::unknown;
  }
}

}  // namespace nobounce::system
