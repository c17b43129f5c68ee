// What must hold in a machine before anything reasons about it: references, cycles, names, mounts.
#include <algorithm>
#include <optional>
#include <set>

#include <nobounce/machine.hpp>

namespace nobounce {

namespace {

// DeviceRef holds 16 bits, and every algorithm here is at worst quadratic.
constexpr std::size_t items_max = 1024;

std::string at(std::string_view list, std::size_t index, std::string_view field = {}) {
  std::string pointer = "/" + std::string(list) + "/" + std::to_string(index);
  if (!field.empty()) pointer += "/" + std::string(field);
  return pointer;
}

// Collects the first thing that is wrong.
class Checker {
 public:
  explicit Checker(const Machine& machine) : machine_(machine) {}

  Status run() {
    check_sizes();
    check_bridges();
    check_switches();
    check_cycles();
    check_endpoints();
    check_ports();
    check_addresses();
    check_mounts();
    check_nvlinks();
    if (problem_.has_value()) return std::move(*problem_);
    return {};
  }

 private:
  void fail(const std::string& pointer, const std::string& what) {
    if (problem_.has_value()) return;
    problem_ = Error{.origin = ErrorOrigin::input,
                     .code = 0,
                     .attempted = "check machine " + machine_.name,
                     .cause = Cause::none,
                     .detail = pointer + ": " + what,
                     .remedy = {}};
  }

  void check_index(const std::string& pointer, std::string_view kind, std::size_t index,
                   std::size_t count) {
    if (index < count) return;
    fail(pointer, std::string(kind) + ":" + std::to_string(index) + " does not exist, there " +
                      (count == 1 ? "is 1" : "are " + std::to_string(count)));
  }

  void check_sizes() {
    const auto size = [this](std::string_view list, std::size_t count) {
      if (count > items_max) {
        fail("/" + std::string(list), "more than " + std::to_string(items_max) + " items");
      }
    };
    size("numa_nodes", machine_.numa_nodes.size());
    size("host_bridges", machine_.host_bridges.size());
    size("switches", machine_.switches.size());
    size("gpus", machine_.gpus.size());
    size("nics", machine_.nics.size());
    size("drives", machine_.drives.size());
    size("mounts", machine_.mounts.size());
    size("nvlinks", machine_.nvlinks.size());
    size("other_gpus", machine_.other_gpus.size());
    size("unread", machine_.unread.size());
    if (machine_.kernel.iommu == IommuMode::inherit) {
      fail("/kernel/iommu", "only a device can inherit");
    }
  }

  void check_bridges() {
    if (machine_.numa_nodes.empty()) fail("/numa_nodes", "a machine has at least one NUMA node");
    if (machine_.host_bridges.empty()) fail("/host_bridges", "a machine has at least one");
    for (std::size_t i = 0; i < machine_.host_bridges.size(); ++i) {
      const HostBridge& bridge = machine_.host_bridges[i];
      check_index(at("host_bridges", i, "numa"), "numa_nodes", bridge.numa,
                  machine_.numa_nodes.size());
      if (bridge.acs == AcsMode::inherit) {
        fail(at("host_bridges", i, "acs"), "only a port can inherit");
      }
    }
  }

  void check_parent(const std::string& pointer, const Parent& parent, bool may_be_nic) {
    switch (parent.kind) {
      case Parent::Kind::host_bridge:
        check_index(pointer, "host_bridge", parent.index, machine_.host_bridges.size());
        return;
      case Parent::Kind::pci_switch:
        check_index(pointer, "switch", parent.index, machine_.switches.size());
        return;
      case Parent::Kind::nic:
        if (!may_be_nic) fail(pointer, "only a drive can sit behind a nic");
        check_index(pointer, "nic", parent.index, machine_.nics.size());
        return;
    }
  }

  void check_switches() {
    for (std::size_t i = 0; i < machine_.switches.size(); ++i) {
      const Switch& item = machine_.switches[i];
      const bool on_bridge = item.parent.kind == Parent::Kind::host_bridge;
      check_parent(at("switches", i, on_bridge ? "host_bridge" : "parent"), item.parent, false);
      if (item.acs == AcsMode::inherit) {
        fail(at("switches", i, "acs"), "only a port can inherit");
      }
    }
  }

  void check_cycles() {
    if (problem_.has_value()) return;  // indices are good from here on
    for (std::size_t i = 0; i < machine_.switches.size(); ++i) {
      Parent above = machine_.switches[i].parent;
      std::size_t steps = 0;
      while (above.kind == Parent::Kind::pci_switch) {
        if (++steps > machine_.switches.size()) {
          fail(at("switches", i, "parent"), "the switches above it form a cycle");
          return;
        }
        above = machine_.switches[above.index].parent;
      }
    }
  }

