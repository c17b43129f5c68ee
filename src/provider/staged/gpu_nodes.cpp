// The NUMA nodes of GPUs.
#include "provider/staged/gpu_nodes.hpp"

#include <array>
#include <cctype>
#include <charconv>
#include <string>

namespace nobounce::provider::staged {

std::uint32_t GpuNodes::numa_of(std::uint32_t gpu) {
  const auto known = nodes_.find(gpu);
  if (known != nodes_.end()) return known->second;
  return nodes_.emplace(gpu, read(gpu)).first->second;
}

std::uint32_t GpuNodes::read(std::uint32_t gpu) const {
  const Result<system::cuda::CUdevice> device = contexts_->device(gpu);
  if (!device.ok()) return 0;
  std::array<char, 32> text{};
  if (contexts_->table().device_get_pci_bus_id(text.data(), static_cast<int>(text.size()) - 1,
                                               *device) != system::cuda::success) {
    return 0;
  }
  std::string address = text.data();
  for (char& c : address) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const Result<std::string> node =
      host_.files().read("/sys/bus/pci/devices/" + address + "/numa_node");
  if (!node.ok()) return 0;
  int value = 0;
  std::from_chars(node->data(), node->data() + node->size(), value);
  return value > 0 ? static_cast<std::uint32_t>(value) : 0;  // -1: the firmware does not say
}

}  // namespace nobounce::provider::staged
