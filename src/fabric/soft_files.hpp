// The files that a Linux host would show for a Machine: /sys, /proc, /etc, /run and /dev.
//
// What of the Machine is shown where, for whoever reads it back:
// - Host bridge: /sys/devices/pciDDDD:BB with function 00.0 (class 0x0600). `peer_forwarding`: its
//   PCI ids are on the kernel's p2pdma list (8086:09a2) when allowed, are not (8086:3ec2) when
//   refused; there is no 00.0 when unknown. An AMD processor overrides them, as in the kernel's
//   rule. `numa`: numa_node of all functions (-1 in a guest with one node).
// - Switch: upstream and downstream ports (PCIe capability in `config`); every device hangs under
//   a root port or a downstream port of its own; in a guest straight on the root bus where its
//   bus number says so.
// - ACS: extended capability 0x000d of root ports and downstream ports, control word as
//   acs_control() says; unknown: `config` ends after 64 bytes, as
//   without root.
// - Links: {current,max}_link_{speed,width}; "Unknown" and 0 where not known.
// - GPU: driver nvidia, /proc/driver/nvidia/gpus/<bdf>/information (product, UUID), BAR1 is line 1
//   of `resource`. `dmabuf`: /proc/driver/nvidia/version names the open kernel module.
// - NIC: /sys/class/infiniband/<name> with ports/1; its network interface below /sys/class/net.
// - Drive: /sys/block/<name>; driver by the `driver` link of <name>/device or, for NVMe, of
//   <name>/device/device; over fabrics <name>/device/transport is "rdma" and address has
//   host_iface=; dm and md by a `dm` or `md` folder, with their parts below `slaves`; vfio-pci: no
//   block device, but /dev/vfio/<group>. Drives may share a function. A drive with driver nfs has
//   no block device: its mount's source is NAME:/export and its device number that of the mount.
//   <name>/stat counts the sectors that the bus carried out of and into the medium.
// - IOMMU: iommu_group/type is identity or DMA-FQ, per device; no iommu_group: off; no `type`:
//   unknown.
// - Mounts: /proc/mounts has the options as they are, /proc/self/mountinfo splits them in two.
// - Kernel: /proc/sys/kernel/osrelease; pci_p2pdma: p2pdma_pgmap_ops in /proc/kallsyms; modules:
//   /proc/modules.
// - NUMA: /sys/devices/system/node/nodeN/{cpulist,meminfo}, sockets by
//   cpuN/topology/physical_package_id; guest: the hypervisor flag in /proc/cpuinfo.
#pragma once

#include <memory>

#include <nobounce/machine.hpp>

#include "fabric/ledger.hpp"
#include "fabric/soft_cufile_module.hpp"
#include "system/files.hpp"

namespace nobounce::fabric {

/// All must outlive the files; the machine must be complete (core::complete_machine) and valid.
[[nodiscard]] std::unique_ptr<system::Files> make_soft_files(const Machine& machine,
                                                             const NvfsModule& module,
                                                             const Ledger& ledger);

}  // namespace nobounce::fabric
