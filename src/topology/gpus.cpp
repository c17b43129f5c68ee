// Reads GPUs: presence from PCI, order and details from NVML, the rest from the driver's /proc
// files.
#include "topology/gpus.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "core/bus_address.hpp"
#include "system/peer_status.hpp"
#include "topology/sysfs_text.hpp"

namespace nobounce::topology {
namespace {

namespace nvml = system::nvml;

// No GPU sold has more than 18, but what NVML counts is for NVML to say.
constexpr unsigned links_on_a_gpu = 18;
constexpr unsigned links_asked_max = 1024;

/// What is at the far end of a GPU's NVLinks.
struct LinkEnds {
  std::vector<std::uint32_t> to_gpu;  ///< by GPU: links that end there
  std::uint32_t to_switch = 0;        ///< links that end in a switch, which joins all GPUs on it
  std::uint32_t down = 0;             ///< links that are there and not active
};

/// NVML, initialised for the lifetime of this object.
class OpenNvml {
 public:
  explicit OpenNvml(system::Host& host) {
    Result<system::Nvml*> table = host.nvml();
    if (table && (*table)->init() == nvml::success) table_ = *table;
  }
  ~OpenNvml() {
    if (table_ != nullptr) (void)table_->shutdown();
  }
  OpenNvml(const OpenNvml&) = delete;
  OpenNvml& operator=(const OpenNvml&) = delete;
  [[nodiscard]] system::Nvml* table() const { return table_; }

 private:
  system::Nvml* table_ = nullptr;
};

class GpuReader {
 public:
  GpuReader(system::Host& host, const PciTree& tree)
      : files_(host.files()), tree_(tree), nvml_(host) {}

  GpuList read() {
    read_nvml();
    read_pci();
    read_peer_status();
    read_nvlinks();
    return std::move(list_);
  }

 private:
  void read_nvml() {
    if (nvml_.table() == nullptr) return;
    system::Nvml& table = *nvml_.table();
    nvml::nvmlConfComputeSystemState_t state{};
    list_.confidential = table.system_get_conf_compute_state(&state) == nvml::success &&
                         state.ccFeature == nvml::conf_compute_enabled;
    unsigned count = 0;
    if (table.device_get_count(&count) != nvml::success) return;
    for (unsigned i = 0; i < count; ++i) {
      nvml::nvmlDevice_t device = nullptr;
      nvml::nvmlPciInfo_t info{};
      if (table.device_get_handle_by_index(i, &device) != nvml::success) continue;
      if (table.device_get_pci_info(device, &info) != nvml::success) continue;
      info.busId[sizeof info.busId - 1] = '\0';
      Gpu gpu;
      gpu.bdf = core::canonical_bdf(info.busId);
      describe(table, device, gpu);
      list_.gpus.push_back(std::move(gpu));
      devices_.push_back(device);
    }
  }

  static void describe(system::Nvml& table, nvml::nvmlDevice_t device, Gpu& gpu) {
    std::array<char, 128> text{};
    const auto length = static_cast<unsigned>(text.size() - 1);
    gpu.product.clear();
    if (table.device_get_name(device, text.data(), length) == nvml::success)
      gpu.product = text.data();
    text.fill('\0');
    if (table.device_get_uuid(device, text.data(), length) == nvml::success) gpu.uuid = text.data();
    nvml::nvmlMemory_t memory{};
    const auto memory_answer = table.device_get_memory_info(device, &memory);
    if (memory_answer == nvml::success) gpu.memory_bytes = memory.total;
    gpu.mode = mode_of(table, device, memory_answer == nvml::error_not_supported);
    nvml::nvmlBAR1Memory_t bar1{};
    if (table.device_get_bar1_memory_info(device, &bar1) == nvml::success)
      gpu.bar1_bytes = bar1.bar1Total;
  }

  /// A GPU without memory of its own has no frame buffer to tell of: NVML then does not support the
  /// question (as nvidia-smi's "Memory-Usage: Not Supported" on such systems).
  static GpuMode mode_of(system::Nvml& table, nvml::nvmlDevice_t device, bool no_frame_buffer) {
    unsigned current = 0;
    unsigned pending = 0;
    if (table.device_get_mig_mode(device, &current, &pending) == nvml::success &&
        current == nvml::mig_enabled) {
      return GpuMode::mig;
    }
    int virtualization = nvml::virtualization_none;
    if (table.device_get_virtualization_mode(device, &virtualization) == nvml::success &&
        virtualization == nvml::virtualization_vgpu) {
      return GpuMode::vgpu;
    }
    return no_frame_buffer ? GpuMode::integrated : GpuMode::whole;
  }

