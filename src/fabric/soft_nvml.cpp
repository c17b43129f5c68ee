// NVML of a software machine.
#include "fabric/soft_nvml.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nobounce::fabric {

namespace nvml = system::nvml;

namespace {

/// The driver whose answers this model was last compared with (tests/conformance/answers).
constexpr std::string_view soft_driver_version = "580.159.04";
constexpr nvml::nvmlReturn_t error_insufficient_size = 7;
constexpr int value_type_unsigned_int = 1;
constexpr int value_type_unsigned_long_long = 3;
constexpr unsigned pci_vendor_nvidia = 0x10de;
constexpr unsigned nvlinks_max = 18;  ///< of one GPU
constexpr int p2p_caps_atomics = 3;
constexpr int p2p_caps_pci = 4;

bool give_nvml_text(std::string_view text, char* target, unsigned length) {
  if (length <= text.size()) return false;
  std::copy(text.begin(), text.end(), target);
  target[text.size()] = '\0';
  return true;
}

std::string upper_case(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'f' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

void fill_pci_info(const Gpu& gpu, nvml::nvmlPciInfo_t& info) {
  info = nvml::nvmlPciInfo_t{};
  std::string_view rest = gpu.bdf;
  std::array<unsigned, 3> parts{};
  for (unsigned& part : parts) {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), part, 16);
    if (error != std::errc()) break;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (!rest.empty()) rest.remove_prefix(1);
  }
  info.domain = parts[0];
  info.bus = parts[1];
  info.device = parts[2];
  info.pciDeviceId = (0x2335u << 16) | pci_vendor_nvidia;
  info.pciSubSystemId = info.pciDeviceId;
  // The long form has a domain of eight digits, the legacy one of four; both in capitals.
  const std::string legacy = upper_case(gpu.bdf);
  (void)give_nvml_text(legacy, info.busIdLegacy, sizeof info.busIdLegacy);
  (void)give_nvml_text("0000" + legacy, info.busId, sizeof info.busId);
}

int status_number(PeerStatus status) {
  switch (status) {
    case PeerStatus::ok:
      return nvml::p2p_status_ok;
    case PeerStatus::cns:
      return nvml::p2p_status_chipset_not_supported;
    case PeerStatus::gns:
      return nvml::p2p_status_gpu_not_supported;
    case PeerStatus::tns:
      return nvml::p2p_status_ioh_topology_not_supported;
    case PeerStatus::dr:
      return nvml::p2p_status_disabled_by_regkey;
    case PeerStatus::ns:
      return nvml::p2p_status_not_supported;
    case PeerStatus::unknown:
      break;
  }
  return nvml::p2p_status_unknown;
}

class SoftNvml final : public system::Nvml {
 public:
  SoftNvml(const Bus& bus, const GpuAllocations& allocations, system::Clock& clock)
      : bus_(bus), allocations_(allocations), clock_(clock) {}

#define NOBOUNCE_NVML(method, symbol, parameters, arguments) \
  nvmlReturn_t method parameters override;
#include "system/nvml_functions.inc"
#undef NOBOUNCE_NVML

 private:
  [[nodiscard]] const std::vector<Gpu>& gpus() const {
    return bus_.machine().gpus;
  }
  /// Handles are the addresses of the machine's GPUs.
  [[nodiscard]] nvmlReturn_t find(nvmlDevice_t device, std::uint32_t& gpu) const {
    if (users_ == 0) return nvml::error_uninitialized;
    for (std::uint32_t i = 0; i < gpus().size(); ++i) {
      if (&gpus()[i] == device) {
        gpu = i;
        return nvml::success;
      }
    }
    return nvml::error_invalid_argument;
  }
  /// The GPU at the far end of link number `link` of a GPU: links of its pairs in order.
  [[nodiscard]] std::optional<std::uint32_t> remote_of(std::uint32_t gpu, unsigned link) const;
  [[nodiscard]] nvmlReturn_t fill_field(std::uint32_t gpu, nvmlFieldValue_t& field) const;

  const Bus& bus_;
  const GpuAllocations& allocations_;
  system::Clock& clock_;
  std::atomic<int> users_{0};
};

nvml::nvmlReturn_t SoftNvml::init() {
  ++users_;
  return nvml::success;
}

