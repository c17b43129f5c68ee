// Our own minimal declarations of NVML's types and constants (nvml.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace nobounce::system::nvml {

using nvmlReturn_t = int;
using nvmlDevice_t = void*;

inline constexpr nvmlReturn_t success = 0;
inline constexpr nvmlReturn_t error_uninitialized = 1;
inline constexpr nvmlReturn_t error_invalid_argument = 2;
inline constexpr nvmlReturn_t error_not_supported = 3;
inline constexpr nvmlReturn_t error_no_permission = 4;
inline constexpr nvmlReturn_t error_not_found = 6;
inline constexpr nvmlReturn_t error_function_not_found = 13;

inline constexpr unsigned mig_enabled = 1;     // NVML_DEVICE_MIG_ENABLE
inline constexpr int virtualization_none = 0;  // nvmlGpuVirtualizationMode_t
inline constexpr int virtualization_passthrough = 1;
inline constexpr int virtualization_vgpu = 2;
inline constexpr unsigned conf_compute_enabled = 1;  // NVML_CC_SYSTEM_FEATURE_ENABLED

struct nvmlConfComputeSystemState_t {
  unsigned environment;
  unsigned ccFeature;
  unsigned devToolsMode;
};

struct nvmlPciInfo_t {  // nvmlPciInfo_v3
  char busIdLegacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pciDeviceId;
  unsigned pciSubSystemId;
  char busId[32];
};

struct nvmlMemory_t {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct nvmlBAR1Memory_t {
  unsigned long long bar1Total;
  unsigned long long bar1Free;
  unsigned long long bar1Used;
};

union nvmlValue_t {
  double dVal;
  int siVal;
  unsigned uiVal;
  unsigned long ulVal;
  unsigned long long ullVal;
  signed long long sllVal;
};

/// scopeId of NVLink fields: all links together; else the number of one (nvml.h,
/// NVML_FI_DEV_NVLINK_*).
inline constexpr unsigned scope_all_links = 0xffffffff;

struct nvmlFieldValue_t {
  unsigned fieldId;
  unsigned scopeId;
  long long timestamp;
  long long latencyUsec;
  int valueType;
  nvmlReturn_t nvmlReturn;
  nvmlValue_t value;
};

inline constexpr unsigned field_nvlink_throughput_data_tx = 138;  // KiB
inline constexpr unsigned field_nvlink_throughput_data_rx = 139;  // KiB
inline constexpr unsigned field_pcie_count_tx_bytes = 197;        // 32-bit, wraps
inline constexpr unsigned field_pcie_count_rx_bytes = 198;

inline constexpr int p2p_caps_read = 0;
inline constexpr int p2p_caps_write = 1;
inline constexpr int p2p_caps_nvlink = 2;
inline constexpr int p2p_status_ok = 0;
inline constexpr int p2p_status_chipset_not_supported = 1;
inline constexpr int p2p_status_gpu_not_supported = 2;
inline constexpr int p2p_status_ioh_topology_not_supported = 3;
inline constexpr int p2p_status_disabled_by_regkey = 4;
inline constexpr int p2p_status_not_supported = 5;
inline constexpr int p2p_status_unknown = 6;

}  // namespace nobounce::system::nvml
