// Asks CUDA whether GPUs can access each other, and NVML for the peer status and its reason.
#include "preconditions/read_peer_facts.hpp"

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "system/peer_status.hpp"

namespace nobounce::preconditions {
namespace {

namespace cuda = system::cuda;
namespace nvml = system::nvml;

/// 00000000:01:00.0, 0000:01:00.0 and upper case are one address.
std::string bus_key(std::string_view text) {
  std::string key(text);
  for (char& c : key) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  const std::size_t digit = key.find_first_not_of('0');
  return key.substr(digit == std::string::npos ? 0 : digit);
}

/// The machine's GPU at a bus address, or its number of GPUs.
std::size_t gpu_at(const Machine& machine, std::string_view bdf) {
  std::size_t gpu = 0;
  while (gpu < machine.gpus.size() && bus_key(machine.gpus[gpu].bdf) != bus_key(bdf)) ++gpu;
  return gpu;
}

/// CUDA numbers devices in its own order and shows only those it may.
std::vector<std::optional<cuda::CUdevice>> cuda_devices(system::Cuda& table,
                                                        const Machine& machine) {
  std::vector<std::optional<cuda::CUdevice>> devices(machine.gpus.size());
  int count = 0;
  if (table.device_get_count(&count) != cuda::success) return devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cuda::CUdevice device = 0;
    std::array<char, 32> bdf{};
    if (table.device_get(&device, ordinal) != cuda::success) continue;
    const auto code =
        table.device_get_pci_bus_id(bdf.data(), static_cast<int>(bdf.size()) - 1, device);
    if (code != cuda::success) continue;
    if (const std::size_t gpu = gpu_at(machine, bdf.data()); gpu < devices.size()) {
      devices[gpu] = device;
    }
  }
  return devices;
}

std::vector<nvml::nvmlDevice_t> nvml_devices(system::Nvml& table, const Machine& machine) {
  std::vector<nvml::nvmlDevice_t> devices(machine.gpus.size(), nullptr);
  unsigned count = 0;
  if (table.device_get_count(&count) != nvml::success) return devices;
  for (unsigned i = 0; i < count; ++i) {
    nvml::nvmlDevice_t device = nullptr;
    nvml::nvmlPciInfo_t info{};
    if (table.device_get_handle_by_index(i, &device) != nvml::success) continue;
    if (table.device_get_pci_info(device, &info) != nvml::success) continue;
    info.busId[sizeof info.busId - 1] = '\0';
    if (const std::size_t gpu = gpu_at(machine, info.busId); gpu < devices.size()) {
      devices[gpu] = device;
    }
  }
  return devices;
}

std::vector<core::PeerFacts> all_pairs(const Machine& machine, const std::string& reason) {
  std::vector<core::PeerFacts> pairs;
  const auto count = static_cast<std::uint32_t>(machine.gpus.size());
  for (std::uint32_t source = 0; source < count; ++source) {
    for (std::uint32_t target = 0; target < count; ++target) {
      if (source == target) continue;
      core::PeerFacts pair;
      pair.source = source;
      pair.target = target;
      pair.can_access = core::Fact{std::nullopt, reason, "cuDeviceCanAccessPeer"};
      pairs.push_back(std::move(pair));
    }
  }
  return pairs;
}

void ask_cuda(system::Cuda& table, const Machine& machine, std::vector<core::PeerFacts>& pairs) {
  const auto devices = cuda_devices(table, machine);
  for (core::PeerFacts& pair : pairs) {
    if (!devices[pair.source].has_value() || !devices[pair.target].has_value()) {
      pair.can_access.observed = "CUDA does not show both GPUs (CUDA_VISIBLE_DEVICES)";
      continue;
    }
    int can_access = 0;
    const auto code =
        table.device_can_access_peer(&can_access, *devices[pair.source], *devices[pair.target]);
    if (code != cuda::success) {
      pair.can_access.observed = "the driver answered " + std::to_string(code);
      continue;
    }
    pair.can_access.value = can_access != 0;
    pair.can_access.observed = "gpu:" + std::to_string(pair.source) +
                               (can_access != 0 ? " may" : " may not") +
                               " access gpu:" + std::to_string(pair.target);
  }
}

void ask_nvml(system::Nvml& table, const Machine& machine, std::vector<core::PeerFacts>& pairs) {
  const auto devices = nvml_devices(table, machine);
  for (core::PeerFacts& pair : pairs) {
    const nvml::nvmlDevice_t source = devices[pair.source];
    const nvml::nvmlDevice_t target = devices[pair.target];
    if (source == nullptr || target == nullptr) continue;
    int status = nvml::p2p_status_unknown;
    if (table.device_get_p2p_status(source, target, nvml::p2p_caps_read, &status) ==
        nvml::success) {
      pair.read = system::peer_status_of(status);
    }
    if (table.device_get_p2p_status(source, target, nvml::p2p_caps_write, &status) ==
        nvml::success) {
      pair.write = system::peer_status_of(status);
    }
  }
}

}  // namespace

std::vector<core::PeerFacts> read_peer_facts(system::Host& host, const Machine& machine,
                                             bool may_ask_cuda) {
  std::vector<core::PeerFacts> pairs = all_pairs(machine, "CUDA is not initialised");
  if (pairs.empty()) return pairs;
  if (may_ask_cuda) {
    if (Result<system::Cuda*> table = host.cuda()) {
      ask_cuda(**table, machine, pairs);
    } else {
      for (core::PeerFacts& pair : pairs) pair.can_access.observed = to_string(table.error());
    }
  }
  Result<system::Nvml*> table = host.nvml();
  if (table && (*table)->init() == nvml::success) {
    ask_nvml(**table, machine, pairs);
    (void)(*table)->shutdown();
  }
  return pairs;
}

}  // namespace nobounce::preconditions
