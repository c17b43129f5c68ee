// Drives and NICs in sysfs, and the udev database: what the kernel and udevd say of a machine's
// devices.
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>

#include "core/drive_kind.hpp"
#include "fabric/soft_files_parts.hpp"

namespace nobounce::fabric {
namespace {

constexpr std::uint64_t sector_bytes = 512;
constexpr std::uint64_t drive_sectors = (std::uint64_t{4} << 40) / 512;

std::string device_number(const Drive& drive) {
  return std::to_string(drive.major) + ':' + std::to_string(drive.minor);
}

// nvme3n1 is namespace 1 of controller nvme3; a drive of another name gets a controller by its
// index.
std::string controller_name(const Drive& drive, std::size_t index) {
  const std::string_view name = drive.name;
  const std::size_t n = name.rfind('n');
  if (name.substr(0, 4) == "nvme" && n != std::string_view::npos && n > 4) {
    return std::string(name.substr(0, n));
  }
  return "nvme" + std::to_string(index);
}

void add_block_device(FileTree& tree, const Drive& drive, const std::string& path,
                      const std::string& device_path) {
  const auto text = [&](const char* name, std::string content) {
    tree.add_text(path + '/' + name, std::move(content));
  };
  text("dev", device_number(drive) + '\n');
  text("size", std::to_string(drive_sectors) + '\n');
  text("ro", "0\n");
  text("removable", "0\n");
  text("queue/logical_block_size", std::to_string(drive.logical_block_bytes) + '\n');
  text("queue/physical_block_size", "4096\n");
  text("queue/dma_alignment", "3\n");
  text("queue/rotational", "0\n");
  text("integrity/device_is_integrity_capable", "0\n");
  text("uevent", "MAJOR=" + std::to_string(drive.major) + "\nMINOR=" + std::to_string(drive.minor) +
                     "\nDEVNAME=" + drive.name + "\nDEVTYPE=disk\n");
  if (!device_path.empty()) tree.add_link(path + "/device", device_path);
  tree.add_link(path + "/subsystem", "/sys/class/block");
  tree.add_link("/sys/block/" + drive.name, path);
  tree.add_link("/sys/class/block/" + drive.name, path);
  tree.add_link("/sys/dev/block/" + device_number(drive), path);
  tree.add_text("/dev/" + drive.name, "");
}

void add_nvme_drive(FileTree& tree, const Drive& drive, const std::string& controller,
                    const std::string& controller_path, std::int32_t numa) {
  tree.add_text(controller_path + "/model", drive.model + '\n');
  tree.add_text(controller_path + "/firmware_rev", drive.firmware + '\n');
  const std::string block_path = controller_path + '/' + drive.name;
  tree.add_text(block_path + "/nsid", std::to_string(drive.namespace_id) + '\n');
  tree.add_text(controller_path + "/serial", "0\n");
  tree.add_text(controller_path + "/state", "live\n");
  tree.add_text(controller_path + "/numa_node", std::to_string(numa) + '\n');
  tree.add_link(controller_path + "/subsystem", "/sys/class/nvme");
  tree.add_link("/sys/class/nvme/" + controller, controller_path);
  add_block_device(tree, drive, block_path, controller_path);
}

void add_pci_drive(FileTree& tree, const Drive& drive, std::size_t index,
                   const PciFunction& function) {
  if (drive.driver == "nvme") {
    const std::string controller = controller_name(drive, index);
    const std::string path = function.path + "/nvme/" + controller;
    tree.add_link(path + "/device", function.path);
    tree.add_text(path + "/transport", "pcie\n");
    tree.add_text(path + "/address", function.bdf + '\n');
    add_nvme_drive(tree, drive, controller, path, function.numa);
  } else if (drive.driver == "virtio_blk") {
    const std::string name = "virtio" + std::to_string(index);
    const std::string path = function.path + '/' + name;
    tree.add_link("/sys/bus/virtio/devices/" + name, path);
    tree.add_link("/sys/bus/virtio/drivers/virtio_blk/" + name, path);
    tree.add_link(path + "/driver", "/sys/bus/virtio/drivers/virtio_blk");
    add_block_device(tree, drive, path + "/block/" + drive.name, path);
  } else {
    add_block_device(tree, drive, function.path + "/block/" + drive.name, function.path);
  }
}

void add_fabrics_drive(FileTree& tree, const Machine& machine, const Drive& drive,
                       std::size_t index) {
  const std::string controller = controller_name(drive, index);
  const std::string path = "/sys/devices/virtual/nvme-fabrics/ctl/" + controller;
  tree.add_text(path + "/transport", drive.driver == "nvme_tcp" ? "tcp\n" : "rdma\n");
  std::string address = "traddr=192.0.2.10,trsvcid=4420";
  if (drive.parent.kind == Parent::Kind::nic && drive.parent.index < machine.nics.size()) {
    address += ",host_iface=" + machine.nics[drive.parent.index].netdev;
  }
  tree.add_text(path + "/address", address + '\n');
  add_nvme_drive(tree, drive, controller, path, -1);
}

/// The prefix of a mapping's uuid says who made it.
std::string dm_uuid(const std::string& layer) {
  if (layer == "lvm") return "LVM-software";
  if (layer == "crypt") return "CRYPT-software";
  if (layer == "multipath") return "mpath-software";
  return layer.empty() ? "" : layer + "-software";
}

void add_virtual_drive(FileTree& tree, const Drive& drive) {
  const std::string path = "/sys/devices/virtual/block/" + drive.name;
  if (drive.driver == "dm") {
    tree.add_text(path + "/dm/name", drive.name + '\n');
    tree.add_text(path + "/dm/uuid", dm_uuid(drive.layer) + '\n');
  } else if (drive.driver == "md") {
    tree.add_text(path + "/md/level", drive.layer + '\n');
    tree.add_text(path + "/md/raid_disks", std::to_string(drive.parts.size()) + '\n');
  } else if (drive.driver == "loop") {
    tree.add_text(path + "/loop/backing_file", "/backing\n");
  }
  add_block_device(tree, drive, path, "");
  for (const std::string& part : drive.parts) {
    tree.add_link(path + "/slaves/" + part, "/sys/class/block/" + part);
  }
}

// What udevd stored: the file system is there for a drive that a mount lies on.
void add_udev_record(FileTree& tree, const Machine& machine, const Drive& drive) {
  std::string record = "N:" + drive.name + "\nE:DEVNAME=/dev/" + drive.name + '\n';
  for (const Mount& mount : machine.mounts) {
    if (mount.drive != drive.name) continue;
    record += "E:ID_FS_TYPE=" + mount.type + "\nE:ID_FS_USAGE=filesystem\n";
    break;
  }
  tree.add_text("/run/udev/data/b" + device_number(drive), std::move(record));
}

/// Namespaces of one controller share its function.
const PciFunction* drive_function(const std::vector<PciFunction>& functions, const Drive& drive) {
  for (const PciFunction& function : functions) {
    if (function.kind == PciFunction::Kind::endpoint && function.bdf == drive.bdf) return &function;
  }
  return nullptr;
}

/// As /sys/block/NAME/stat: requests, merges, sectors and milliseconds read, the same written, and
/// what a model without queues and times leaves at zero.
std::string drive_counters(const Ledger& ledger, std::size_t drive) {
  const Space medium{Space::Kind::media, static_cast<std::uint32_t>(drive)};
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  for (const auto& [flow, bytes] : ledger.flows()) {
    if (flow.source == medium) read_bytes += bytes;
    if (flow.target == medium) written_bytes += bytes;
  }
  return "0 0 " + std::to_string(read_bytes / sector_bytes) + " 0 0 0 " +
         std::to_string(written_bytes / sector_bytes) + " 0 0 0 0 0 0 0 0 0 0\n";
}

void add_port_files(FileTree& tree, const Nic& nic, const std::string& port) {
  tree.add_text(port + "/state", nic.active ? "4: ACTIVE\n" : "1: DOWN\n");
  tree.add_text(port + "/phys_state", nic.active ? "5: LinkUp\n" : "3: Disabled\n");
  tree.add_text(port + "/rate", std::to_string(nic.rate_gbps) + " Gb/sec\n");
  switch (nic.link_layer) {
    case LinkLayer::infiniband:
      tree.add_text(port + "/link_layer", "InfiniBand\n");
      break;
    case LinkLayer::ethernet:
      tree.add_text(port + "/link_layer", "Ethernet\n");
      break;
    case LinkLayer::unknown:
      break;
  }
}

}  // namespace

void add_drive_files(FileTree& tree, const Machine& machine,
                     const std::vector<PciFunction>& functions, const Ledger& ledger) {
  tree.add_directory("/sys/block");
  tree.add_directory("/sys/class/block");
  tree.add_directory("/sys/class/nvme");
  tree.add_directory("/sys/dev/block");
  if (machine.udev) {
    tree.add_directory("/run/udev/data");
    tree.add_text("/run/udev/control", "");
  }
  for (std::size_t i = 0; i < machine.drives.size(); ++i) {
    const Drive& drive = machine.drives[i];
    if (core::is_network_file_system(drive.driver))
      continue;  // a server's export is no block device
    const PciFunction* function =
        core::is_pci_drive(drive) ? drive_function(functions, drive) : nullptr;
    if (drive.driver == "vfio-pci") {  // a program's own: no block device
      tree.add_text("/dev/vfio/" + drive.iommu_group, "");
      continue;
    }
    if (function != nullptr) {
      add_pci_drive(tree, drive, i, *function);
    } else if (drive.driver.substr(0, 5) == "nvme_" || drive.parent.kind == Parent::Kind::nic) {
      add_fabrics_drive(tree, machine, drive, i);
    } else {
      add_virtual_drive(tree, drive);
    }
    if (machine.udev) add_udev_record(tree, machine, drive);
    const Result<std::string> path = tree.real_path("/sys/class/block/" + drive.name);
    if (!path.ok()) continue;
    tree.add_made_text(*path + "/stat", [&ledger, i] { return drive_counters(ledger, i); });
  }
}

void add_nic_files(FileTree& tree, const Machine& machine,
                   const std::vector<PciFunction>& functions) {
  tree.add_directory("/sys/class/infiniband");
  tree.add_directory("/sys/class/net");
  for (std::size_t i = 0; i < machine.nics.size(); ++i) {
    const DeviceRef device{DeviceRef::Kind::nic, static_cast<std::uint16_t>(i)};
    const PciFunction* function = function_of(functions, device);
    if (function == nullptr) continue;
    const std::string& name = machine.nics[i].name;
    const std::string path = function->path + "/infiniband/" + name;
    tree.add_link(path + "/device", function->path);
    tree.add_text(path + "/node_type", "1: CA\n");
    const Nic& nic = machine.nics[i];
    if (!nic.firmware.empty()) tree.add_text(path + "/fw_ver", nic.firmware + '\n');
    add_port_files(tree, nic, path + "/ports/1");
    tree.add_link("/sys/class/infiniband/" + name, path);
    if (!nic.netdev.empty()) {
      const std::string net = function->path + "/net/" + nic.netdev;
      tree.add_link(net + "/device", function->path);
      tree.add_text(net + "/operstate", nic.active ? "up\n" : "down\n");
      tree.add_link("/sys/class/net/" + nic.netdev, net);
    }
    if (!machine.container.infiniband_hidden) {
      tree.add_text("/dev/infiniband/uverbs" + std::to_string(i), "");
    }
  }
}

}  // namespace nobounce::fabric