nvml::nvmlReturn_t SoftNvml::shutdown() {
  int users = users_;
  while (users > 0 && !users_.compare_exchange_weak(users, users - 1)) {
  }
  return users > 0 ? nvml::success : nvml::error_uninitialized;
}

nvml::nvmlReturn_t SoftNvml::system_get_driver_version(char* text, unsigned length) {
  if (users_ == 0) return nvml::error_uninitialized;
  if (text == nullptr) return nvml::error_invalid_argument;
  return give_nvml_text(soft_driver_version, text, length) ? nvml::success
                                                           : error_insufficient_size;
}

nvml::nvmlReturn_t SoftNvml::device_get_count(unsigned* count) {
  if (users_ == 0) return nvml::error_uninitialized;
  if (count == nullptr) return nvml::error_invalid_argument;
  *count = static_cast<unsigned>(gpus().size());
  return nvml::success;
}

nvml::nvmlReturn_t SoftNvml::device_get_handle_by_index(unsigned index, nvmlDevice_t* device) {
  if (users_ == 0) return nvml::error_uninitialized;
  if (device == nullptr || index >= gpus().size()) return nvml::error_invalid_argument;
  *device = const_cast<Gpu*>(&gpus()[index]);
  return nvml::success;
}

nvml::nvmlReturn_t SoftNvml::device_get_name(nvmlDevice_t device, char* text, unsigned length) {
  std::uint32_t gpu = 0;
  if (const auto code = find(device, gpu); code != nvml::success) return code;
  if (text == nullptr) return nvml::error_invalid_argument;
  return give_nvml_text(gpus()[gpu].product, text, length) ? nvml::success
                                                           : error_insufficient_size;
}

nvml::nvmlReturn_t SoftNvml::device_get_uuid(nvmlDevice_t device, char* text, unsigned length) {
  std::uint32_t gpu = 0;
  if (const auto code = find(device, gpu); code != nvml::success) return code;
  if (text == nullptr) return nvml::error_invalid_argument;
  return give_nvml_text(gpus()[gpu].uuid, text, length) ? nvml::success : error_insufficient_size;
}

nvml::nvmlReturn_t SoftNvml::device_get_pci_info(nvmlDevice_t device, nvmlPciInfo_t* info) {
  std::uint32_t gpu = 0;
  if (const auto code = find(device, gpu); code != nvml::success) return code;
  if (info == nullptr) return nvml::error_invalid_argument;
  fill_pci_info(gpus()[gpu], *info);
  return nvml::success;
}

nvml::nvmlReturn_t SoftNvml::device_get_bar1_memory_info(nvmlDevice_t device,
                                                         nvmlBAR1Memory_t* info) {
  std::uint32_t gpu = 0;
  if (const auto code = find(device, gpu); code != nvml::success) return code;
  if (info == nullptr) return nvml::error_invalid_argument;
  info->bar1Total = gpus()[gpu].bar1_bytes;
  info->bar1Used = bus_.bar1_used_bytes(gpu);
  info->bar1Free = info->bar1Total - info->bar1Used;
  return nvml::success;
}

nvml::nvmlReturn_t SoftNvml::device_get_memory_info(nvmlDevice_t device, nvmlMemory_t* info) {
  std::uint32_t gpu = 0;
  if (const auto code = find(device, gpu); code != nvml::success) return code;
  if (info == nullptr) return nvml::error_invalid_argument;
  // No frame buffer, no answer.
  if (gpus()[gpu].mode == GpuMode::integrated) return nvml::error_not_supported;
  info->total = gpus()[gpu].memory_bytes;
  info->used = allocations_.used_bytes(gpu);
  info->free = info->total - info->used;
  return nvml::success;
}

nvml::nvmlReturn_t SoftNvml::device_get_mig_mode(nvmlDevice_t device, unsigned* current,
                                                 unsigned* pending) {
  std::uint32_t gpu = 0;
  if (const auto code = find(device, gpu); code != nvml::success) return code;
  if (current == nullptr || pending == nullptr) return nvml::error_invalid_argument;
  *current = *pending = gpus()[gpu].mode == GpuMode::mig ? nvml::mig_enabled : 0;
  return nvml::success;
}

