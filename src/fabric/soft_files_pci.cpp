// /sys/bus/pci and /sys/devices/pci...: one folder per function, configuration space included.
#include "fabric/soft_files_pci.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

namespace nobounce::fabric {
namespace {

constexpr std::size_t config_bytes = 4096;
constexpr std::size_t config_bytes_without_rights = 64;
constexpr std::size_t pcie_capability = 0x40;
constexpr std::size_t acs_capability = 0x100;

std::string hex_text(std::uint64_t value, std::size_t digits) {
  return "0x" + hex_digits(value, digits);
}

void put16(std::string& bytes, std::size_t at, std::uint32_t value) {
  bytes[at] = static_cast<char>(value & 0xff);
  bytes[at + 1] = static_cast<char>((value >> 8) & 0xff);
}

void put32(std::string& bytes, std::size_t at, std::uint32_t value) {
  put16(bytes, at, value & 0xffff);
  put16(bytes, at + 2, value >> 16);
}

bool has_bus_below(const PciFunction& function) {
  return function.kind == PciFunction::Kind::root_port ||
         function.kind == PciFunction::Kind::upstream_port ||
         function.kind == PciFunction::Kind::downstream_port;
}

bool has_acs(const PciFunction& function) {
  return function.kind == PciFunction::Kind::root_port ||
         function.kind == PciFunction::Kind::downstream_port;
}

// Device/port type of the PCI Express capability.
std::uint32_t port_type(PciFunction::Kind kind) {
  switch (kind) {
    case PciFunction::Kind::root_port:
      return 4;
    case PciFunction::Kind::upstream_port:
      return 5;
    case PciFunction::Kind::downstream_port:
      return 6;
    case PciFunction::Kind::host_bridge:
    case PciFunction::Kind::endpoint:
      break;
  }
  return 0;
}

std::string speed_text(std::uint32_t generation) {
  constexpr std::string_view speeds[] = {"Unknown",       "2.5 GT/s PCIe",  "5.0 GT/s PCIe",
                                         "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe",
                                         "64.0 GT/s PCIe"};
  return std::string(speeds[generation < std::size(speeds) ? generation : 0]) + '\n';
}

void put_express_capability(std::string& bytes, const PciFunction& function) {
  put16(bytes, 0x06, 0x0010);  // a capability list
  bytes[0x34] = static_cast<char>(pcie_capability);
  bytes[pcie_capability] = 0x10;
  put16(bytes, pcie_capability + 2, 2 | (port_type(function.kind) << 4));
  const PcieLink& link = function.link;
  put32(bytes, pcie_capability + 0x0c, (link.generation_max & 15) | ((link.width_max & 63) << 4));
  put16(bytes, pcie_capability + 0x12, (link.generation & 15) | ((link.width & 63) << 4));
}

// The BARs as `resource` lists them: begin, end, flags; BAR1 of a GPU is its window.
std::string resource_text(const Machine& machine, const PciFunction& function) {
  std::string text;
  const auto line = [&](std::uint64_t begin, std::uint64_t length, std::uint64_t flags) {
    text += hex_text(begin, 16) + ' ' + hex_text(length == 0 ? 0 : begin + length - 1, 16) + ' ' +
            hex_text(flags, 16) + '\n';
  };
  const std::uint64_t window = std::uint64_t{1} << 40;
  if (function.endpoint.kind == DeviceRef::Kind::gpu) {
    const std::uint64_t index = function.endpoint.index;
    line(0xa0000000 + index * 0x1000000, 0x1000000, 0x40200);
    line(window * (index + 1), machine.gpus[function.endpoint.index].bar1_bytes, 0x14220c);
    line(0, 0, 0);
    line(window * (index + 1) + window / 2, 0x2000000, 0x14220c);
  } else {
    line(0xc0000000 + std::uint64_t{function.bus} * 0x100000, 0x4000, 0x140204);
  }
  return text;
}

void add_function(FileTree& tree, const Machine& machine, const PciFunction& function) {
  const std::string& path = function.path;
  const auto text = [&](const char* name, std::string content) {
    tree.add_text(path + '/' + name, std::move(content));
  };
  text("vendor", hex_text(function.vendor, 4) + '\n');
  text("device", hex_text(function.device, 4) + '\n');
  text("class", hex_text(function.class_code, 6) + '\n');
  text("numa_node", std::to_string(function.numa) + '\n');
  text("config", config_space(function));
  if (function.endpoint.kind == DeviceRef::Kind::gpu) {
    const std::uint64_t most = machine.gpus[function.endpoint.index].bar1_bytes_max;
    if (most != 0) text("resource1_resize", hex_digits(most >> 20, 16) + '\n');
  }
  if (function.kind != PciFunction::Kind::host_bridge) {
    text("current_link_speed", speed_text(function.link.generation));
    text("max_link_speed", speed_text(function.link.generation_max));
    text("current_link_width", std::to_string(function.link.width) + '\n');
    text("max_link_width", std::to_string(function.link.width_max) + '\n');
  }
  if (has_bus_below(function)) {
    text("secondary_bus_number", std::to_string(function.bus_below) + '\n');
    text("subordinate_bus_number", std::to_string(function.bus_last) + '\n');
  }
  if (function.kind == PciFunction::Kind::endpoint) {
    text("resource", resource_text(machine, function));
  }
  tree.add_link(path + "/subsystem", "/sys/bus/pci");
  tree.add_link("/sys/bus/pci/devices/" + function.bdf, path);
  if (!function.driver.empty()) {
    const std::string driver = "/sys/bus/pci/drivers/" + function.driver;
    tree.add_link(driver + '/' + function.bdf, path);
    tree.add_link(path + "/driver", driver);
  }
}

void add_iommu_group(FileTree& tree, IommuMode mode, const PciFunction& function,
                     const std::string& number) {
  const std::string group = "/sys/kernel/iommu_groups/" + number;
  if (mode != IommuMode::unknown) {
    tree.add_text(group + "/type", mode == IommuMode::identity ? "identity\n" : "DMA-FQ\n");
  }
  tree.add_link(group + "/devices/" + function.bdf, function.path);
  tree.add_link(function.path + "/iommu_group", group);
}

/// The group that a device is described with.
std::string group_of(const Machine& machine, const PciFunction& function) {
  if (function.kind != PciFunction::Kind::endpoint) return {};
  const std::uint16_t index = function.endpoint.index;
  switch (function.endpoint.kind) {
    case DeviceRef::Kind::gpu:
      return machine.gpus[index].iommu_group;
    case DeviceRef::Kind::nic:
      return machine.nics[index].iommu_group;
    case DeviceRef::Kind::drive:
      return machine.drives[index].iommu_group;
    default:
      return {};
  }
}

}  // namespace

std::string config_space(const PciFunction& function) {
  std::string bytes(config_bytes, '\0');
  put16(bytes, 0x00, function.vendor);
  put16(bytes, 0x02, function.device);
  put16(bytes, 0x04, 0x0006);  // memory access and bus mastering
  bytes[0x09] = static_cast<char>(function.class_code & 0xff);
  put16(bytes, 0x0a, function.class_code >> 8);
  if (has_bus_below(function)) {
    bytes[0x0e] = 1;
    bytes[0x18] = static_cast<char>(function.bus);
    bytes[0x19] = static_cast<char>(function.bus_below);
    bytes[0x1a] = static_cast<char>(function.bus_last);
  }
  if (function.kind != PciFunction::Kind::host_bridge) put_express_capability(bytes, function);
  if (has_acs(function)) {
    if (function.acs == AcsMode::unknown) return bytes.substr(0, config_bytes_without_rights);
    put32(bytes, acs_capability, 0x000d | (1u << 16));
    put16(bytes, acs_capability + 4, 0x005f);
    put16(bytes, acs_capability + 6, function.acs_control);
  }
  if (function.ats) {
    put32(bytes, acs_capability, 0x000f | (1u << 16));
    put16(bytes, acs_capability + 6, 0x8000);
  }
  return bytes;
}

void add_pci_files(FileTree& tree, const Machine& machine,
                   const std::vector<PciFunction>& functions) {
  tree.add_directory("/sys/bus/pci/devices");
  tree.add_directory("/sys/kernel/iommu_groups");
  tree.add_directory("/sys/class/iommu");
  const IommuMode mode = machine.kernel.iommu;
  if (mode == IommuMode::identity || mode == IommuMode::translated) {
    tree.add_directory("/sys/devices/virtual/iommu/dmar0");
    tree.add_link("/sys/class/iommu/dmar0", "/sys/devices/virtual/iommu/dmar0");
  }
  std::set<std::string> taken;
  for (const PciFunction& function : functions) taken.insert(group_of(machine, function));
  std::size_t next = 0;
  for (const PciFunction& function : functions) {
    add_function(tree, machine, function);
    const bool endpoint = function.kind == PciFunction::Kind::endpoint;
    const IommuMode own = endpoint ? iommu_of(machine, function.endpoint) : mode;
    if (own == IommuMode::off) continue;
    std::string group = group_of(machine, function);
    while (group.empty()) {  // a bridge gets a number that no device has
      std::string candidate = std::to_string(next++);
      if (taken.insert(candidate).second) group = std::move(candidate);
    }
    add_iommu_group(tree, own, function, group);
  }
}

}  // namespace nobounce::fabric