  void check_endpoints() {
    for (std::size_t i = 0; i < machine_.gpus.size(); ++i) {
      check_parent(at("gpus", i, "parent"), machine_.gpus[i].parent, false);
    }
    std::set<std::string> nic_names;
    for (std::size_t i = 0; i < machine_.nics.size(); ++i) {
      check_parent(at("nics", i, "parent"), machine_.nics[i].parent, false);
      check_name(at("nics", i, "name"), machine_.nics[i].name, nic_names);
    }
    std::set<std::string> drive_names;
    for (std::size_t i = 0; i < machine_.drives.size(); ++i) {
      check_parent(at("drives", i, "parent"), machine_.drives[i].parent, true);
      check_name(at("drives", i, "name"), machine_.drives[i].name, drive_names);
    }
    for (std::size_t i = 0; i < machine_.drives.size(); ++i) check_parts(i, drive_names);
    for (std::size_t i = 0; i < machine_.other_gpus.size(); ++i) {
      check_parent(at("other_gpus", i, "parent"), machine_.other_gpus[i].parent, false);
    }
  }

  /// Parts are drives of this machine, and a drive is not below itself.
  void check_parts(std::size_t index, const std::set<std::string>& names) {
    const std::vector<std::string>& parts = machine_.drives[index].parts;
    const std::string list = at("drives", index, "parts").substr(1);
    if (parts.size() > items_max) fail("/" + list, "too many");
    for (std::size_t j = 0; j < parts.size() && !problem_.has_value(); ++j) {
      if (names.count(parts[j]) == 0) fail(at(list, j), "there is no drive " + parts[j]);
    }
    std::set<std::string> below;
    std::vector<std::string> open = parts;
    while (!open.empty() && !problem_.has_value()) {
      const std::string name = std::move(open.back());
      open.pop_back();
      if (name == machine_.drives[index].name) fail("/" + list, name + " is a part of itself");
      if (!below.insert(name).second) continue;
      for (const Drive& drive : machine_.drives) {
        if (drive.name == name) open.insert(open.end(), drive.parts.begin(), drive.parts.end());
      }
    }
  }

  void check_name(const std::string& pointer, const std::string& name,
                  std::set<std::string>& names) {
    if (name.empty()) fail(pointer, "empty");
    // A name becomes a step of a path in /sys and /dev.
    if (name.find('/') != std::string::npos || name == "." || name == "..") {
      fail(pointer, "\"" + name + "\" cannot be a device's name");
    }
    if (!names.insert(name).second) fail(pointer, "the name " + name + " is taken");
  }

  std::optional<Parent> parent_of_port_device(const std::string& device) {
    for (std::size_t i = 0; i < machine_.gpus.size(); ++i) {
      if (device == "gpu:" + std::to_string(i)) return machine_.gpus[i].parent;
    }
    for (std::size_t i = 0; i < machine_.nics.size(); ++i) {
      if (device == "nic:" + std::to_string(i)) return machine_.nics[i].parent;
    }
    for (std::size_t i = 0; i < machine_.drives.size(); ++i) {
      if (device == "drive:" + std::to_string(i)) return machine_.drives[i].parent;
    }
    for (std::size_t i = 0; i < machine_.switches.size(); ++i) {
      if (device == "switch:" + std::to_string(i)) return machine_.switches[i].parent;
    }
    return std::nullopt;
  }

  void check_ports() {
    for (std::size_t i = 0; i < machine_.switches.size(); ++i) {
      check_ports_of("switches", i, "switch:", machine_.switches[i].ports);
    }
    for (std::size_t i = 0; i < machine_.host_bridges.size(); ++i) {
      check_ports_of("host_bridges", i, "host_bridge:", machine_.host_bridges[i].ports);
    }
  }

  void check_ports_of(std::string_view kind, std::size_t index, std::string_view word,
                      const std::vector<SwitchPort>& ports) {
    std::set<std::string> devices;
    const std::string list = at(kind, index, "ports").substr(1);
    if (ports.size() > items_max) fail("/" + list, "too many");
    for (std::size_t j = 0; j < ports.size() && !problem_.has_value(); ++j) {
      const std::string pointer = at(list, j, "device");
      const std::string& device = ports[j].device;
      const auto parent = parent_of_port_device(device);
      const std::string self = std::string(word) + std::to_string(index);
      if (!parent.has_value()) {
        fail(pointer, "\"" + device + "\" is no device of this machine");
      } else if (to_string(*parent) != self) {
        fail(pointer, device + " is not below " + self + " but below " + to_string(*parent));
      } else if (!devices.insert(device).second) {
        fail(pointer, device + " has a port already");
      }
      if (!is_control_word(ports[j].acs_control)) {
        fail(at(list, j, "acs_control"),
             "\"" + ports[j].acs_control + "\" is not of the form 0x001d");
      }
    }
  }

  static bool is_control_word(std::string_view text) {
    if (text.empty()) return true;
    return text.size() > 2 && text.size() <= 6 && text.substr(0, 2) == "0x" &&
           text.find_first_not_of("0123456789abcdef", 2) == std::string_view::npos;
  }

