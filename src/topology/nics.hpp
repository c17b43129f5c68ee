// RDMA adapters as /sys/class/infiniband shows them, with the port that carries traffic.
#pragma once

#include <vector>

#include <nobounce/machine.hpp>
#include "system/files.hpp"
#include "topology/pci_tree.hpp"

namespace nobounce::topology {

struct FoundNic {
  Nic nic;  ///< without its parent
  const PciFunction* function = nullptr;
};

/// In order of their names.
[[nodiscard]] std::vector<FoundNic> read_nics(system::Files& files, const PciTree& tree);

}  // namespace nobounce::topology
