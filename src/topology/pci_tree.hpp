// The PCI tree of a host as /sys shows it: functions, the bridges above each, and what their
// registers say.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nobounce/machine.hpp>
#include "system/files.hpp"

namespace nobounce::topology {

struct PciFunction {
  std::string bdf;
  std::string path;                  ///< below /sys/devices
  std::string root;                  ///< its host bridge, as the folder is called: pci0000:40
  std::vector<std::string> bridges;  ///< between host bridge and function, topmost first
  std::uint32_t vendor = 0;
  std::uint32_t device = 0;
  std::uint32_t class_code = 0;

  [[nodiscard]] bool is_bridge() const { return class_code >> 8 == 0x0604; }
  /// Root ports lie on the root bus; below them upstream and downstream ports of switches take
  /// turns.
  [[nodiscard]] bool is_root_port() const { return is_bridge() && bridges.empty(); }
  [[nodiscard]] bool is_upstream_port() const { return is_bridge() && bridges.size() % 2 == 1; }
  /// `10de:2330`
  [[nodiscard]] std::string id() const;
  [[nodiscard]] bool is_nvswitch() const { return vendor == 0x10de && class_code >> 8 == 0x0680; }
  /// Of a GPU that is none of NVIDIA's: amd, intel; empty: it is none.
  [[nodiscard]] std::string other_gpu_vendor() const {
    const std::uint32_t kind = class_code >> 8;
    if (kind != 0x0300 && kind != 0x0302 && kind != 0x0380 && kind != 0x1200) return {};
    return vendor == 0x1002 ? "amd" : vendor == 0x8086 ? "intel" : "";
  }
  [[nodiscard]] bool is_nvidia_gpu() const {
    return vendor == 0x10de && (class_code >> 8 == 0x0300 || class_code >> 8 == 0x0302);
  }
};

/// ACS of a port: what it does to peer requests, and the word that says so.
struct PortAcs {
  AcsMode mode = AcsMode::unknown;
  std::string control;  ///< `0x001d`; empty: the usual word of the mode
};

class PciTree {
 public:
  /// Empty where /sys/bus/pci cannot be read.
  [[nodiscard]] static PciTree read(system::Files& files);

  /// In order of domain, bus, device and function.
  [[nodiscard]] const std::vector<PciFunction>& functions() const { return functions_; }
  /// Folder names of host bridges that have anything to do with transfers, in order.
  [[nodiscard]] std::vector<std::string> roots() const;
  [[nodiscard]] const PciFunction* find(std::string_view bdf) const;
  /// The function that a path below /sys/devices belongs to: the deepest one in it.
  [[nodiscard]] const PciFunction* owner_of(std::string_view real_path) const;

  /// The device's own end of its link.
  [[nodiscard]] PcieLink link_of(const PciFunction& function) const;
  [[nodiscard]] std::optional<std::int64_t> numa_of(const PciFunction& function) const;
  /// What its ACS control word does to peer requests; unknown where configuration space is cut
  /// short.
  [[nodiscard]] PortAcs acs_of(const PciFunction& port) const;
  /// Whether address translation service is enabled; unknown as above.
  [[nodiscard]] Answer ats_of(const PciFunction& function) const;
  [[nodiscard]] IommuMode iommu_of(const PciFunction& function) const;
  /// The number of its IOMMU group; empty where it has none.
  [[nodiscard]] std::string iommu_group_of(const PciFunction& function) const;
  /// The driver bound to it; empty: none.
  [[nodiscard]] std::string driver_of(const PciFunction& function) const;
  /// The largest size that a resizable base address register may take; 0: not known.
  [[nodiscard]] std::uint64_t window_bytes_max(const PciFunction& function, std::size_t bar) const;
  /// Size of a base address register's window; 0 where it has none.
  [[nodiscard]] std::uint64_t window_bytes(const PciFunction& function, std::size_t bar) const;

 private:
  explicit PciTree(system::Files& files) : files_(&files) {}

  /// The words of an extended capability, from its header on; empty text where the function has
  /// none, nothing where configuration space is cut short.
  [[nodiscard]] std::optional<std::string> extended_capability(const PciFunction& function,
                                                               std::uint32_t id) const;

  system::Files* files_;
  std::vector<PciFunction> functions_;
  std::map<std::string, std::size_t, std::less<>> by_bdf_;
};

}  // namespace nobounce::topology
