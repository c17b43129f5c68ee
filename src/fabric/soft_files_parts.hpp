// The parts of a software machine's file view, each added to one tree by one function.
#pragma once

#include <vector>

#include <nobounce/machine.hpp>

#include "fabric/ledger.hpp"
#include "fabric/soft_cufile_module.hpp"
#include "fabric/soft_files_pci.hpp"
#include "fabric/soft_files_tree.hpp"

namespace nobounce::fabric {

/// NVMe controllers, block devices with their counters, udev records.
void add_drive_files(FileTree& tree, const Machine& machine,
                     const std::vector<PciFunction>& functions, const Ledger& ledger);

/// InfiniBand devices and their network interfaces.
void add_nic_files(FileTree& tree, const Machine& machine,
                   const std::vector<PciFunction>& functions);

/// NUMA nodes, processors, mounts, kernel version, command line and symbols, modules, /etc.
void add_kernel_files(FileTree& tree, const Machine& machine, const NvfsModule& module);

/// /proc/driver/nvidia, /proc/driver/nvidia-fs, device nodes.
void add_driver_files(FileTree& tree, const Machine& machine, const NvfsModule& module);

}  // namespace nobounce::fabric
