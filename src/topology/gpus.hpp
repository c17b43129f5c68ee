// GPUs as the PCI tree and NVML know them, in nvidia-smi order, and the NVLinks between them.
#pragma once

#include <string>
#include <vector>

#include <nobounce/machine.hpp>
#include "system/host.hpp"
#include "topology/pci_tree.hpp"

namespace nobounce::topology {

struct GpuList {
  std::vector<Gpu> gpus;  ///< without their parents
  std::vector<NvLink> nvlinks;
  bool confidential = false;  ///< confidential computing is on, as NVML says
};

/// Uses NVML where it is there; GPUs that only the PCI tree knows come last, in PCI order.
[[nodiscard]] GpuList read_gpus(system::Host& host, const PciTree& tree);

}  // namespace nobounce::topology
