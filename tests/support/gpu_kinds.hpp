// GPU memory of every kind on a software machine, as a program would have got it from CUDA.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fabric/bus.hpp"
#include "fabric/soft_host.hpp"
#include "support/soft_session.hpp"
#include "system/cuda.hpp"
#include "system/cuda_contexts.hpp"

namespace nobounce::test {

namespace cuda = system::cuda;

/// Retains the contexts it needs; what it allocates lives as long as the machine.
class GpuKinds {
 public:
  explicit GpuKinds(fabric::SoftHost& host) : host_(host), api_(**host.cuda()) {
    EXPECT_EQ(api_.init(0), cuda::success);
    contexts_.resize(host.machine().gpus.size());
    for (std::size_t i = 0; i < contexts_.size(); ++i) {
      EXPECT_EQ(api_.device_primary_ctx_retain(&contexts_[i], static_cast<int>(i)), cuda::success);
    }
  }

  [[nodiscard]] system::Cuda& api() { return api_; }
  [[nodiscard]] cuda::CUcontext context(std::uint32_t gpu) { return contexts_.at(gpu); }

  /// In whole 2 MiB where the kind wants that.
  [[nodiscard]] DevicePointer allocate(AllocationKind kind, std::uint32_t gpu,
                                       std::uint64_t length_bytes) {
    const system::ContextGuard guard(api_, context(gpu));
    cuda::CUdeviceptr pointer = 0;
    switch (kind) {
      case AllocationKind::vmm:
        return mapped(gpu, (length_bytes + slab - 1) / slab * slab);
      case AllocationKind::pool:
        EXPECT_EQ(api_.mem_alloc_async(&pointer, length_bytes, nullptr), cuda::success);
        break;
      case AllocationKind::ipc_import: {
        const auto exported = host_.export_from_other_process(gpu, length_bytes);
        EXPECT_TRUE(exported.ok());
        if (exported.ok()) {
          EXPECT_EQ(api_.ipc_open_mem_handle(&pointer, exported->handle, 1), cuda::success);
        }
        break;
      }
      case AllocationKind::managed:
        EXPECT_EQ(api_.mem_alloc_managed(&pointer, length_bytes, cuda::managed_attach_global),
                  cuda::success);
        break;
      default:
        EXPECT_EQ(api_.mem_alloc(&pointer, length_bytes), cuda::success);
    }
    return DevicePointer{pointer};
  }

  /// Mapped at the start of a reservation four times as long, and reached by its own GPU.
  [[nodiscard]] DevicePointer mapped(std::uint32_t gpu, std::uint64_t length_bytes) {
    cuda::CUdeviceptr base = 0;
    EXPECT_EQ(api_.mem_address_reserve(&base, 4 * length_bytes, 0, 0, 0), cuda::success);
    add_mapping(gpu, DevicePointer{base}, length_bytes);
    return DevicePointer{base};
  }
  void add_mapping(std::uint32_t gpu, DevicePointer at, std::uint64_t length_bytes) {
    cuda::CUmemAllocationProp properties{};
    properties.type = cuda::memory_allocation_pinned;
    properties.location = {cuda::memory_location_device, static_cast<int>(gpu)};
    properties.allocation_flags[1] = rdma_capable ? 1 : 0;
    cuda::CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(api_.mem_create(&handle, length_bytes, &properties, 0), cuda::success);
    EXPECT_EQ(api_.mem_map(at.value, length_bytes, 0, handle, 0), cuda::success);
    EXPECT_EQ(api_.mem_release(handle), cuda::success);
    set_mapping_access(at, length_bytes, gpu, cuda::memory_access_read_write);
  }
  void set_mapping_access(DevicePointer at, std::uint64_t length_bytes, std::uint32_t gpu,
                          int flags) {
    const cuda::CUmemAccessDesc access{{cuda::memory_location_device, static_cast<int>(gpu)},
                                       flags};
    EXPECT_EQ(api_.mem_set_access(at.value, length_bytes, &access, 1), cuda::success);
  }
  [[nodiscard]] unsigned long long mapping_access(DevicePointer at, std::uint32_t gpu) {
    unsigned long long flags = 99;
    const cuda::CUmemLocation location{cuda::memory_location_device, static_cast<int>(gpu)};
    EXPECT_EQ(api_.mem_get_access(&flags, &location, at.value), cuda::success);
    return flags;
  }

  /// Takes a peer's access away again, as the kind has it.
  void disable(AllocationKind kind, DevicePointer at, std::uint64_t length_bytes,
               std::uint32_t owner, std::uint32_t gpu) {
    if (kind == AllocationKind::vmm) {
      set_mapping_access(at, (length_bytes + slab - 1) / slab * slab, gpu,
                         cuda::memory_access_none);
    } else if (kind == AllocationKind::pool) {
      cuda::CUmemoryPool pool = nullptr;
      EXPECT_EQ(api_.device_get_default_mem_pool(&pool, static_cast<int>(owner)), cuda::success);
      const cuda::CUmemAccessDesc access{{cuda::memory_location_device, static_cast<int>(gpu)},
                                         cuda::memory_access_none};
      EXPECT_EQ(api_.mem_pool_set_access(pool, &access, 1), cuda::success);
    } else {
      const system::ContextGuard guard(api_, context(gpu));
      EXPECT_EQ(api_.ctx_disable_peer_access(context(owner)), cuda::success);
    }
  }

  /// Runs a kernel on a GPU to its end and answers the code.
  int run(std::uint32_t gpu, fabric::Kernel kernel) {
    const system::ContextGuard guard(api_, context(gpu));
    const int code = host_.launch(nullptr, std::move(kernel));
    return code == cuda::success ? api_.ctx_synchronize() : code;
  }

  /// Where memory lies on the bus: managed memory in DRAM.
  [[nodiscard]] fabric::End end_of(DevicePointer at) const {
    if (host_.bus().is_device_address(at)) return fabric::End::of(at);
    return fabric::End::at(host_.bus().address_of(reinterpret_cast<const void*>(at.value)));
  }
  void plant(DevicePointer at, const std::vector<std::byte>& bytes) {
    EXPECT_TRUE(host_.bus().plant(end_of(at), bytes));
  }
  [[nodiscard]] std::vector<std::byte> look_at(DevicePointer at, std::size_t length) const {
    std::vector<std::byte> bytes(length);
    EXPECT_TRUE(host_.bus().inspect(end_of(at), bytes));
    return bytes;
  }
  [[nodiscard]] CarriageBytes arrived(DevicePointer at, std::uint64_t length) const {
    return host_.ledger().arrivals(host_.bus().extent_of(end_of(at)), length).bytes;
  }

  bool rdma_capable = true;  ///< of mappings: made so that other devices may reach them
  static constexpr std::uint64_t slab = 2u << 20;

 private:
  fabric::SoftHost& host_;
  system::Cuda& api_;
  std::vector<cuda::CUcontext> contexts_;
};

}  // namespace nobounce::test
