// Reads /sys/block and the mount table.
#include "topology/block_devices.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/drive_kind.hpp"
#include "topology/mount_table.hpp"
#include "topology/sysfs_text.hpp"

namespace nobounce::topology {
namespace {

using core::MountLine;

constexpr std::uint32_t nvme_class = 0x0108;

/// Devices that exist on every host whether anybody uses them or not: listed where something is
/// mounted from them.
bool listed_only_if_mounted(std::string_view name) {
  constexpr std::array<std::string_view, 6> prefixes = {"loop", "ram", "zram", "nbd", "sr", "fd"};
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view prefix) {
    return name.substr(0, prefix.size()) == prefix;
  });
}

class StorageReader {
 public:
  StorageReader(system::Files& files, const PciTree& tree, const std::vector<FoundNic>& nics)
      : files_(files), tree_(tree), nics_(nics), table_(read_mount_table(files)) {}

  StorageTree read() {
    std::vector<std::string> names = names_in(files_, "/sys/block");
    std::sort(names.begin(), names.end(),
              [](const std::string& a, const std::string& b) { return natural_less(a, b); });
    const std::string modules = text_at(files_, "/proc/driver/nvidia-fs/modules");
    for (const std::string_view line : split(modules, '\n'))
      registered_.emplace_back(line.substr(0, line.find_first_of(" \t:")));
    for (const std::string& name : names) read_drive(name);
    for (const PciFunction& function : tree_.functions()) read_bare_controller(function);
    for (const MountLine& line : table_) read_mount(line);
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool mounted(std::string_view device) const {
    return std::any_of(table_.begin(), table_.end(),
                       [&](const MountLine& line) { return line.device == device; });
  }

  void read_drive(const std::string& name) {
    const Result<std::string> path = files_.real_path("/sys/block/" + name);
    if (!path) return;
    const std::string device = text_at(files_, *path + "/dev");
    if (listed_only_if_mounted(name) && !mounted(device)) return;
    if (number_at(files_, *path + "/size") == 0) return;  // an empty slot
    FoundDrive found;
    Drive& drive = found.drive;
    drive.name = name;
    const std::vector<std::string_view> numbers = split(device, ':');
    if (numbers.size() == 2) {
      drive.major = static_cast<std::uint32_t>(number_of(numbers[0]).value_or(0));
      drive.minor = static_cast<std::uint32_t>(number_of(numbers[1]).value_or(0));
    }
    found.function = tree_.owner_of(below(*path));
    drive.driver = driver_of(*path, name);
    drive.parent = Parent{};
    const bool mapped = drive.driver == "dm" || drive.driver == "md";
    if (found.function != nullptr && !mapped) {
      drive.bdf = found.function->bdf;
      drive.link = tree_.link_of(*found.function);
      drive.pci_id = found.function->id();
    } else if (drive.driver.substr(0, 5) == "nvme_") {
      if (const auto nic = nic_of_fabrics(*path)) drive.parent = Parent{Parent::Kind::nic, *nic};
    }
    drive.nvidia_fs_registered =
        std::find(registered_.begin(), registered_.end(), drive.driver) != registered_.end();
    read_properties(*path, mapped, drive);
    add_device(device, name);
    for (const std::string& part : names_in(files_, *path)) {
      const std::string part_device = text_at(files_, *path + "/" + part + "/dev");
      if (!part_device.empty() && files_.exists(*path + "/" + part + "/partition")) {
        add_device(part_device, name);
      }
    }
    result_.drives.push_back(std::move(found));
  }

  /// An NVMe controller that a driver for user space holds: it has no block device.
  void read_bare_controller(const PciFunction& function) {
    if (function.class_code >> 8 != nvme_class) return;
    const std::string driver = tree_.driver_of(function);
    if (driver != "vfio-pci" && driver != "uio_pci_generic") return;
    FoundDrive found;
    found.function = &function;
    Drive& drive = found.drive;
    drive.name = drive.bdf = function.bdf;
    drive.driver = driver;
    drive.nvidia_fs_registered = false;
    drive.link = tree_.link_of(function);
    drive.pci_id = function.id();
    result_.drives.push_back(std::move(found));
  }

  void read_properties(const std::string& path, bool mapped, Drive& drive) {
    const auto block = number_at(files_, path + "/queue/logical_block_size");
    if (block.has_value() && *block > 0) {
      drive.logical_block_bytes = static_cast<std::uint32_t>(*block);
    }
    if (mapped) {
      drive.layer = layer_of(path, drive.driver);
      drive.parts = names_in(files_, path + "/slaves");
      std::sort(drive.parts.begin(), drive.parts.end(), natural_less);
      // A part may be a partition: its disk is the drive.
      for (std::string& part : drive.parts) part = disk_of(part);
      return;
    }
    const auto nsid = number_at(files_, path + "/nsid");
    if (nsid.has_value() && *nsid > 0) drive.namespace_id = static_cast<std::uint32_t>(*nsid);
    drive.model = text_at(files_, path + "/device/model");
    drive.firmware = text_at(files_, path + "/device/firmware_rev");
  }

  /// What a mapping does with requests: md says it, of dm the uuid's prefix tells who made it.
  [[nodiscard]] std::string layer_of(const std::string& path, std::string_view driver) const {
    if (driver == "md") return text_at(files_, path + "/md/level");
    const std::string uuid = text_at(files_, path + "/dm/uuid");
    const std::string maker = uuid.substr(0, uuid.find('-'));
    if (maker == "LVM") return "lvm";
    if (maker == "CRYPT") return "crypt";
    return maker == "mpath" ? "multipath" : maker;
  }

  [[nodiscard]] std::string disk_of(const std::string& name) const {
    const Result<std::string> path = files_.real_path("/sys/class/block/" + name);
    if (!path || !files_.exists(*path + "/partition")) return name;
    return std::string(last_part(path->substr(0, path->rfind('/'))));
  }

  void add_device(const std::string& device, const std::string& drive) {
    if (!device.empty()) drive_of_device_[device] = drive;
  }

  /// Where a drive's requests go in the end: through a multipath head to its controller, through a
  /// mapping to the first device below it.
  [[nodiscard]] std::string below(const std::string& path, int depth = 0) const {
    if (depth > 8) return path;
    const std::size_t subsystem = path.find("/nvme-subsystem/");
    if (subsystem != std::string::npos) {
      const std::string folder = path.substr(0, path.rfind('/'));
      for (const std::string& name : names_in(files_, folder)) {
        if (name.substr(0, 4) != "nvme" ||
            name.find_first_not_of("0123456789", 4) != std::string::npos)
          continue;
        if (const Result<std::string> controller = files_.real_path(folder + "/" + name))
          return *controller;
      }
    }
    for (const std::string& name : names_in(files_, path + "/slaves")) {
      const Result<std::string> slave = files_.real_path(path + "/slaves/" + name);
      if (slave) return below(*slave, depth + 1);
    }
    return path;
  }

  [[nodiscard]] std::string driver_of(const std::string& path, const std::string& name) const {
    if (files_.exists(path + "/dm")) return "dm";
    if (files_.exists(path + "/md")) return "md";
    if (name.substr(0, 4) == "nvme") {
      std::string transport = text_at(files_, path + "/device/transport");
      if (transport.empty()) transport = text_at(files_, below(path) + "/transport");
      if (transport == "pcie") return "nvme";
      if (!transport.empty()) return "nvme_" + transport;
    }
    // A name is a habit, the driver a fact. A virtual device has none; SCSI's is called sd.
    for (const char* link : {"/device/driver", "/device/device/driver"}) {
      if (const Result<std::string> driver = files_.real_path(path + link)) {
        return std::string(last_part(*driver));
      }
    }
    return name.substr(0, name.find_first_of("0123456789"));
  }

  /// The adapter that a controller's address names; the only one, where it names none.
  [[nodiscard]] std::optional<std::uint32_t> nic_of_fabrics(const std::string& path) const {
    std::string address = text_at(files_, path + "/device/address");
    if (address.empty()) address = text_at(files_, below(path) + "/address");
    for (const std::string_view field : split(address, ',')) {
      constexpr std::string_view interface = "host_iface=";
      if (field.substr(0, interface.size()) != interface) continue;
      const std::string name(field.substr(interface.size()));
      const Result<std::string> device = files_.real_path("/sys/class/net/" + name + "/device");
      if (!device) continue;
      const PciFunction* function = tree_.owner_of(*device);
      for (std::size_t i = 0; function != nullptr && i < nics_.size(); ++i) {
        if (nics_[i].function == function) return static_cast<std::uint32_t>(i);
      }
    }
    return only_nic();
  }

  [[nodiscard]] std::optional<std::uint32_t> only_nic() const {
    if (nics_.size() != 1) return std::nullopt;
    return 0;
  }

  void read_mount(const MountLine& line) {
    Mount mount;
    mount.point = line.point;
    mount.type = line.type;
    mount.options = line.options;
    mount.drive = drive_of(line);
    if (mount.drive.empty() && core::is_network_file_system(line.type))
      mount.drive = server_of(line);
    result_.mounts.push_back(std::move(mount));
  }

  [[nodiscard]] std::string drive_of(const MountLine& line) const {
    const auto by_device = drive_of_device_.find(line.device);
    if (by_device != drive_of_device_.end()) return by_device->second;
    // btrfs and zfs give every mount a number of its own; the source tells.
    if (line.source.substr(0, 5) != "/dev/") return {};
    const Result<std::string> node = files_.real_path(line.source);
    const std::string name(last_part(node ? *node : line.source));
    const std::string device = text_at(files_, "/sys/class/block/" + name + "/dev");
    const auto by_source = drive_of_device_.find(device);
    return by_source == drive_of_device_.end() ? std::string() : by_source->second;
  }

  /// The server behind a network file system, as a drive: `nfs0` of `nfs0:/export`.
  std::string server_of(const MountLine& line) {
    std::string name = line.source.substr(0, line.source.find(":/"));
    name = std::string(last_part(name));
    if (name.empty()) return {};
    const std::string driver = line.type == "nfs4" ? "nfs" : line.type;
    for (const FoundDrive& found : result_.drives) {
      if (found.drive.name != name) continue;
      return found.drive.driver == driver ? name : std::string();
    }
    FoundDrive found;
    found.drive.name = name;
    found.drive.driver = driver;
    found.drive.parent = Parent{};
    if (const auto nic = only_nic()) found.drive.parent = Parent{Parent::Kind::nic, *nic};
    const std::vector<std::string_view> numbers = split(line.device, ':');
    if (numbers.size() == 2) {
      found.drive.major = static_cast<std::uint32_t>(number_of(numbers[0]).value_or(0));
      found.drive.minor = static_cast<std::uint32_t>(number_of(numbers[1]).value_or(0));
    }
    found.drive.nvidia_fs_registered = std::any_of(
        registered_.begin(), registered_.end(),
        [&](const auto& each) { return each == driver || (driver == "nfs" && each == "rpcrdma"); });
    result_.drives.push_back(std::move(found));
    return name;
  }

  system::Files& files_;
  const PciTree& tree_;
  const std::vector<FoundNic>& nics_;
  std::vector<MountLine> table_;
  std::vector<std::string> registered_;
  std::map<std::string, std::string, std::less<>> drive_of_device_;
  StorageTree result_;
};

}  // namespace

StorageTree read_storage(system::Files& files, const PciTree& tree,
                         const std::vector<FoundNic>& nics) {
  return StorageReader(files, tree, nics).read();
}

}  // namespace nobounce::topology
