// Reads what concerns one path: its mount, the device below it, and whether O_DIRECT works on it.
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/drive_parts.hpp"
#include "core/file_path.hpp"
#include "core/mount_table.hpp"
#include "preconditions/read_facts.hpp"

namespace nobounce::preconditions {
namespace {

using core::Fact;

constexpr std::string_view mount_table = "/proc/self/mountinfo";

/// An absolute path without symbolic links, and what lies there, if anything does yet.
struct Located {
  std::string path;
  std::optional<system::FileStatus> status;
};

Result<Located> locate(system::Storage& storage, std::string_view path) {
  Result<std::string> real = storage.real_path(path);
  if (real) {
    const Result<system::FileStatus> status = storage.status_of(*real);
    if (!status) return status.error();
    return Located{std::move(*real), *status};
  }
  if (real.error().code != ENOENT) return real.error();
  Result<std::string> directory = storage.real_path(core::directory_of(path));
  if (!directory) return directory.error();
  const std::size_t slash = path.rfind('/');
  const std::string name(slash == std::string_view::npos ? path : path.substr(slash + 1));
  return Located{(*directory == "/" ? "" : *directory) + "/" + name, std::nullopt};
}

/// A software machine may have mounts whose directories the real host lacks: its description says
/// all there is to say of a path below them.
bool is_only_described(system::Storage& storage, const Machine& machine, std::string_view path) {
  const Mount* mount = path.substr(0, 1) == "/" ? mount_of(machine, path) : nullptr;
  if (mount == nullptr) return false;
  const Result<std::string> real = storage.real_path(mount->point);
  return !real && real.error().code == ENOENT;
}

std::string_view type_text(system::FileType type) {
  switch (type) {
    case system::FileType::regular:
      return "a regular file";
    case system::FileType::directory:
      return "a directory";
    case system::FileType::fifo:
      return "a FIFO";
    case system::FileType::block_device:
      return "a block device";
    case system::FileType::character_device:
      return "a character device";
    case system::FileType::socket:
      return "a socket";
    case system::FileType::other:
      break;
  }
  return "no regular file";
}

Fact judge_type(const Located& located) {
  if (!located.status.has_value())
    return Fact{true, "does not exist yet: will be a regular file", "stat"};
  const system::FileType type = located.status->type;
  return Fact{type == system::FileType::regular, std::string(type_text(type)), "stat"};
}

/// These take O_DIRECT on any file, so a file that does not exist yet will too.
bool takes_direct_io(std::string_view type) {
  return type == "ext4" || type == "xfs" || type == "nfs" || type == "nfs4" || type == "lustre" ||
         type == "gpfs" || type == "btrfs";
}

Fact try_direct_io(system::Storage& storage, const Located& located,
                   const std::optional<Mount>& mount) {
  const std::string source = "open with O_DIRECT";
  if (!located.status.has_value()) {
    if (mount.has_value() && takes_direct_io(mount->type)) {
      return Fact{true, "does not exist yet, and " + mount->type + " takes O_DIRECT",
                  std::string(mount_table)};
    }
    return Fact{std::nullopt, "does not exist yet, so it cannot be tried", source};
  }
  if (located.status->type != system::FileType::regular) {
    return Fact{std::nullopt, "not tried: " + std::string(type_text(located.status->type)), source};
  }
  const Result<system::FileHandle> file =
      storage.open(located.path, {.access = system::FileAccess::read, .direct = true});
  if (file) {
    (void)storage.close(*file);
    return Fact{true, "O_DIRECT is accepted", source};
  }
  const bool refused = file.error().code == EINVAL || file.error().code == EOPNOTSUPP;
  if (refused) return Fact{false, "O_DIRECT is refused: " + to_string(file.error()), source};
  return Fact{std::nullopt, to_string(file.error()), source};
}

/// Names in /proc/driver/nvidia-fs/modules: one a line, possibly with more after a blank or colon.
bool lists_module(std::string_view modules, std::string_view name) {
  while (!modules.empty()) {
    const std::size_t end = modules.find('\n');
    const std::string_view line = modules.substr(0, end);
    if (line.substr(0, line.find_first_of(" \t:")) == name) return true;
    if (end == std::string_view::npos) break;
    modules.remove_prefix(end + 1);
  }
  return false;
}

Fact read_registered(system::Files& files, const std::string& driver) {
  const std::string source = "/proc/driver/nvidia-fs/modules";
  const Result<std::string> modules = files.read(source);
  if (!modules) return Fact{std::nullopt, to_string(modules.error()), source};
  if (driver.empty()) return Fact{std::nullopt, "the driver below the file is not known", source};
  // The kernel's NFS client hands its requests to rpcrdma, which is what registers.
  const bool listed =
      lists_module(*modules, driver) || (driver == "nfs" && lists_module(*modules, "rpcrdma"));
  return Fact{
      listed,
      driver + (listed ? " is registered with nvidia-fs" : " is not registered with nvidia-fs"),
      source};
}

/// A layer over drives has no hooks of its own: the drivers of those below it register.
Fact read_all_registered(system::Files& files, const Machine& machine, std::uint32_t drive) {
  Fact worst{std::nullopt, "the drives below " + machine.drives[drive].name + " are not known",
             "/sys/block"};
  for (const std::uint32_t part : core::moving_drives(machine, drive)) {
    worst = read_registered(files, machine.drives[part].driver);
    if (worst.value != true) break;
  }
  return worst;
}

/// The device number of the mount itself: a partition's, where the drive has partitions.
std::string device_of(system::Files& files, const Mount& mount, const Drive& drive) {
  const Result<std::string> text = files.read(mount_table);
  std::string device;
  if (text) {
    for (const core::MountLine& line : core::parse_mount_table(*text)) {
      if (line.point == mount.point) device = line.device;
    }
  }
  // btrfs and others have numbers of their own, which udev does not know.
  if (device.empty() || device.substr(0, 2) == "0:") {
    device = std::to_string(drive.major) + ":" + std::to_string(drive.minor);
  }
  return device;
}

Fact read_udev_record(system::Files& files, const Mount& mount, const Drive& drive) {
  const std::string source = "/run/udev/data/b" + device_of(files, mount, drive);
  const bool there = files.exists(source);
  return Fact{there,
              there ? "udev has a record of " + drive.name : "udev has no record of " + drive.name,
              source};
}

}  // namespace

Result<core::StorageFileFacts> read_file_facts(system::Host& host, const Machine& machine,
                                               std::string_view path) {
  Result<Located> located = locate(host.storage(), path);
  if (!located && is_only_described(host.storage(), machine, path)) {
    located = Located{std::string(path), std::nullopt};
  }
  if (!located) return located.error();
  core::StorageFileFacts facts;
  facts.path = located->path;
  facts.mount_source = mount_table;
  // Where no mount table could be read, the machine has a root of unknown type: nobody's mount.
  const Mount* mount = mount_of(machine, facts.path);
  if (mount != nullptr && mount->type != "unknown") {
    facts.mount = *mount;
    facts.drive = drive_of(machine, *mount);
  }
  facts.regular_file = judge_type(*located);
  facts.direct_io = try_direct_io(host.storage(), *located, facts.mount);
  if (facts.drive.has_value()) {
    const Drive& drive = machine.drives[*facts.drive];
    facts.block_driver = drive.driver;
    facts.udev_record = read_udev_record(host.files(), *facts.mount, drive);
  } else {
    facts.udev_record =
        Fact{std::nullopt, "no block device is known to lie below it", facts.mount_source};
  }
  facts.driver_registered = facts.drive.has_value()
                                ? read_all_registered(host.files(), machine, *facts.drive)
                                : read_registered(host.files(), facts.block_driver);
  return facts;
}

}  // namespace nobounce::preconditions
