// Our own minimal declarations of the CUDA driver API's types and constants (cuda.h), so that no
// toolkit is needed. Compared with the real header in a test where one is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nobounce::system::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = std::uint64_t;
using CUcontext = void*;
using CUstream = void*;
using CUevent = void*;
using CUmemoryPool = void*;
using CUmemGenericAllocationHandle = std::uint64_t;
using CUmodule = void*;
using CUfunction = void*;
using CUgraph = void*;

struct CUuuid {
  unsigned char bytes[16];
};

struct CUmemLocation {
  int type;
  int id;  ///< of a device: its CUdevice
};

struct CUmemAccessDesc {
  CUmemLocation location;
  int flags;
};

struct CUmemAllocationProp {
  int type;
  int requested_handle_types;
  CUmemLocation location;
  void* win32_handle_metadata;
  unsigned char allocation_flags[8];
};

/// Passed by value.
struct CUipcMemHandle {
  char reserved[64];
};

// CUresult
inline constexpr CUresult success = 0;
inline constexpr CUresult error_invalid_value = 1;
inline constexpr CUresult error_out_of_memory = 2;
inline constexpr CUresult error_not_initialized = 3;
inline constexpr CUresult error_deinitialized = 4;
inline constexpr CUresult error_no_device = 100;
inline constexpr CUresult error_invalid_device = 101;
inline constexpr CUresult error_invalid_context = 201;
inline constexpr CUresult error_no_binary_for_gpu = 209;
inline constexpr CUresult error_peer_access_unsupported = 217;
inline constexpr CUresult error_invalid_ptx = 218;
inline constexpr CUresult error_invalid_handle = 400;
inline constexpr CUresult error_not_found = 500;
inline constexpr CUresult error_not_ready = 600;
inline constexpr CUresult error_illegal_address = 700;
inline constexpr CUresult error_peer_access_already_enabled = 704;
inline constexpr CUresult error_peer_access_not_enabled = 705;
inline constexpr CUresult error_context_is_destroyed = 709;
inline constexpr CUresult error_host_memory_already_registered = 712;
inline constexpr CUresult error_host_memory_not_registered = 713;
inline constexpr CUresult error_not_permitted = 800;
inline constexpr CUresult error_not_supported = 801;
inline constexpr CUresult error_stream_capture_unsupported = 900;
inline constexpr CUresult error_unknown = 999;

// CUdevice_attribute
inline constexpr int attribute_pci_bus_id = 33;
inline constexpr int attribute_pci_device_id = 34;
inline constexpr int attribute_integrated = 18;
inline constexpr int attribute_unified_addressing = 41;
inline constexpr int attribute_pci_domain_id = 50;
inline constexpr int attribute_can_use_host_pointer_for_registered_mem = 91;
inline constexpr int attribute_can_flush_remote_writes = 98;
inline constexpr int attribute_host_register_supported = 99;
inline constexpr int attribute_gpu_direct_rdma_supported = 116;
inline constexpr int attribute_gpu_direct_rdma_flush_writes_options = 117;
inline constexpr int attribute_gpu_direct_rdma_writes_ordering = 118;
inline constexpr int attribute_can_use_64_bit_stream_mem_ops = 122;
inline constexpr int attribute_dma_buf_supported = 124;

// CUpointer_attribute
inline constexpr int pointer_context = 1;
inline constexpr int pointer_memory_type = 2;  ///< unsigned: 1 host, 2 device
inline constexpr int pointer_device_pointer = 3;
inline constexpr int pointer_host_pointer = 4;
inline constexpr int pointer_sync_memops = 6;  ///< unsigned bool, to be set
inline constexpr int pointer_buffer_id = 7;    ///< unsigned long long: another for each allocation
inline constexpr int pointer_is_managed = 8;   ///< unsigned bool
inline constexpr int pointer_device_ordinal = 9;  ///< int
inline constexpr int pointer_is_legacy_cuda_ipc_capable = 10;
inline constexpr int pointer_range_start = 11;  ///< CUdeviceptr
inline constexpr int pointer_range_size = 12;   ///< size_t
inline constexpr int pointer_mempool_handle = 17;
inline constexpr unsigned memory_type_host = 1;
inline constexpr unsigned memory_type_device = 2;

// CUmemRangeHandleType and its flags; CUflushGPUDirectRDMAWrites
inline constexpr int range_handle_dma_buf = 1;  ///< int: a file descriptor
inline constexpr unsigned long long range_flag_pcie = 1;
inline constexpr int flush_target_current_context = 0;
inline constexpr int flush_to_owner = 100;
inline constexpr int flush_option_host = 1;
inline constexpr int flush_option_memops = 2;

// CUstreamWaitValue_flags, CUstreamWriteValue_flags, CUstreamCaptureStatus and CUstreamCaptureMode
inline constexpr unsigned wait_value_geq = 0;
inline constexpr unsigned wait_value_eq = 1;
inline constexpr unsigned wait_value_and = 2;
inline constexpr unsigned wait_value_nor = 3;
inline constexpr unsigned wait_value_flush = 1u << 30;
inline constexpr unsigned write_value_default = 0;
inline constexpr unsigned write_value_no_memory_barrier = 1;
inline constexpr int capture_status_none = 0;
inline constexpr int capture_status_active = 1;
inline constexpr int capture_mode_relaxed = 2;

// Flags
inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned event_default = 0;
inline constexpr unsigned event_blocking_sync = 1;
inline constexpr unsigned event_disable_timing = 2;
inline constexpr unsigned host_alloc_portable = 1;
inline constexpr unsigned host_register_portable = 1;
inline constexpr unsigned host_register_device_map = 2;
inline constexpr unsigned host_register_read_only = 8;
inline constexpr unsigned managed_attach_global = 1;
inline constexpr unsigned ipc_memory_lazy_enable_peer_access = 1;
inline constexpr int memory_allocation_pinned = 1;
inline constexpr int granularity_minimum = 0;
inline constexpr int granularity_recommended = 1;
inline constexpr int memory_location_device = 1;
inline constexpr int memory_access_none = 0;
inline constexpr int memory_access_read = 1;
inline constexpr int memory_access_read_write = 3;

}  // namespace nobounce::system::cuda