nvml::nvmlReturn_t SoftNvml::device_get_virtualization_mode(nvmlDevice_t device, int* mode) {
  std::uint32_t gpu = 0;
  if (const auto code = find(device, gpu); code != nvml::success) return code;
  if (mode == nullptr) return nvml::error_invalid_argument;
  *mode = bus_.machine().guest ? nvml::virtualization_passthrough : nvml::virtualization_none;
  if (gpus()[gpu].mode == GpuMode::vgpu) *mode = nvml::virtualization_vgpu;
  return nvml::success;
}

nvml::nvmlReturn_t SoftNvml::system_get_conf_compute_state(nvmlConfComputeSystemState_t* state) {
  if (users_ == 0) return nvml::error_uninitialized;
  if (state == nullptr) return nvml::error_invalid_argument;
  *state = {};
  state->ccFeature = bus_.machine().confidential ? nvml::conf_compute_enabled : 0;
  return nvml::success;
}

nvml::nvmlReturn_t SoftNvml::device_get_p2p_status(nvmlDevice_t first, nvmlDevice_t second,
                                                   int capability, int* status) {
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  if (const auto code = find(first, a); code != nvml::success) return code;
  if (const auto code = find(second, b); code != nvml::success) return code;
  if (status == nullptr) return nvml::error_invalid_argument;
  *status = nvml::p2p_status_ok;  // of capabilities that do not exist
  if (a == b) {
    // With itself, as one H200 alone and two on NVLink answered: what its NVLinks can, and nothing
    // by PCIe.
    const bool linked = remote_of(a, 0).has_value();
    if (capability == p2p_caps_pci ||
        (!linked && capability >= nvml::p2p_caps_read && capability < p2p_caps_pci)) {
      *status = nvml::p2p_status_not_supported;
    }
    return nvml::success;
  }
  bool joined = false;
  for (unsigned link = 0; link < nvlinks_max; ++link) joined = joined || remote_of(a, link) == b;
  const PeerStatus own = gpus()[a].peer_status;
  const int by_pcie = status_number(own == PeerStatus::ok ? gpus()[b].peer_status : own);
  switch (capability) {
    case nvml::p2p_caps_nvlink:
    case p2p_caps_atomics:
      if (!joined) *status = nvml::p2p_status_not_supported;
      break;
    case p2p_caps_pci:  // a pair with NVLink goes that way alone
      *status = joined ? nvml::p2p_status_not_supported : by_pcie;
      break;
    case nvml::p2p_caps_read:
    case nvml::p2p_caps_write:
      if (!joined) *status = by_pcie;
      break;
    default:
      break;
  }
  return nvml::success;
}

std::optional<std::uint32_t> SoftNvml::remote_of(std::uint32_t gpu, unsigned link) const {
  unsigned first = 0;
  for (const NvLink& pair : bus_.machine().nvlinks) {
    if (pair.source_gpu != gpu && pair.target_gpu != gpu) continue;
    if (link < first + pair.count) {
      return pair.source_gpu == gpu ? pair.target_gpu : pair.source_gpu;
    }
    first += pair.count;
  }
  return std::nullopt;
}

nvml::nvmlReturn_t SoftNvml::device_get_nvlink_state(nvmlDevice_t device, unsigned link,
                                                     unsigned* is_active) {
  std::uint32_t gpu = 0;
  if (const auto code = find(device, gpu); code != nvml::success) return code;
  if (is_active == nullptr) return nvml::error_invalid_argument;
  if (!remote_of(gpu, 0)) return nvml::error_not_supported;  // a GPU without NVLink
  // The links of a GPU are those that are active and those that are down.
  std::uint32_t active = 0;
  while (remote_of(gpu, active)) ++active;
  if (link >= active + gpus()[gpu].nvlinks_down) return nvml::error_invalid_argument;
  *is_active = remote_of(gpu, link) ? 1 : 0;
  return nvml::success;
}

nvml::nvmlReturn_t SoftNvml::device_get_nvlink_remote_pci_info(nvmlDevice_t device, unsigned link,
                                                               nvmlPciInfo_t* info) {
  std::uint32_t gpu = 0;
  if (const auto code = find(device, gpu); code != nvml::success) return code;
  if (info == nullptr) return nvml::error_invalid_argument;
  const auto remote = remote_of(gpu, link);
  if (!remote) {
    return remote_of(gpu, 0) ? nvml::error_invalid_argument : nvml::error_not_supported;
  }
  fill_pci_info(gpus()[*remote], *info);
  return nvml::success;
}