  void read_pci() {
    for (const PciFunction& function : tree_.functions()) {
      if (!function.is_nvidia_gpu()) continue;
      const auto known = std::find_if(list_.gpus.begin(), list_.gpus.end(),
                                      [&](const Gpu& gpu) { return gpu.bdf == function.bdf; });
      if (known != list_.gpus.end()) continue;
      Gpu gpu;
      gpu.bdf = function.bdf;
      gpu.product.clear();
      list_.gpus.push_back(std::move(gpu));
      devices_.push_back(nullptr);
    }
    for (Gpu& gpu : list_.gpus) {
      gpu.peer_status = PeerStatus::unknown;
      if (const PciFunction* function = tree_.find(gpu.bdf)) {
        gpu.link = tree_.link_of(*function);
        gpu.pci_id = function->id();
        gpu.driver = tree_.driver_of(*function);
        gpu.bar1_bytes_max = tree_.window_bytes_max(*function, 1);
        if (gpu.bar1_bytes == 0) gpu.bar1_bytes = tree_.window_bytes(*function, 1);
      }
      // The driver shows memory nodes of GPUs only where the processor reaches them coherently.
      gpu.coherent = files_.exists("/proc/driver/nvidia/gpus/" + gpu.bdf + "/numa_status");
      read_driver_files(gpu);
    }
  }

  void read_driver_files(Gpu& gpu) {
    if (!gpu.product.empty() && !gpu.uuid.empty()) return;
    const std::string text =
        text_at(files_, "/proc/driver/nvidia/gpus/" + gpu.bdf + "/information");
    for (const std::string_view line : split(text, '\n')) {
      const std::size_t colon = line.find(':');
      if (colon == std::string_view::npos) continue;
      const std::string_view name = line.substr(0, colon);
      const std::string_view value = trimmed(line.substr(colon + 1));
      if (name == "Model" && gpu.product.empty()) gpu.product = value;
      // Before the GPU is initialised its uuid is printed as question marks.
      const bool uuid = name == "GPU UUID" && value.find('?') == std::string_view::npos;
      if (uuid && gpu.uuid.empty()) gpu.uuid = value;
    }
  }

  /// A GPU's status is the worst that NVML says of it with any other one.
  void read_peer_status() {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      if (devices_[i] == nullptr) continue;
      std::optional<PeerStatus> worst;
      for (std::size_t j = 0; j < devices_.size(); ++j) {
        if (i == j || devices_[j] == nullptr) continue;
        int status = nvml::p2p_status_unknown;
        if (nvml_.table()->device_get_p2p_status(devices_[i], devices_[j], nvml::p2p_caps_read,
                                                 &status) != nvml::success) {
          status = nvml::p2p_status_unknown;
        }
        const PeerStatus said = system::peer_status_of(status);
        if (!worst.has_value() || *worst == PeerStatus::ok) worst = said;
      }
      list_.gpus[i].peer_status = worst.value_or(PeerStatus::unknown);
    }
  }

  [[nodiscard]] bool tree_has_switches() const {
    const auto& functions = tree_.functions();
    return std::any_of(functions.begin(), functions.end(),
                       [](const PciFunction& function) { return function.is_nvswitch(); });
  }

  LinkEnds link_ends(std::size_t gpu) {
    LinkEnds ends;
    ends.to_gpu.resize(devices_.size());
    for (unsigned link = 0; link < links_asked_max; ++link) {
      unsigned active = 0;
      nvml::nvmlPciInfo_t remote{};
      const auto state = nvml_.table()->device_get_nvlink_state(devices_[gpu], link, &active);
      if (state != nvml::success && link >= links_on_a_gpu) break;  // past the last one
      if (state == nvml::success && active == 0) ++ends.down;
      if (state != nvml::success || active == 0) continue;
      if (nvml_.table()->device_get_nvlink_remote_pci_info(devices_[gpu], link, &remote) !=
          nvml::success) {
        continue;
      }
      remote.busId[sizeof remote.busId - 1] = '\0';
      const std::string bdf = core::canonical_bdf(remote.busId);
      const auto far = std::find_if(list_.gpus.begin(), list_.gpus.end(),
                                    [&](const Gpu& each) { return each.bdf == bdf; });
      if (far != list_.gpus.end()) {
        ++ends.to_gpu[static_cast<std::size_t>(far - list_.gpus.begin())];
      } else {
        ++ends.to_switch;
      }
    }
    return ends;
  }

  void read_nvlinks() {
    std::vector<LinkEnds> ends;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      ends.push_back(devices_[i] == nullptr
                         ? LinkEnds{std::vector<std::uint32_t>(devices_.size()), 0, 0}
                         : link_ends(i));
      // A board without a bridge has links that lead nowhere: only beside active ones is that a
      // fault.
      const LinkEnds& found = ends.back();
      const bool some =
          found.to_switch != 0 || std::any_of(found.to_gpu.begin(), found.to_gpu.end(),
                                              [](auto count) { return count != 0; });
      if (some || tree_has_switches()) list_.gpus[i].nvlinks_down = found.down;
    }
    for (std::size_t i = 0; i < ends.size(); ++i) {
      for (std::size_t j = i + 1; j < ends.size(); ++j) {
        const std::uint32_t direct = std::max(ends[i].to_gpu[j], ends[j].to_gpu[i]);
        const std::uint32_t count = direct + std::min(ends[i].to_switch, ends[j].to_switch);
        if (count == 0) continue;
        list_.nvlinks.push_back(
            NvLink{static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j), count});
      }
    }
  }

  system::Files& files_;
  const PciTree& tree_;
  OpenNvml nvml_;
  GpuList list_;
  std::vector<nvml::nvmlDevice_t> devices_;  ///< by GPU; null where NVML does not know it
};

}  // namespace

GpuList read_gpus(system::Host& host, const PciTree& tree) {
  return GpuReader(host, tree).read();
}

}  // namespace nobounce::topology
