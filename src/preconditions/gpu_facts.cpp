// Asks CUDA whether GPU memory can be pinned for other devices, and NVML for the BAR1 window.
#include "preconditions/gpu_facts.hpp"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/bus_address.hpp"

namespace nobounce::preconditions {

namespace {

using core::Fact;

/// By bus address: CUDA numbers devices in its own order and shows only those it may.
std::map<std::string, Fact> ask_cuda(system::Cuda& cuda) {
  std::map<std::string, Fact> facts;
  int count = 0;
  if (cuda.device_get_count(&count) != system::cuda::success) return facts;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    system::cuda::CUdevice device = 0;
    std::array<char, 32> bdf{};
    if (cuda.device_get(&device, ordinal) != system::cuda::success) continue;
    if (cuda.device_get_pci_bus_id(bdf.data(), static_cast<int>(bdf.size()) - 1, device) !=
        system::cuda::success) {
      continue;
    }
    Fact fact;
    fact.source = "cuDeviceGetAttribute GPU_DIRECT_RDMA_SUPPORTED";
    int value = 0;
    const system::cuda::CUresult code = cuda.device_get_attribute(
        &value, system::cuda::attribute_gpu_direct_rdma_supported, device);
    if (code == system::cuda::success) {
      fact.value = value != 0;
      fact.observed = value != 0 ? "the driver pins its memory for other devices"
                                 : "the driver does not pin its memory for other devices";
    } else {
      fact.observed = "the driver answered " + std::to_string(code);
    }
    facts[core::canonical_bdf(bdf.data())] = std::move(fact);
  }
  return facts;
}

std::map<std::string, system::nvml::nvmlBAR1Memory_t> ask_nvml(system::Host& host) {
  std::map<std::string, system::nvml::nvmlBAR1Memory_t> windows;
  Result<system::Nvml*> table = host.nvml();
  if (!table || (*table)->init() != system::nvml::success) return windows;
  system::Nvml& nvml = **table;
  unsigned count = 0;
  if (nvml.device_get_count(&count) != system::nvml::success) count = 0;
  for (unsigned i = 0; i < count; ++i) {
    system::nvml::nvmlDevice_t device = nullptr;
    system::nvml::nvmlPciInfo_t info{};
    system::nvml::nvmlBAR1Memory_t window{};
    if (nvml.device_get_handle_by_index(i, &device) != system::nvml::success) continue;
    if (nvml.device_get_pci_info(device, &info) != system::nvml::success) continue;
    if (nvml.device_get_bar1_memory_info(device, &window) != system::nvml::success) continue;
    info.busId[sizeof info.busId - 1] = '\0';
    windows[core::canonical_bdf(info.busId)] = window;
  }
  (void)nvml.shutdown();
  return windows;
}

}  // namespace

std::vector<core::GpuFacts> read_gpu_facts(system::Host& host, const Machine& machine,
                                           bool may_ask_cuda) {
  if (machine.gpus.empty()) return {};
  std::string reason = "CUDA is not initialised";
  std::map<std::string, Fact> by_cuda;
  if (may_ask_cuda) {
    if (Result<system::Cuda*> cuda = host.cuda()) {
      by_cuda = ask_cuda(**cuda);
      reason = "CUDA does not show this GPU (CUDA_VISIBLE_DEVICES)";
    } else {
      reason = to_string(cuda.error());
    }
  }
  const auto windows = ask_nvml(host);
  std::vector<core::GpuFacts> facts;
  for (std::uint32_t i = 0; i < machine.gpus.size(); ++i) {
    const std::string bdf = core::canonical_bdf(machine.gpus[i].bdf);
    core::GpuFacts gpu;
    gpu.gpu = i;
    const auto said = by_cuda.find(bdf);
    gpu.gpudirect_rdma =
        said != by_cuda.end() ? said->second : Fact{std::nullopt, reason, "cuDeviceGetAttribute"};
    const auto window = windows.find(bdf);
    if (window != windows.end()) {
      gpu.bar1_total_bytes = window->second.bar1Total;
      gpu.bar1_free_bytes = window->second.bar1Free;
      gpu.bar1_source = "nvmlDeviceGetBAR1MemoryInfo";
    } else if (machine.gpus[i].bar1_bytes != 0) {
      gpu.bar1_total_bytes = machine.gpus[i].bar1_bytes;  // the size that the bus shows
      gpu.bar1_source = "/sys/bus/pci/devices/" + machine.gpus[i].bdf + "/resource";
    }
    facts.push_back(std::move(gpu));
  }
  return facts;
}

}  // namespace nobounce::preconditions