nvml::nvmlReturn_t SoftNvml::fill_field(std::uint32_t gpu, nvmlFieldValue_t& field) const {
  const bool over_nvlink = field.fieldId == nvml::field_nvlink_throughput_data_tx ||
                           field.fieldId == nvml::field_nvlink_throughput_data_rx;
  const bool over_pcie = field.fieldId == nvml::field_pcie_count_tx_bytes ||
                         field.fieldId == nvml::field_pcie_count_rx_bytes;
  if (!over_nvlink && !over_pcie) return nvml::error_invalid_argument;
  if (over_nvlink && !remote_of(gpu, 0)) return nvml::error_not_supported;
  const bool one_link = over_nvlink && field.scopeId != nvml::scope_all_links;
  if (one_link && !remote_of(gpu, field.scopeId)) return nvml::error_not_supported;
  const bool sending = (field.fieldId == nvml::field_nvlink_throughput_data_tx ||
                        field.fieldId == nvml::field_pcie_count_tx_bytes) !=
                       bus_.planted(Mutant::nvml_directions_swapped);
  const std::string own_port = "/gpu:" + std::to_string(gpu);
  std::uint64_t bytes = 0;
  for (const auto& [name, counted] : bus_.ledger().links()) {
    const std::string_view link = name;
    if (over_pcie) {
      if (link.size() < own_port.size() || link.substr(link.size() - own_port.size()) != own_port) {
        continue;
      }
      bytes += sending ? counted.towards_root : counted.towards_device;
      continue;
    }
    constexpr std::string_view prefix = "nvlink:";
    if (link.substr(0, prefix.size()) != prefix) continue;
    const std::size_t dash = link.find('-');
    const std::string self = std::to_string(gpu);
    if (one_link) {
      const std::uint32_t remote = *remote_of(gpu, field.scopeId);
      const std::string pair =
          std::to_string(std::min(gpu, remote)) + "-" + std::to_string(std::max(gpu, remote));
      if (link.substr(prefix.size()) != pair) continue;
    }
    // Numbers rise from left to right, and `towards_device` is towards the higher one.
    if (link.substr(prefix.size(), dash - prefix.size()) == self) {
      bytes += sending ? counted.towards_device : counted.towards_root;
    } else if (link.substr(dash + 1) == self) {
      bytes += sending ? counted.towards_root : counted.towards_device;
    }
  }
  if (one_link) {  // the links of a pair share its traffic
    unsigned links = 0;
    for (unsigned link = 0; link < nvlinks_max; ++link) {
      if (remote_of(gpu, link) == remote_of(gpu, field.scopeId)) ++links;
    }
    bytes /= links;
  }
  if (over_nvlink) {
    field.valueType = value_type_unsigned_long_long;
    field.value.ullVal = bytes / 1024;
  } else {
    field.valueType = value_type_unsigned_int;
    field.value.ullVal = 0;
    field.value.uiVal = static_cast<unsigned>(bytes & 0xffffffffu);
  }
  return nvml::success;
}

nvml::nvmlReturn_t SoftNvml::device_get_field_values(nvmlDevice_t device, int count,
                                                     nvmlFieldValue_t* values) {
  std::uint32_t gpu = 0;
  if (const auto code = find(device, gpu); code != nvml::success) return code;
  if (values == nullptr || count < 1) return nvml::error_invalid_argument;
  for (int i = 0; i < count; ++i) {
    values[i].timestamp = static_cast<long long>(clock_.now_ns() / 1000);
    values[i].latencyUsec = 0;
    values[i].nvmlReturn = fill_field(gpu, values[i]);
  }
  return nvml::success;
}

}  // namespace

std::unique_ptr<system::Nvml> make_soft_nvml(const Bus& bus, const GpuAllocations& allocations,
                                             system::Clock& clock) {
  return std::make_unique<SoftNvml>(bus, allocations, clock);
}

}  // namespace nobounce::fabric
