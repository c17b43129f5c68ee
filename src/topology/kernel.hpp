// What the kernel says of itself and of its processors: release, modules, NUMA nodes, virtual
// machine or not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nobounce/machine.hpp>
#include "system/files.hpp"
#include "topology/pci_tree.hpp"

namespace nobounce::topology {

struct Processor {
  ProcessorFacts facts;
  bool guest = false;  ///< a hypervisor runs below this kernel
};

[[nodiscard]] Processor read_processor(system::Files& files);

/// Release, CONFIG_PCI_P2PDMA, dma-buf export of GPU memory. The IOMMU is left unknown.
[[nodiscard]] KernelFacts read_kernel(system::Files& files);

[[nodiscard]] ModuleFacts read_modules(system::Files& files);

/// By node number; numbers that the kernel skips have no memory. At least one.
[[nodiscard]] std::vector<NumaNode> read_numa_nodes(system::Files& files);

/// The kernel's rule for peer requests through a host bridge (pci_p2pdma), by its folder name.
[[nodiscard]] PeerForwarding forwarding_of(const PciTree& tree, std::string_view root,
                                           const Processor& processor);

}  // namespace nobounce::topology
