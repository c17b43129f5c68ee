// What a machine description may leave out, filled in: always the same for the same description.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "core/drive_kind.hpp"
#include "core/machine_json.hpp"

namespace nobounce::core {

namespace {

constexpr std::uint64_t gib = 1ull << 30;
constexpr std::uint32_t nvme_major = 259;
constexpr std::uint32_t virtio_blk_major = 254;
constexpr std::uint32_t anonymous_minor_first = 50;
constexpr std::uint64_t items_apart = 1u << 20;  // beyond any index of a GPU

std::string hex(std::uint64_t value, std::size_t digits) {
  std::string text(digits, '0');
  for (std::size_t i = digits; i > 0; --i, value >>= 4) {
    text[i - 1] = "0123456789abcdef"[value & 15];
  }
  return text;
}

// splitmix64's mixing step: uuids look like uuids, and are the same in every run.
std::uint64_t mixed(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ull;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

std::string uuid_of(std::uint64_t index) {
  const std::uint64_t high = mixed(2 * index + 1);
  const std::uint64_t low = mixed(2 * index + 2);
  return "GPU-" + hex(high >> 32, 8) + "-" + hex(high >> 16, 4) + "-" + hex(high, 4) + "-" +
         hex(low >> 48, 4) + "-" + hex(low, 12);
}

// The host bridge above a parent. Descriptions are not validated yet: 0 where they lead nowhere.
std::uint32_t host_bridge_above(const Machine& machine, Parent parent) {
  for (std::size_t steps = 0; steps <= machine.switches.size(); ++steps) {
    if (parent.kind == Parent::Kind::host_bridge) return parent.index;
    if (parent.kind != Parent::Kind::pci_switch || parent.index >= machine.switches.size()) break;
    parent = machine.switches[parent.index].parent;
  }
  return 0;
}

// Hands out bus addresses: eight host bridges share a domain, each has 32 buses, the upper 16 for
// endpoints (the lower ones are left to bridges).
class Addresses {
 public:
  explicit Addresses(const Machine& machine) {
    for (const Gpu& gpu : machine.gpus) taken_.insert(gpu.bdf);
    for (const Nic& nic : machine.nics) taken_.insert(nic.bdf);
    for (const Drive& drive : machine.drives) taken_.insert(drive.bdf);
    for (const OtherGpu& gpu : machine.other_gpus) taken_.insert(gpu.bdf);
  }

  void fill(const Machine& machine, const Parent& parent, std::string& bdf) {
    if (!bdf.empty()) return;
    const std::uint32_t bridge = host_bridge_above(machine, parent);
    const std::uint64_t domain = bridge / 8;
    const std::uint64_t first_bus = (bridge % 8) * 32 + 16;
    for (std::uint64_t slot = 0; slot < 16 * 32; ++slot) {
      const std::string address = hex(domain, domain > 0xffff ? 8 : 4) + ":" +
                                  hex(first_bus + slot % 16, 2) + ":" + hex(slot / 16, 2) + ".0";
      if (!taken_.insert(address).second) continue;
      bdf = address;
      return;
    }
  }

 private:
  std::set<std::string> taken_;
};

void fill_link(PcieLink& link, std::uint32_t generation, std::uint32_t width) {
  if (link.generation == 0) link.generation = generation;
  if (link.width == 0) link.width = width;
  if (link.generation_max == 0) link.generation_max = link.generation;
  if (link.width_max == 0) link.width_max = link.width;
}

// Several devices that were given no name all carry the same default one.
template <typename Devices, typename MakeName>
void fill_names(Devices& devices, const std::string& default_name, MakeName make_name) {
  std::set<std::string> taken;
  for (const auto& device : devices) taken.insert(device.name);
  std::uint32_t next = 0;
  bool first = true;
  for (auto& device : devices) {
    if (device.name != default_name && !device.name.empty()) continue;
    if (first && !device.name.empty()) {
      first = false;
      continue;
    }
    while (!taken.insert(make_name(next)).second) ++next;
    device.name = make_name(next);
  }
}

void fill_device_numbers(std::vector<Drive>& drives) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> taken;
  for (const Drive& drive : drives) taken.insert({drive.major, drive.minor});
  for (std::size_t i = 0; i < drives.size(); ++i) {
    Drive& drive = drives[i];
    if (drive.major != 0 || drive.minor != 0) continue;
    if (drive.driver == "vfio-pci") continue;  // no block device
    drive.minor = static_cast<std::uint32_t>(i);
    if (drive.driver == "nvme") {
      drive.major = nvme_major;
    } else if (drive.driver == "virtio_blk") {
      drive.major = virtio_blk_major;
    } else {
      drive.minor += anonymous_minor_first;  // major 0: file systems without a block device
    }
    while (!taken.insert({drive.major, drive.minor}).second) ++drive.minor;
  }
}

// Ids as sold, by what the device is to its driver.
std::string_view drive_id(const Drive& drive) {
  if (drive.driver == "nvme" || drive.driver == "vfio-pci") return "144d:a80a";
  if (drive.driver == "virtio_blk") return "1af4:1042";
  return "1000:10e2";
}

void fill_drive(Drive& drive) {
  const bool nvme = drive.driver.substr(0, 4) == "nvme";
  if (nvme && drive.model.empty()) drive.model = "software drive";
  if (nvme && drive.firmware.empty()) drive.firmware = "1.0";
  if (is_pci_drive(drive) && drive.pci_id.empty()) drive.pci_id = drive_id(drive);
}

// Every device has a group of its own where there is an IOMMU; namespaces of one controller share.
class IommuGroups {
 public:
  explicit IommuGroups(const Machine& machine) : off_(machine.kernel.iommu == IommuMode::off) {
    for (const Gpu& gpu : machine.gpus) taken_.insert(gpu.iommu_group);
    for (const Nic& nic : machine.nics) taken_.insert(nic.iommu_group);
    for (const Drive& drive : machine.drives) taken_.insert(drive.iommu_group);
  }

