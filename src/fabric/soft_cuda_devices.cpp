// The soft CUDA driver: initialisation, devices and their attributes, names of errors.
#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <string_view>

#include "fabric/soft_cuda_driver.hpp"

namespace nobounce::fabric {

namespace cuda = system::cuda;

namespace {

constexpr int driver_version = 13000;

/// Copies text into a caller's buffer with its terminator; cut off where it is too small.
void give_text(std::string_view text, char* target, int length) {
  const std::size_t room = static_cast<std::size_t>(length) - 1;
  const std::size_t count = std::min(room, text.size());
  std::copy_n(text.data(), count, target);
  target[count] = '\0';
}

struct PciAddress {
  int domain = 0;
  int bus = 0;
  int device = 0;
};

PciAddress pci_address_of(std::string_view bdf) {
  std::array<int, 3> parts{};
  for (int& part : parts) {
    const auto [end, error] = std::from_chars(bdf.data(), bdf.data() + bdf.size(), part, 16);
    if (error != std::errc()) break;
    bdf.remove_prefix(static_cast<std::size_t>(end - bdf.data()));
    if (!bdf.empty()) bdf.remove_prefix(1);
  }
  return {parts[0], parts[1], parts[2]};
}

struct ErrorName {
  cuda::CUresult code;
  const char* name;
};

constexpr ErrorName error_names[] = {
    {cuda::success, "CUDA_SUCCESS"},
    {cuda::error_invalid_value, "CUDA_ERROR_INVALID_VALUE"},
    {cuda::error_out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY"},
    {cuda::error_not_initialized, "CUDA_ERROR_NOT_INITIALIZED"},
    {cuda::error_deinitialized, "CUDA_ERROR_DEINITIALIZED"},
    {cuda::error_no_device, "CUDA_ERROR_NO_DEVICE"},
    {cuda::error_invalid_device, "CUDA_ERROR_INVALID_DEVICE"},
    {cuda::error_invalid_context, "CUDA_ERROR_INVALID_CONTEXT"},
    {cuda::error_no_binary_for_gpu, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
    {cuda::error_invalid_ptx, "CUDA_ERROR_INVALID_PTX"},
    {cuda::error_stream_capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {cuda::error_peer_access_unsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"},
    {cuda::error_invalid_handle, "CUDA_ERROR_INVALID_HANDLE"},
    {cuda::error_not_found, "CUDA_ERROR_NOT_FOUND"},
    {cuda::error_not_ready, "CUDA_ERROR_NOT_READY"},
    {cuda::error_illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {cuda::error_peer_access_already_enabled, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"},
    {cuda::error_peer_access_not_enabled, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED"},
    {cuda::error_context_is_destroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
    {cuda::error_host_memory_already_registered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
    {cuda::error_host_memory_not_registered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
    {cuda::error_not_permitted, "CUDA_ERROR_NOT_PERMITTED"},
    {cuda::error_not_supported, "CUDA_ERROR_NOT_SUPPORTED"},
    {cuda::error_unknown, "CUDA_ERROR_UNKNOWN"},
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

/// As the driver reads it: devices up to the first entry that names none, or one a second time.
std::vector<std::uint32_t> SoftCuda::visible_gpus() const {
  const std::vector<Gpu>& gpus = bus_.machine().gpus;
  std::vector<std::uint32_t> visible;
  const std::optional<std::string> text = environment_.get("CUDA_VISIBLE_DEVICES");
  if (!text) {
    for (std::uint32_t gpu = 0; gpu < gpus.size(); ++gpu) visible.push_back(gpu);
    return visible;
  }
  std::string_view rest = *text;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view entry = trimmed(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    std::uint32_t chosen = static_cast<std::uint32_t>(gpus.size());
    if (entry.substr(0, 4) == "GPU-") {
      for (std::uint32_t gpu = 0; gpu < gpus.size(); ++gpu) {
        if (std::string_view(gpus[gpu].uuid).substr(0, entry.size()) == entry) chosen = gpu;
      }
    } else {
      std::uint32_t number = 0;
      const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
      if (error == std::errc() && end == entry.data() + entry.size()) chosen = number;
    }
    const bool known = chosen < gpus.size();
    if (!known || std::find(visible.begin(), visible.end(), chosen) != visible.end()) break;
    visible.push_back(chosen);
  }
  return visible;
}

CUresult SoftCuda::init(unsigned flags) {
  if (flags != 0) return cuda::error_invalid_value;
  const std::lock_guard lock(mutex_);
  if (initialized_) return cuda::success;
  visible_ = visible_gpus();
  if (visible_.empty()) return cuda::error_no_device;
  for (std::size_t i = 0; i < visible_.size(); ++i) {
    auto context = std::make_unique<Context>();
    context->gpu = visible_[i];
    context->ordinal = static_cast<int>(i);
    contexts_.push_back(std::move(context));
    // The default pool of a device: its own memory is reached from it from the start.
    pools_.push_back(
        std::make_unique<Pool>(Pool{visible_[i], {{visible_[i], cuda::memory_access_read_write}}}));
  }
  initialized_ = true;
  return cuda::success;
}

CUresult SoftCuda::driver_get_version(int* version) {
  if (version == nullptr) return cuda::error_invalid_value;
  *version = driver_version;
  return cuda::success;
}

CUresult SoftCuda::device_get_count(int* count) {
  if (!initialized_) return cuda::error_not_initialized;
  if (count == nullptr) return cuda::error_invalid_value;
  *count = static_cast<int>(visible_.size());
  return cuda::success;
}

CUresult SoftCuda::device_get(CUdevice* device, int ordinal) {
  if (!initialized_) return cuda::error_not_initialized;
  if (device == nullptr) return cuda::error_invalid_value;
  if (gpu_of(ordinal) == nullptr) return cuda::error_invalid_device;
  *device = ordinal;
  return cuda::success;
}

const Gpu* SoftCuda::gpu_of(CUdevice device) const {
  if (device < 0 || static_cast<std::size_t>(device) >= visible_.size()) return nullptr;
  return &bus_.machine().gpus[visible_[static_cast<std::size_t>(device)]];
}

std::optional<int> SoftCuda::ordinal_of(std::uint32_t gpu) const {
  const auto found = std::find(visible_.begin(), visible_.end(), gpu);
  if (found == visible_.end()) return std::nullopt;
  return static_cast<int>(found - visible_.begin());
}

CUresult SoftCuda::device_get_name(char* name, int length, CUdevice device) {
  if (!initialized_) return cuda::error_not_initialized;
  if (name == nullptr || length <= 0) return cuda::error_invalid_value;
  const Gpu* gpu = gpu_of(device);
  if (gpu == nullptr) return cuda::error_invalid_device;
  give_text(gpu->product, name, length);
  return cuda::success;
}

CUresult SoftCuda::device_get_uuid(CUuuid* uuid, CUdevice device) {
  if (!initialized_) return cuda::error_not_initialized;
  if (uuid == nullptr) return cuda::error_invalid_value;
  const Gpu* gpu = gpu_of(device);
  if (gpu == nullptr) return cuda::error_invalid_device;
  *uuid = CUuuid{};
  std::size_t digits = 0;
  for (const char c :
       std::string_view(gpu->uuid).substr(std::min<std::size_t>(4, gpu->uuid.size()))) {
    unsigned value = 0;
    if (std::from_chars(&c, &c + 1, value, 16).ec != std::errc()) continue;
    if (digits == 32) break;
    unsigned char& byte = uuid->bytes[digits++ / 2];
    byte = static_cast<unsigned char>((byte << 4) | value);
  }
  return cuda::success;
}

CUresult SoftCuda::device_get_pci_bus_id(char* text, int length, CUdevice device) {
  if (!initialized_) return cuda::error_not_initialized;
  if (text == nullptr || length <= 0) return cuda::error_invalid_value;
  const Gpu* gpu = gpu_of(device);
  if (gpu == nullptr) return cuda::error_invalid_device;
  if (static_cast<std::size_t>(length) <= gpu->bdf.size()) return cuda::error_invalid_value;
  give_text(gpu->bdf, text, length);
  return cuda::success;
}

CUresult SoftCuda::device_total_mem(std::size_t* bytes, CUdevice device) {
  if (!initialized_) return cuda::error_not_initialized;
  if (bytes == nullptr) return cuda::error_invalid_value;
  const Gpu* gpu = gpu_of(device);
  if (gpu == nullptr) return cuda::error_invalid_device;
  *bytes = gpu->memory_bytes;
  return cuda::success;
}

CUresult SoftCuda::device_get_attribute(int* value, int attribute, CUdevice device) {
  if (!initialized_) return cuda::error_not_initialized;
  if (value == nullptr) return cuda::error_invalid_value;
  const Gpu* gpu = gpu_of(device);
  if (gpu == nullptr) return cuda::error_invalid_device;
  const PciAddress address = pci_address_of(gpu->bdf);
  switch (attribute) {
    case cuda::attribute_pci_bus_id:
      *value = address.bus;
      return cuda::success;
    case cuda::attribute_pci_device_id:
      *value = address.device;
      return cuda::success;
    case cuda::attribute_pci_domain_id:
      *value = address.domain;
      return cuda::success;
    case cuda::attribute_integrated:
      *value = gpu->mode == GpuMode::integrated ? 1 : 0;
      return cuda::success;
    case cuda::attribute_can_use_64_bit_stream_mem_ops:
    case cuda::attribute_can_use_host_pointer_for_registered_mem:
    case cuda::attribute_unified_addressing:
    case cuda::attribute_host_register_supported:
      *value = 1;
      return cuda::success;
    case cuda::attribute_can_flush_remote_writes:
      *value = 0;
      return cuda::success;
    case cuda::attribute_gpu_direct_rdma_supported:
    case cuda::attribute_gpu_direct_rdma_flush_writes_options:  // 1: by the host
      *value = gpu->gpudirect_rdma ? 1 : 0;
      return cuda::success;
    case cuda::attribute_gpu_direct_rdma_writes_ordering:
      *value = gpu->gpudirect_rdma ? 100 : 0;  // visible to the GPU that owns the memory
      return cuda::success;
    case cuda::attribute_dma_buf_supported:
      *value = bus_.machine().kernel.dmabuf ? 1 : 0;
      return cuda::success;
    default:
      return cuda::error_invalid_value;
  }
}

/// The driver's answer ignores ACS and host bridges, as the real one's does.
bool SoftCuda::peers_possible(std::uint32_t gpu, std::uint32_t peer) const {
  if (gpu == peer) return false;
  const Machine& machine = bus_.machine();
  for (const std::uint32_t end : {gpu, peer}) {
    const GpuMode mode = machine.gpus[end].mode;
    if (mode == GpuMode::mig || mode == GpuMode::integrated) return false;
  }
  for (const NvLink& link : machine.nvlinks) {
    if (link.count == 0) continue;
    if (link.source_gpu == gpu && link.target_gpu == peer) return true;
    if (link.source_gpu == peer && link.target_gpu == gpu) return true;
  }
  for (const std::uint32_t end : {gpu, peer}) {
    const Gpu& each = machine.gpus[end];
    if (each.peer_status != PeerStatus::ok || each.mode != GpuMode::whole) return false;
  }
  return !machine.confidential;
}

CUresult SoftCuda::device_can_access_peer(int* can_access, CUdevice device, CUdevice peer) {
  if (!initialized_) return cuda::error_not_initialized;
  if (can_access == nullptr) return cuda::error_invalid_value;
  if (gpu_of(device) == nullptr || gpu_of(peer) == nullptr) return cuda::error_invalid_device;
  const std::uint32_t first = visible_[static_cast<std::size_t>(device)];
  const std::uint32_t second = visible_[static_cast<std::size_t>(peer)];
  *can_access = peers_possible(first, second) ? 1 : 0;
  return cuda::success;
}

CUresult SoftCuda::get_error_name(CUresult error, const char** name) {
  if (name == nullptr) return cuda::error_invalid_value;
  for (const ErrorName& row : error_names) {
    if (row.code == error) {
      *name = row.name;
      return cuda::success;
    }
  }
  *name = nullptr;
  return cuda::error_invalid_value;
}

std::unique_ptr<SoftCudaTable> make_soft_cuda(Bus& bus, GpuAllocations& allocations,
                                              GpuEngines& engines, system::Environment& environment,
                                              DmaBufs& dmabufs) {
  return std::make_unique<SoftCuda>(bus, allocations, engines, environment, dmabufs);
}

}  // namespace nobounce::fabric
