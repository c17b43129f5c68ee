// An NVML that knows a list of GPUs, for tests.
#pragma once

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "system/nvml.hpp"

namespace nobounce::topology {

struct FakeGpu {
  std::string bdf;  ///< as NVML writes it: 00000000:03:00.0
  std::string name;
  std::string uuid;
  unsigned long long memory = 0;
  unsigned long long bar1 = 0;
  int peer_status = 0;
  std::vector<std::string> links;  ///< remote address of each active NVLink
  bool mig = false;
  int virtualization = 0;
  bool frame_buffer = true;
};

class FakeNvml : public system::Nvml {
 public:
  std::vector<FakeGpu> gpus;
  int initialised = 0;
  unsigned confidential = 0;

  nvmlReturn_t init() override { return ++initialised, 0; }
  nvmlReturn_t shutdown() override { return --initialised, 0; }
  nvmlReturn_t device_get_count(unsigned* count) override {
    *count = static_cast<unsigned>(gpus.size());
    return 0;
  }
  nvmlReturn_t device_get_handle_by_index(unsigned index, nvmlDevice_t* device) override {
    *device = &gpus[index];
    return 0;
  }
  nvmlReturn_t device_get_name(nvmlDevice_t device, char* text, unsigned length) override {
    std::snprintf(text, length, "%s", of(device).name.c_str());
    return 0;
  }
  nvmlReturn_t device_get_uuid(nvmlDevice_t device, char* text, unsigned length) override {
    std::snprintf(text, length, "%s", of(device).uuid.c_str());
    return 0;
  }
  nvmlReturn_t device_get_pci_info(nvmlDevice_t device, nvmlPciInfo_t* info) override {
    std::snprintf(info->busId, sizeof info->busId, "%s", of(device).bdf.c_str());
    return 0;
  }
  nvmlReturn_t device_get_memory_info(nvmlDevice_t device, nvmlMemory_t* info) override {
    if (!of(device).frame_buffer) return system::nvml::error_not_supported;
    info->total = of(device).memory;
    return 0;
  }
  nvmlReturn_t device_get_mig_mode(nvmlDevice_t device, unsigned* current,
                                   unsigned* pending) override {
    *current = of(device).mig ? 1 : 0;
    *pending = 0;
    return 0;
  }
  nvmlReturn_t device_get_virtualization_mode(nvmlDevice_t device, int* mode) override {
    *mode = of(device).virtualization;
    return 0;
  }
  nvmlReturn_t system_get_conf_compute_state(nvmlConfComputeSystemState_t* state) override {
    state->ccFeature = confidential;
    return 0;
  }
  nvmlReturn_t device_get_bar1_memory_info(nvmlDevice_t device, nvmlBAR1Memory_t* info) override {
    info->bar1Total = of(device).bar1;
    info->bar1Free = of(device).bar1 / 2;
    return 0;
  }
  nvmlReturn_t device_get_p2p_status(nvmlDevice_t first, nvmlDevice_t second, int,
                                     int* status) override {
    *status = of(first).peer_status != 0 ? of(first).peer_status : of(second).peer_status;
    return 0;
  }
  nvmlReturn_t device_get_nvlink_state(nvmlDevice_t device, unsigned link,
                                       unsigned* is_active) override {
    *is_active = link < of(device).links.size() ? 1 : 0;
    return 0;
  }
  nvmlReturn_t device_get_nvlink_remote_pci_info(nvmlDevice_t device, unsigned link,
                                                 nvmlPciInfo_t* info) override {
    std::snprintf(info->busId, sizeof info->busId, "%s", of(device).links[link].c_str());
    return 0;
  }

 private:
  static FakeGpu& of(nvmlDevice_t device) { return *static_cast<FakeGpu*>(device); }
};

}  // namespace nobounce::topology
