// The PCI functions of a machine laid out as sysfs shows them: root ports, switch ports, endpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nobounce/machine.hpp>

#include "fabric/soft_files_tree.hpp"

namespace nobounce::fabric {

/// One PCI function and its place in the tree.
struct PciFunction {
  enum class Kind : std::uint8_t {
    host_bridge,
    root_port,
    upstream_port,
    downstream_port,
    endpoint
  };
  Kind kind = Kind::endpoint;
  std::string bdf;
  std::string path;  ///< its folder below /sys/devices
  std::uint16_t vendor = 0;
  std::uint16_t device = 0;
  std::uint32_t class_code = 0;
  std::string driver;
  std::int32_t numa = 0;
  PcieLink link;
  AcsMode acs = AcsMode::off;  ///< of root ports and downstream ports
  std::uint32_t acs_control = 0;
  bool ats = false;  ///< address translation service enabled
  std::uint32_t bus = 0;
  std::uint32_t bus_below = 0;  ///< of bridges: the bus behind it
  std::uint32_t bus_last = 0;   ///< of bridges: the highest bus behind it
  DeviceRef endpoint;           ///< of endpoints
};

/// Every function, parents before children. Drives that are no PCI functions (behind a NIC, dm, md
/// ...) are left out.
[[nodiscard]] std::vector<PciFunction> lay_out_pci(const Machine& machine);

/// Lower-case hexadecimal with leading zeros.
[[nodiscard]] std::string hex_digits(std::uint64_t value, std::size_t digits);

/// The function of a device, if it has one.
[[nodiscard]] const PciFunction* function_of(const std::vector<PciFunction>& functions,
                                             DeviceRef device);

/// The 4096 bytes of configuration space (64 where ACS is unknown: what a reader without rights
/// gets).
[[nodiscard]] std::string config_space(const PciFunction& function);

/// /sys/devices/pci..., /sys/bus/pci, /sys/kernel/iommu_groups.
void add_pci_files(FileTree& tree, const Machine& machine,
                   const std::vector<PciFunction>& functions);

}  // namespace nobounce::fabric
