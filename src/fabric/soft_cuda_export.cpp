// The soft CUDA driver: GPU memory for third parties: dma-bufs, and what keeps them in order.
#include "fabric/soft_cuda_driver.hpp"

namespace nobounce::fabric {

namespace cuda = system::cuda;

namespace {
constexpr std::uint64_t export_page_bytes = 4096;
}

CUresult SoftCuda::pointer_set_attribute(const void* value, int attribute, CUdeviceptr pointer) {
  if (!initialized_) return cuda::error_not_initialized;
  if (value == nullptr || attribute != cuda::pointer_sync_memops) return cuda::error_invalid_value;
  const auto allocation = allocations_.find(DevicePointer{pointer});
  if (!allocation || allocation->internal) return cuda::error_invalid_value;
  // Copies of this driver are ordered with what devices see anyway.
  return allocation->kind == AllocationKind::device ? cuda::success : cuda::error_not_supported;
}

CUresult SoftCuda::mem_get_handle_for_address_range(void* handle, CUdeviceptr pointer,
                                                    std::size_t bytes, int handle_type,
                                                    unsigned long long flags) {
  CUresult code = cuda::success;
  if (current(code) == nullptr) return code;
  if (handle == nullptr || handle_type != cuda::range_handle_dma_buf || bytes == 0 ||
      pointer % export_page_bytes != 0 || bytes % export_page_bytes != 0) {
    return cuda::error_invalid_value;
  }
  if (flags != 0 && flags != cuda::range_flag_pcie) return cuda::error_invalid_value;
  const auto allocation = allocations_.find(DevicePointer{pointer});
  if (!allocation || allocation->internal) return cuda::error_invalid_value;
  const Gpu& gpu = bus_.machine().gpus.at(allocation->gpu);
  if (!bus_.machine().kernel.dmabuf || !gpu.gpudirect_rdma) return cuda::error_not_supported;
  // A mapping into PCIe space by name is for coherent machines; others refuse it.
  if (flags == cuda::range_flag_pcie) return cuda::error_not_supported;
  const bool kind = allocation->kind == AllocationKind::device ||
                    (allocation->kind == AllocationKind::vmm && allocation->pinnable);
  const std::uint64_t inside = pointer - allocation->base.value;
  // Memory is handed out in larger pieces than it is asked for: the last page belongs to it.
  const std::uint64_t whole_bytes =
      (allocation->length_bytes + export_page_bytes - 1) / export_page_bytes * export_page_bytes;
  if (!kind || bytes > whole_bytes - inside) return cuda::error_invalid_value;
  const auto descriptor = dmabufs_.add({allocation->memory.plus(inside), bytes, allocation->id});
  if (!descriptor) return cuda::error_out_of_memory;
  *static_cast<int*>(handle) = *descriptor;
  return cuda::success;
}

CUresult SoftCuda::flush_gpu_direct_rdma_writes(int target, int scope) {
  CUresult code = cuda::success;
  if (current(code) == nullptr) return code;
  const bool known = scope == cuda::flush_to_owner || scope == 200;  // 200: all devices
  if (target != cuda::flush_target_current_context || !known) return cuda::error_invalid_value;
  return cuda::success;
}

}  // namespace nobounce::fabric
