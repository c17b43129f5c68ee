// Who has a drive: its driver, and what is mounted from, swapped to or built on its block devices.
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/mount_table.hpp"
#include "core/trimmed.hpp"
#include "preconditions/read_drive_facts.hpp"

namespace nobounce::preconditions {
namespace {

constexpr const char* mounts_file = "/proc/self/mountinfo";
constexpr const char* swap_table = "/proc/swaps";

std::string last_part(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

class DriveReader {
 public:
  DriveReader(system::Files& files, std::string_view bdf) : files_(files) {
    facts_.bdf = std::string(bdf);
  }

  core::DriveFacts read() {
    const std::string folder = "/sys/bus/pci/devices/" + facts_.bdf;
    facts_.exists = files_.exists(folder);
    if (!facts_.exists) return facts_;
    const Result<std::string> class_code = files_.read(folder + "/class");
    facts_.is_nvme = class_code.ok() && class_code->substr(0, 6) == "0x0108";
    if (const Result<std::string> driver = files_.real_path(folder + "/driver"))
      facts_.driver = last_part(*driver);
    // A function without a driver of its own, or with one that leaves it alone, has no block
    // device.
    for (const std::string& controller : names_in(folder + "/nvme"))
      read_controller(folder, controller);
    return facts_;
  }

 private:
  void use(std::string what, std::string source) {
    facts_.uses.push_back({std::move(what), std::move(source)});
  }

  /// What is not there uses nothing; what cannot be read may.
  std::vector<std::string> names_in(const std::string& path) {
    Result<std::vector<std::string>> names = files_.list(path);
    if (names.ok()) return std::move(*names);
    if (names.error().code != ENOENT) use(path + " cannot be read", path);
    return {};
  }

  /// Block devices are below the controller; with multipath below the subsystem, as its heads.
  void read_controller(const std::string& folder, const std::string& controller) {
    const std::string path = folder + "/nvme/" + controller;
    read_devices(path, controller);
    for (const std::string& name : names_in("/sys/class/nvme-subsystem")) {
      const std::string heads = "/sys/class/nvme-subsystem/" + name;
      if (files_.exists(heads + "/" + controller)) read_devices(heads, "nvme");
    }
  }

  void read_devices(const std::string& folder, const std::string& prefix) {
    for (const std::string& name : names_in(folder)) {
      const bool named = name.substr(0, prefix.size()) == prefix;
      if (named && files_.exists(folder + "/" + name + "/dev")) read_disk(folder + "/" + name);
    }
  }

  void read_disk(const std::string& path) {
    read_block_device(path);
    const Result<std::vector<std::string>> parts = files_.list(path);
    if (!parts.ok()) {
      use("the partitions of " + last_part(path) + " cannot be read", path);
      return;
    }
    for (const std::string& part : *parts) {
      if (files_.exists(path + "/" + part + "/partition")) read_block_device(path + "/" + part);
    }
  }

  void read_block_device(const std::string& path) {
    const std::string name = "/dev/" + last_part(path);
    const Result<std::string> number = files_.read(path + "/dev");
    const Result<std::string> mounts = files_.read(mounts_file);
    if (!number.ok() || !mounts.ok()) {
      use("what is mounted from " + name + " cannot be read", mounts_file);
      return;
    }
    for (const core::MountLine& line : core::parse_mount_table(*mounts)) {
      if (line.device == core::trimmed(*number) || line.source == name)
        use(name + " is mounted on " + line.point, mounts_file);
    }
    for (const std::string& holder : names_in(path + "/holders"))
      use("/dev/" + holder + " is built on " + name, path + "/holders");
    const Result<std::string> swaps = files_.read(swap_table);
    if (!swaps.ok() && swaps.error().code != ENOENT) {
      use("what holds swap cannot be read", swap_table);
    } else if (swaps.ok() && (swaps->find(name + " ") != std::string::npos ||
                              swaps->find(name + "\t") != std::string::npos)) {
      use(name + " holds swap", swap_table);
    }
  }

  system::Files& files_;
  core::DriveFacts facts_;
};

}  // namespace

core::DriveFacts read_drive_facts(system::Files& files, std::string_view bdf) {
  return DriveReader(files, bdf).read();
}

}  // namespace nobounce::preconditions
