// Our CUDA declarations against the toolkit's cuda.h: constants, sizes, and every function's
// parameters. Function names: against the driver's stub library, where the toolkit brings one.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string_view>

#include "system/abi.hpp"
#include "system/cuda.hpp"

#ifdef NOBOUNCE_HAS_CUDA_HEADER
#include <cuda.h>

namespace nobounce::system {
namespace {

static_assert(sizeof(cuda::CUresult) == sizeof(::CUresult));
static_assert(sizeof(cuda::CUdevice) == sizeof(::CUdevice));
static_assert(sizeof(cuda::CUdeviceptr) == sizeof(::CUdeviceptr));
static_assert(sizeof(cuda::CUcontext) == sizeof(::CUcontext));
static_assert(sizeof(cuda::CUstream) == sizeof(::CUstream));
static_assert(sizeof(cuda::CUevent) == sizeof(::CUevent));
static_assert(sizeof(cuda::CUuuid) == sizeof(::CUuuid));
static_assert(sizeof(cuda::CUmemoryPool) == sizeof(::CUmemoryPool));
static_assert(sizeof(cuda::CUmemGenericAllocationHandle) == sizeof(::CUmemGenericAllocationHandle));
static_assert(sizeof(cuda::CUmemLocation) == sizeof(::CUmemLocation));
static_assert(offsetof(cuda::CUmemLocation, id) == offsetof(::CUmemLocation, id));
static_assert(sizeof(cuda::CUmemAccessDesc) == sizeof(::CUmemAccessDesc));
static_assert(offsetof(cuda::CUmemAccessDesc, flags) == offsetof(::CUmemAccessDesc, flags));
static_assert(sizeof(cuda::CUmemAllocationProp) == sizeof(::CUmemAllocationProp));
static_assert(offsetof(cuda::CUmemAllocationProp, location) ==
              offsetof(::CUmemAllocationProp, location));
static_assert(offsetof(cuda::CUmemAllocationProp, allocation_flags) ==
              offsetof(::CUmemAllocationProp, allocFlags));
static_assert(sizeof(cuda::CUipcMemHandle) == sizeof(::CUipcMemHandle));

static_assert(cuda::success == CUDA_SUCCESS);
static_assert(cuda::error_invalid_value == CUDA_ERROR_INVALID_VALUE);
static_assert(cuda::error_out_of_memory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(cuda::error_not_initialized == CUDA_ERROR_NOT_INITIALIZED);
static_assert(cuda::error_deinitialized == CUDA_ERROR_DEINITIALIZED);
static_assert(cuda::error_no_device == CUDA_ERROR_NO_DEVICE);
static_assert(cuda::error_invalid_device == CUDA_ERROR_INVALID_DEVICE);
static_assert(cuda::error_invalid_context == CUDA_ERROR_INVALID_CONTEXT);
static_assert(cuda::error_no_binary_for_gpu == CUDA_ERROR_NO_BINARY_FOR_GPU);
static_assert(cuda::error_invalid_ptx == CUDA_ERROR_INVALID_PTX);
static_assert(cuda::error_stream_capture_unsupported == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
static_assert(cuda::attribute_can_use_host_pointer_for_registered_mem ==
              CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
static_assert(cuda::attribute_can_flush_remote_writes ==
              CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES);
static_assert(cuda::attribute_can_use_64_bit_stream_mem_ops ==
              CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
static_assert(cuda::flush_option_host == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
static_assert(cuda::flush_option_memops == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS);
static_assert(cuda::wait_value_geq == CU_STREAM_WAIT_VALUE_GEQ);
static_assert(cuda::wait_value_eq == CU_STREAM_WAIT_VALUE_EQ);
static_assert(cuda::wait_value_and == CU_STREAM_WAIT_VALUE_AND);
static_assert(cuda::wait_value_nor == CU_STREAM_WAIT_VALUE_NOR);
static_assert(cuda::wait_value_flush == CU_STREAM_WAIT_VALUE_FLUSH);
static_assert(cuda::write_value_default == CU_STREAM_WRITE_VALUE_DEFAULT);
static_assert(cuda::write_value_no_memory_barrier == CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER);
static_assert(cuda::capture_status_none == CU_STREAM_CAPTURE_STATUS_NONE);
static_assert(cuda::capture_status_active == CU_STREAM_CAPTURE_STATUS_ACTIVE);
static_assert(cuda::capture_mode_relaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(cuda::error_peer_access_unsupported == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
static_assert(cuda::error_invalid_handle == CUDA_ERROR_INVALID_HANDLE);
static_assert(cuda::error_not_found == CUDA_ERROR_NOT_FOUND);
static_assert(cuda::error_not_ready == CUDA_ERROR_NOT_READY);
static_assert(cuda::error_illegal_address == CUDA_ERROR_ILLEGAL_ADDRESS);
static_assert(cuda::error_peer_access_already_enabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
static_assert(cuda::error_peer_access_not_enabled == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
static_assert(cuda::error_context_is_destroyed == CUDA_ERROR_CONTEXT_IS_DESTROYED);
static_assert(cuda::error_host_memory_already_registered ==
              CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
static_assert(cuda::error_host_memory_not_registered == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
static_assert(cuda::error_not_permitted == CUDA_ERROR_NOT_PERMITTED);
static_assert(cuda::error_not_supported == CUDA_ERROR_NOT_SUPPORTED);
static_assert(cuda::error_unknown == CUDA_ERROR_UNKNOWN);
static_assert(cuda::attribute_pci_bus_id == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
static_assert(cuda::attribute_pci_device_id == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
static_assert(cuda::attribute_integrated == CU_DEVICE_ATTRIBUTE_INTEGRATED);
static_assert(cuda::attribute_unified_addressing == CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
static_assert(cuda::attribute_pci_domain_id == CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
static_assert(cuda::attribute_host_register_supported ==
              CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
static_assert(cuda::attribute_gpu_direct_rdma_supported ==
              CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
static_assert(cuda::attribute_gpu_direct_rdma_flush_writes_options ==
              CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
static_assert(cuda::attribute_gpu_direct_rdma_writes_ordering ==
              CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
static_assert(cuda::attribute_dma_buf_supported == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
static_assert(cuda::pointer_sync_memops == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
static_assert(cuda::pointer_buffer_id == CU_POINTER_ATTRIBUTE_BUFFER_ID);
static_assert(cuda::range_handle_dma_buf == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
static_assert(cuda::flush_target_current_context ==
              CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
static_assert(cuda::flush_to_owner == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
static_assert(cuda::pointer_context == CU_POINTER_ATTRIBUTE_CONTEXT);
static_assert(cuda::pointer_memory_type == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(cuda::pointer_device_pointer == CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
static_assert(cuda::pointer_host_pointer == CU_POINTER_ATTRIBUTE_HOST_POINTER);
static_assert(cuda::pointer_is_managed == CU_POINTER_ATTRIBUTE_IS_MANAGED);
static_assert(cuda::pointer_device_ordinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(cuda::pointer_is_legacy_cuda_ipc_capable ==
              CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
static_assert(cuda::pointer_range_start == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
static_assert(cuda::pointer_range_size == CU_POINTER_ATTRIBUTE_RANGE_SIZE);
static_assert(cuda::pointer_mempool_handle == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
static_assert(cuda::memory_type_host == CU_MEMORYTYPE_HOST);
static_assert(cuda::memory_type_device == CU_MEMORYTYPE_DEVICE);
static_assert(cuda::stream_non_blocking == CU_STREAM_NON_BLOCKING);
static_assert(cuda::event_default == CU_EVENT_DEFAULT);
static_assert(cuda::event_blocking_sync == CU_EVENT_BLOCKING_SYNC);
static_assert(cuda::event_disable_timing == CU_EVENT_DISABLE_TIMING);
static_assert(cuda::host_alloc_portable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(cuda::host_register_portable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(cuda::host_register_device_map == CU_MEMHOSTREGISTER_DEVICEMAP);
static_assert(cuda::host_register_read_only == CU_MEMHOSTREGISTER_READ_ONLY);
static_assert(cuda::managed_attach_global == CU_MEM_ATTACH_GLOBAL);
static_assert(cuda::ipc_memory_lazy_enable_peer_access == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(cuda::memory_allocation_pinned == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(cuda::granularity_minimum == CU_MEM_ALLOC_GRANULARITY_MINIMUM);
static_assert(cuda::granularity_recommended == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
static_assert(cuda::memory_location_device == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(cuda::memory_access_none == CU_MEM_ACCESS_FLAGS_PROT_NONE);
static_assert(cuda::memory_access_read == CU_MEM_ACCESS_FLAGS_PROT_READ);
static_assert(cuda::memory_access_read_write == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

constexpr std::string_view symbol_of(std::string_view wanted) {
#define NOBOUNCE_CUDA(method, symbol, parameters, arguments) \
  if (wanted == #method) return symbol;
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA
  return {};
}

// The text is compared as well: the real header renames functions by macros. Each use counts
// itself.
#define NOBOUNCE_SAME_CALL(method, function)                        \
  static_assert(__COUNTER__ > counter_before &&                     \
                symbol_of(#method) == std::string_view(#function)); \
  static_assert(test::SameCall<decltype(&Cuda::method), decltype(&::function)>::value)

constexpr int counter_before = __COUNTER__;
NOBOUNCE_SAME_CALL(init, cuInit);
NOBOUNCE_SAME_CALL(driver_get_version, cuDriverGetVersion);
NOBOUNCE_SAME_CALL(device_get_count, cuDeviceGetCount);
NOBOUNCE_SAME_CALL(device_get, cuDeviceGet);
NOBOUNCE_SAME_CALL(device_get_name, cuDeviceGetName);
NOBOUNCE_SAME_CALL(device_get_uuid, cuDeviceGetUuid_v2);
NOBOUNCE_SAME_CALL(device_get_pci_bus_id, cuDeviceGetPCIBusId);
NOBOUNCE_SAME_CALL(device_total_mem, cuDeviceTotalMem_v2);
NOBOUNCE_SAME_CALL(device_get_attribute, cuDeviceGetAttribute);
NOBOUNCE_SAME_CALL(device_primary_ctx_retain, cuDevicePrimaryCtxRetain);
NOBOUNCE_SAME_CALL(device_primary_ctx_release, cuDevicePrimaryCtxRelease_v2);
NOBOUNCE_SAME_CALL(ctx_push_current, cuCtxPushCurrent_v2);
NOBOUNCE_SAME_CALL(ctx_pop_current, cuCtxPopCurrent_v2);
NOBOUNCE_SAME_CALL(ctx_get_current, cuCtxGetCurrent);
NOBOUNCE_SAME_CALL(ctx_get_device, cuCtxGetDevice);
NOBOUNCE_SAME_CALL(ctx_synchronize, cuCtxSynchronize);
NOBOUNCE_SAME_CALL(mem_alloc, cuMemAlloc_v2);
NOBOUNCE_SAME_CALL(mem_free, cuMemFree_v2);
NOBOUNCE_SAME_CALL(mem_alloc_managed, cuMemAllocManaged);
NOBOUNCE_SAME_CALL(mem_get_info, cuMemGetInfo_v2);
NOBOUNCE_SAME_CALL(mem_get_address_range, cuMemGetAddressRange_v2);
NOBOUNCE_SAME_CALL(mem_host_alloc, cuMemHostAlloc);
NOBOUNCE_SAME_CALL(mem_free_host, cuMemFreeHost);
NOBOUNCE_SAME_CALL(mem_host_register, cuMemHostRegister_v2);
NOBOUNCE_SAME_CALL(mem_host_unregister, cuMemHostUnregister);
NOBOUNCE_SAME_CALL(memcpy_htod_async, cuMemcpyHtoDAsync_v2);
NOBOUNCE_SAME_CALL(memcpy_dtoh_async, cuMemcpyDtoHAsync_v2);
NOBOUNCE_SAME_CALL(memcpy_dtod_async, cuMemcpyDtoDAsync_v2);
NOBOUNCE_SAME_CALL(memcpy_peer_async, cuMemcpyPeerAsync);
NOBOUNCE_SAME_CALL(memset_d8_async, cuMemsetD8Async);
NOBOUNCE_SAME_CALL(pointer_get_attribute, cuPointerGetAttribute);
NOBOUNCE_SAME_CALL(stream_create, cuStreamCreate);
NOBOUNCE_SAME_CALL(stream_destroy, cuStreamDestroy_v2);
NOBOUNCE_SAME_CALL(stream_query, cuStreamQuery);
NOBOUNCE_SAME_CALL(stream_synchronize, cuStreamSynchronize);
NOBOUNCE_SAME_CALL(stream_wait_event, cuStreamWaitEvent);
NOBOUNCE_SAME_CALL(event_create, cuEventCreate);
NOBOUNCE_SAME_CALL(event_destroy, cuEventDestroy_v2);
NOBOUNCE_SAME_CALL(event_record, cuEventRecord);
NOBOUNCE_SAME_CALL(event_query, cuEventQuery);
NOBOUNCE_SAME_CALL(event_synchronize, cuEventSynchronize);
NOBOUNCE_SAME_CALL(device_can_access_peer, cuDeviceCanAccessPeer);
NOBOUNCE_SAME_CALL(ctx_enable_peer_access, cuCtxEnablePeerAccess);
NOBOUNCE_SAME_CALL(ctx_disable_peer_access, cuCtxDisablePeerAccess);
NOBOUNCE_SAME_CALL(mem_get_access, cuMemGetAccess);
NOBOUNCE_SAME_CALL(mem_set_access, cuMemSetAccess);
NOBOUNCE_SAME_CALL(mem_retain_allocation_handle, cuMemRetainAllocationHandle);
NOBOUNCE_SAME_CALL(mem_release, cuMemRelease);
NOBOUNCE_SAME_CALL(mem_pool_get_access, cuMemPoolGetAccess);
NOBOUNCE_SAME_CALL(mem_pool_set_access, cuMemPoolSetAccess);
NOBOUNCE_SAME_CALL(mem_get_allocation_granularity, cuMemGetAllocationGranularity);
NOBOUNCE_SAME_CALL(mem_create, cuMemCreate);
NOBOUNCE_SAME_CALL(mem_address_reserve, cuMemAddressReserve);
NOBOUNCE_SAME_CALL(mem_address_free, cuMemAddressFree);
NOBOUNCE_SAME_CALL(mem_map, cuMemMap);
NOBOUNCE_SAME_CALL(mem_unmap, cuMemUnmap);
NOBOUNCE_SAME_CALL(device_get_default_mem_pool, cuDeviceGetDefaultMemPool);
NOBOUNCE_SAME_CALL(mem_alloc_async, cuMemAllocAsync);
NOBOUNCE_SAME_CALL(mem_alloc_from_pool_async, cuMemAllocFromPoolAsync);
NOBOUNCE_SAME_CALL(pointer_get_attributes, cuPointerGetAttributes);
NOBOUNCE_SAME_CALL(pointer_set_attribute, cuPointerSetAttribute);
NOBOUNCE_SAME_CALL(mem_get_handle_for_address_range, cuMemGetHandleForAddressRange);
NOBOUNCE_SAME_CALL(flush_gpu_direct_rdma_writes, cuFlushGPUDirectRDMAWrites);
NOBOUNCE_SAME_CALL(mem_free_async, cuMemFreeAsync);
NOBOUNCE_SAME_CALL(ipc_get_mem_handle, cuIpcGetMemHandle);
NOBOUNCE_SAME_CALL(ipc_open_mem_handle, cuIpcOpenMemHandle_v2);
NOBOUNCE_SAME_CALL(ipc_close_mem_handle, cuIpcCloseMemHandle);
NOBOUNCE_SAME_CALL(stream_wait_value64, cuStreamWaitValue64_v2);
NOBOUNCE_SAME_CALL(stream_write_value64, cuStreamWriteValue64_v2);
NOBOUNCE_SAME_CALL(stream_is_capturing, cuStreamIsCapturing);
NOBOUNCE_SAME_CALL(stream_begin_capture, cuStreamBeginCapture_v2);
NOBOUNCE_SAME_CALL(stream_end_capture, cuStreamEndCapture);
NOBOUNCE_SAME_CALL(graph_destroy, cuGraphDestroy);
NOBOUNCE_SAME_CALL(mem_host_get_device_pointer, cuMemHostGetDevicePointer_v2);
NOBOUNCE_SAME_CALL(module_load_data, cuModuleLoadData);
NOBOUNCE_SAME_CALL(module_unload, cuModuleUnload);
NOBOUNCE_SAME_CALL(module_get_function, cuModuleGetFunction);
NOBOUNCE_SAME_CALL(launch_kernel, cuLaunchKernel);
NOBOUNCE_SAME_CALL(get_error_name, cuGetErrorName);

constexpr int compared = __COUNTER__ - counter_before - 1;

TEST(CudaAbi, EveryFunctionOfTheListIsComparedWithTheRealHeader) {
  int functions = 0;
#define NOBOUNCE_CUDA(method, symbol, parameters, arguments) ++functions;
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA
  EXPECT_EQ(functions, compared) << "add the new function to this file";
}

}  // namespace
}  // namespace nobounce::system
#else
TEST(CudaAbi, EveryFunctionOfTheListIsComparedWithTheRealHeader) {
  GTEST_SKIP() << "no cuda.h was found when this build was configured";
}
#endif

TEST(CudaAbi, EveryNameOfTheListIsExportedByTheDriversStub) {
#ifdef NOBOUNCE_CUDA_STUB
  void* const stub = dlopen(NOBOUNCE_CUDA_STUB, RTLD_NOW | RTLD_LOCAL);
  if (stub == nullptr) GTEST_SKIP() << "the stub library does not load: " << dlerror();
#define NOBOUNCE_CUDA(method, symbol, parameters, arguments) \
  EXPECT_NE(dlsym(stub, symbol), nullptr) << symbol;
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA
  dlclose(stub);
#else
  GTEST_SKIP() << "no stub of libcuda.so was found when this build was configured";
#endif
}