  void fill(IommuMode mode, const std::string& bdf, std::string& group) {
    const bool off = mode == IommuMode::inherit ? off_ : mode == IommuMode::off;
    if (off || bdf.empty()) return;
    if (group.empty() && by_bdf_.count(bdf) != 0) group = by_bdf_[bdf];
    while (group.empty()) {
      std::string candidate = std::to_string(next_++);
      if (taken_.insert(candidate).second) group = std::move(candidate);
    }
    by_bdf_.emplace(bdf, group);
  }

 private:
  bool off_;
  std::size_t next_ = 0;
  std::set<std::string> taken_;
  std::map<std::string, std::string> by_bdf_;
};

void fill_iommu_groups(Machine& machine) {
  IommuGroups groups(machine);
  for (Gpu& gpu : machine.gpus) groups.fill(gpu.iommu, gpu.bdf, gpu.iommu_group);
  for (Nic& nic : machine.nics) groups.fill(nic.iommu, nic.bdf, nic.iommu_group);
  for (Drive& drive : machine.drives) groups.fill(drive.iommu, drive.bdf, drive.iommu_group);
}

void add_port(Machine& machine, const Parent& parent, const std::string& device) {
  if (parent.kind != Parent::Kind::pci_switch || parent.index >= machine.switches.size()) return;
  std::vector<SwitchPort>& ports = machine.switches[parent.index].ports;
  const bool listed = std::any_of(ports.begin(), ports.end(),
                                  [&device](const auto& port) { return port.device == device; });
  if (!listed) ports.push_back(SwitchPort{device, AcsMode::inherit, {}});
}

void fill_ports(Machine& machine) {
  for (std::size_t i = 0; i < machine.switches.size(); ++i) {
    add_port(machine, machine.switches[i].parent, "switch:" + std::to_string(i));
  }
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    add_port(machine, machine.gpus[i].parent, "gpu:" + std::to_string(i));
  }
  for (std::size_t i = 0; i < machine.nics.size(); ++i) {
    add_port(machine, machine.nics[i].parent, "nic:" + std::to_string(i));
  }
  for (std::size_t i = 0; i < machine.drives.size(); ++i) {
    add_port(machine, machine.drives[i].parent, "drive:" + std::to_string(i));
  }
}

void fill_root_mount(Machine& machine) {
  const auto is_root = [](const Mount& mount) { return mount.point == "/"; };
  if (std::any_of(machine.mounts.begin(), machine.mounts.end(), is_root)) return;
  Mount root{
      .point = "/", .drive = {}, .type = "tmpfs", .options = "rw,relatime", .direct_io = true};
  for (const Drive& drive : machine.drives) {
    // A file server holds no ext4 of ours, and a drive without a block device holds no file.
    if (drive.driver == "nfs" || drive.driver == "vfio-pci") continue;
    root.drive = drive.name;
    root.type = "ext4";
    root.options = "rw,relatime,data=ordered";
    break;
  }
  machine.mounts.push_back(root);
}

}  // namespace

