// Names of a machine's devices, and the mounts and drives behind paths.
#include <algorithm>
#include <charconv>

#include <nobounce/machine.hpp>

namespace nobounce {

namespace {

std::optional<std::uint64_t> number_from(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || failure != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

// `01:00.0`, `0000:01:00.0` and nvidia-smi's `00000000:01:00.0` are one address.
std::string full_address(std::string_view text) {
  std::string address = lower(text);
  if (std::count(address.begin(), address.end(), ':') == 1) address = "0000:" + address;
  while (address.find(':') > 4 && address.front() == '0') address.erase(0, 1);
  return address;
}

bool names_gpu(const Gpu& gpu, std::size_t index, std::string_view name) {
  if (const auto number = number_from(name)) return *number == index;
  if (!gpu.uuid.empty() && lower(gpu.uuid) == lower(name)) return true;
  return !gpu.bdf.empty() && full_address(gpu.bdf) == full_address(name);
}

std::vector<DeviceRef> all_of_kind(const Machine& machine, DeviceRef::Kind kind) {
  std::size_t count = 0;
  if (kind == DeviceRef::Kind::gpu) count = machine.gpus.size();
  if (kind == DeviceRef::Kind::nic) count = machine.nics.size();
  if (kind == DeviceRef::Kind::drive) count = machine.drives.size();
  if (kind == DeviceRef::Kind::host) count = std::max<std::size_t>(machine.numa_nodes.size(), 1);
  std::vector<DeviceRef> devices;
  for (std::size_t i = 0; i < count; ++i) {
    devices.push_back(DeviceRef{kind, static_cast<std::uint16_t>(i)});
  }
  return devices;
}

Error no_such_device(const Machine& machine, std::string_view name,
                     const std::vector<DeviceRef>& existing) {
  Error error{.origin = ErrorOrigin::input,
              .code = 0,
              .attempted = "find the device " + std::string(name),
              .cause = Cause::none,
              .detail = "machine " + machine.name + " has ",
              .remedy = {}};
  if (existing.empty()) {
    error.detail += "none of this kind";
    if (name.substr(0, 4) == "gpu:") error.cause = Cause::machine_no_gpu;
    return error;
  }
  for (std::size_t i = 0; i < existing.size(); ++i) {
    if (i > 0) error.detail += i + 1 == existing.size() ? " and " : ", ";
    error.detail += device_name(machine, existing[i]);
  }
  return error;
}

}  // namespace

const Mount* mount_of(const Machine& machine, std::string_view absolute_path) {
  const Mount* best = nullptr;
  for (const Mount& mount : machine.mounts) {
    const std::string_view point = mount.point;
    const bool prefix = absolute_path.substr(0, point.size()) == point;
    // `/data` holds `/data/a` and not `/database`.
    const bool whole_steps =
        point == "/" || absolute_path.size() == point.size() ||
        (absolute_path.size() > point.size() && absolute_path[point.size()] == '/');
    if (!prefix || !whole_steps || point.empty()) continue;
    // A later mount on the same point hides the earlier one.
    if (best == nullptr || point.size() >= best->point.size()) best = &mount;
  }
  return best;
}

std::optional<std::uint32_t> drive_of(const Machine& machine, const Mount& mount) {
  if (mount.drive.empty()) return std::nullopt;
  for (std::size_t i = 0; i < machine.drives.size(); ++i) {
    if (machine.drives[i].name == mount.drive) return static_cast<std::uint32_t>(i);
  }
  return std::nullopt;
}

std::string device_name(const Machine& machine, DeviceRef device) {
  const std::string index = std::to_string(device.index);
  switch (device.kind) {
    case DeviceRef::Kind::none:
      return "none";
    case DeviceRef::Kind::gpu:
      return "gpu:" + index;
    case DeviceRef::Kind::nic:
      return "nic:" +
             (device.index < machine.nics.size() ? machine.nics[device.index].name : index);
    case DeviceRef::Kind::drive:
      return "drive:" +
             (device.index < machine.drives.size() ? machine.drives[device.index].name : index);
    case DeviceRef::Kind::host:
      return "host:" + index;
    case DeviceRef::Kind::file:
      return "file:" + index;
    case DeviceRef::Kind::remote:
      return "remote:" + index;
  }
  return "invalid";
}

Result<DeviceRef> device_from_name(const Machine& machine, std::string_view name) {
  const std::string_view kind_text = name.substr(0, name.find(':'));
  const std::string_view rest =
      kind_text.size() < name.size() ? name.substr(kind_text.size() + 1) : std::string_view();
  DeviceRef::Kind kind = DeviceRef::Kind::none;
  if (kind_text == "gpu") kind = DeviceRef::Kind::gpu;
  if (kind_text == "nic") kind = DeviceRef::Kind::nic;
  if (kind_text == "drive") kind = DeviceRef::Kind::drive;
  if (kind_text == "host") kind = DeviceRef::Kind::host;
  if (kind == DeviceRef::Kind::none) {
    return Error{.origin = ErrorOrigin::input,
                 .code = 0,
                 .attempted = "find the device " + std::string(name),
                 .cause = Cause::none,
                 .detail = "not a device name",
                 .remedy = "write gpu:N, gpu:UUID, gpu:BDF, nic:NAME, drive:NAME or host:NODE"};
  }
  const std::vector<DeviceRef> existing = all_of_kind(machine, kind);
  for (const DeviceRef device : existing) {
    const bool named = kind == DeviceRef::Kind::gpu
                           ? names_gpu(machine.gpus[device.index], device.index, rest)
                           : device_name(machine, device) == name;
    if (named) return device;
  }
  return no_such_device(machine, name, existing);
}

}  // namespace nobounce
