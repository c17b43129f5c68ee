// Drives as /sys shows them, and the mounts that lie on them.
#pragma once

#include <vector>

#include <nobounce/machine.hpp>
#include "system/files.hpp"
#include "topology/nics.hpp"
#include "topology/pci_tree.hpp"

namespace nobounce::topology {

/// A drive and the PCI function that it hangs on, if it has one of its own.
struct FoundDrive {
  Drive drive;  ///< without its parent, unless that is a NIC
  const PciFunction* function = nullptr;
};

struct StorageTree {
  std::vector<FoundDrive> drives;
  std::vector<Mount> mounts;
};

/// Block devices that may hold data, in order of their names, then the servers of network file
/// systems that are mounted; and every mount that may hold user data. A later mount on a point
/// replaces the earlier one.
[[nodiscard]] StorageTree read_storage(system::Files& files, const PciTree& tree,
                                       const std::vector<FoundNic>& nics);

}  // namespace nobounce::topology