  static bool is_bus_address(std::string_view text) {
    const auto hex = [text](std::size_t from, std::size_t count) {
      for (std::size_t i = from; i < from + count; ++i) {
        const char c = i < text.size() ? text[i] : ' ';
        const bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
        if (!digit) return false;
      }
      return true;
    };
    const std::size_t domain = text.find(':');
    if (domain == std::string_view::npos || domain < 4 || domain > 8) return false;
    return text.size() == domain + 8 && hex(0, domain) && hex(domain + 1, 2) &&
           text[domain + 3] == ':' && hex(domain + 4, 2) && text[domain + 6] == '.' &&
           text[domain + 7] >= '0' && text[domain + 7] <= '7';
  }

  void check_address(const std::string& pointer, const std::string& bdf) {
    if (bdf.empty()) return;
    if (!is_bus_address(bdf)) {
      fail(pointer, "\"" + bdf + "\" is not of the form 0000:01:00.0 (lower case)");
    }
    if (!addresses_.insert(bdf).second) fail(pointer, "the bus address " + bdf + " is taken");
  }

  /// Namespaces of one controller, and disks of one adapter, share its address and its place.
  void check_drive_address(std::size_t index) {
    const Drive& drive = machine_.drives[index];
    const std::string pointer = at("drives", index, "bdf");
    for (std::size_t i = 0; i < index; ++i) {
      const Drive& other = machine_.drives[i];
      if (drive.bdf.empty() || other.bdf != drive.bdf) continue;
      if (other.parent != drive.parent || other.driver != drive.driver) {
        fail(pointer, drive.name + " shares the bus address " + drive.bdf + " with " + other.name +
                          ", but not its parent and driver");
      }
      return;
    }
    check_address(pointer, drive.bdf);
  }

  void check_addresses() {
    std::set<std::string> uuids;
    for (std::size_t i = 0; i < machine_.gpus.size(); ++i) {
      const Gpu& gpu = machine_.gpus[i];
      check_address(at("gpus", i, "bdf"), gpu.bdf);
      if (!gpu.uuid.empty() && !uuids.insert(gpu.uuid).second) {
        fail(at("gpus", i, "uuid"), "the uuid " + gpu.uuid + " is taken");
      }
    }
    for (std::size_t i = 0; i < machine_.nics.size(); ++i) {
      check_address(at("nics", i, "bdf"), machine_.nics[i].bdf);
    }
    for (std::size_t i = 0; i < machine_.other_gpus.size(); ++i) {
      check_address(at("other_gpus", i, "bdf"), machine_.other_gpus[i].bdf);
    }
    std::set<std::pair<std::uint32_t, std::uint32_t>> numbers;
    for (std::size_t i = 0; i < machine_.drives.size(); ++i) {
      const Drive& drive = machine_.drives[i];
      check_drive_address(i);
      const bool known = drive.major != 0 || drive.minor != 0;
      if (known && !numbers.insert({drive.major, drive.minor}).second) {
        fail(at("drives", i, "minor"), "the device number " + std::to_string(drive.major) + ":" +
                                           std::to_string(drive.minor) + " is taken");
      }
    }
  }

  static bool is_plain_path(std::string_view path) {
    if (path == "/") return true;
    if (path.empty() || path.front() != '/' || path.back() == '/') return false;
    const std::string closed = std::string(path) + "/";
    return closed.find("//") == std::string::npos && closed.find("/./") == std::string::npos &&
           closed.find("/../") == std::string::npos;
  }

  void check_mounts() {
    bool has_root = false;
    for (std::size_t i = 0; i < machine_.mounts.size(); ++i) {
      const Mount& mount = machine_.mounts[i];
      has_root = has_root || mount.point == "/";
      if (!is_plain_path(mount.point)) {
        fail(at("mounts", i, "point"), "\"" + mount.point + "\" is not a plain absolute path");
      }
      if (!mount.drive.empty() && !drive_of(machine_, mount).has_value()) {
        fail(at("mounts", i, "drive"), "there is no drive " + mount.drive);
      }
      if (mount.type.empty()) fail(at("mounts", i, "type"), "empty");
    }
    if (!has_root) fail("/mounts", "nothing is mounted on /");
  }

  void check_nvlinks() {
    std::set<std::pair<std::uint32_t, std::uint32_t>> pairs;
    for (std::size_t i = 0; i < machine_.nvlinks.size(); ++i) {
      const NvLink& link = machine_.nvlinks[i];
      check_index(at("nvlinks", i, "source_gpu"), "gpu", link.source_gpu, machine_.gpus.size());
      check_index(at("nvlinks", i, "target_gpu"), "gpu", link.target_gpu, machine_.gpus.size());
      if (link.source_gpu == link.target_gpu) {
        fail(at("nvlinks", i, "target_gpu"), "joins a GPU with itself");
      }
      if (link.count == 0) fail(at("nvlinks", i, "count"), "is zero");
      if (!pairs.insert(std::minmax(link.source_gpu, link.target_gpu)).second) {
        fail(at("nvlinks", i), "the pair is listed twice (a link counts in both directions)");
      }
    }
  }

  const Machine& machine_;
  std::set<std::string> addresses_;
  std::optional<Error> problem_;
};

}  // namespace

Status validate(const Machine& machine) {
  return Checker(machine).run();
}

}  // namespace nobounce