void complete_machine(Machine& machine) {
  if (machine.numa_nodes.empty()) machine.numa_nodes.emplace_back();
  for (NumaNode& node : machine.numa_nodes) {
    if (node.memory_bytes == 0) node.memory_bytes = 64 * gib;
  }
  if (machine.host_bridges.empty()) machine.host_bridges.emplace_back();
  fill_names(machine.nics, Nic{}.name, [](auto i) { return "mlx5_" + std::to_string(i); });
  fill_names(machine.drives, Drive{}.name,
             [](auto i) { return "nvme" + std::to_string(i) + "n1"; });
  Addresses addresses(machine);
  std::set<std::string> uuids;
  for (const Gpu& gpu : machine.gpus) uuids.insert(gpu.uuid);
  std::uint64_t next_uuid = 0;
  for (Gpu& gpu : machine.gpus) {
    if (gpu.memory_bytes == 0) gpu.memory_bytes = 16 * gib;
    if (gpu.bar1_bytes == 0) gpu.bar1_bytes = gpu.memory_bytes;
    addresses.fill(machine, gpu.parent, gpu.bdf);
    fill_link(gpu.link, 4, 16);
    if (gpu.pci_id.empty()) gpu.pci_id = "10de:2330";
    const std::uint64_t own = next_uuid++;
    if (!gpu.uuid.empty()) continue;
    gpu.uuid = uuid_of(own);
    for (std::uint64_t other = items_apart; !uuids.insert(gpu.uuid).second; ++other) {
      gpu.uuid = uuid_of(other);
    }
  }
  for (Nic& nic : machine.nics) {
    addresses.fill(machine, nic.parent, nic.bdf);
    fill_link(nic.link, 4, 16);
    if (nic.pci_id.empty()) nic.pci_id = "15b3:1021";
    if (nic.netdev.empty()) nic.netdev = nic.name + "_net";
  }
  for (OtherGpu& gpu : machine.other_gpus) {
    addresses.fill(machine, gpu.parent, gpu.bdf);
    fill_link(gpu.link, 4, 16);
    if (gpu.pci_id.empty()) gpu.pci_id = gpu.vendor == "intel" ? "8086:56c0" : "1002:740f";
  }
  for (Drive& drive : machine.drives) {
    fill_drive(drive);
    if (!is_pci_drive(drive)) continue;
    addresses.fill(machine, drive.parent, drive.bdf);
    fill_link(drive.link, 4, 4);
  }
  fill_iommu_groups(machine);
  fill_device_numbers(machine.drives);
  fill_ports(machine);
  fill_root_mount(machine);
}

}  // namespace nobounce::core
