// A software machine with a current context on each GPU, and its CUDA and ledger at hand.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bus_rig.hpp"
#include "fabric/soft_host.hpp"
#include "system/cuda.hpp"

namespace nobounce::fabric {

namespace cuda = system::cuda;

struct CudaRig {
  explicit CudaRig(const Machine& machine = bus_machine(),
                   const SoftOptions& options = {.deterministic = true}) {
    auto made = SoftHost::create(machine, options);
    if (!made.ok()) {
      ADD_FAILURE() << to_string(made.error());
      std::abort();
    }
    host = std::move(made).value();
    api = *host->cuda();
  }
  /// cuInit and a retained context per visible device; that of device 0 is current.
  void start() {
    ASSERT_EQ(api->init(0), cuda::success);
    int count = 0;
    ASSERT_EQ(api->device_get_count(&count), cuda::success);
    for (int i = 0; i < count; ++i) {
      contexts.push_back(nullptr);
      ASSERT_EQ(api->device_primary_ctx_retain(&contexts.back(), i), cuda::success);
    }
    ASSERT_EQ(api->ctx_push_current(contexts[0]), cuda::success);
  }
  [[nodiscard]] cuda::CUdeviceptr allocate(std::size_t bytes) {
    cuda::CUdeviceptr pointer = 0;
    EXPECT_EQ(api->mem_alloc(&pointer, bytes), cuda::success);
    return pointer;
  }
  [[nodiscard]] std::byte* allocate_pinned(std::size_t bytes) {
    void* pointer = nullptr;
    EXPECT_EQ(api->mem_host_alloc(&pointer, bytes, cuda::host_alloc_portable), cuda::success);
    return static_cast<std::byte*>(pointer);
  }
  [[nodiscard]] cuda::CUstream stream(unsigned flags = cuda::stream_non_blocking) {
    cuda::CUstream made = nullptr;
    EXPECT_EQ(api->stream_create(&made, flags), cuda::success);
    return made;
  }
  [[nodiscard]] cuda::CUevent event() {
    cuda::CUevent made = nullptr;
    EXPECT_EQ(api->event_create(&made, cuda::event_disable_timing), cuda::success);
    return made;
  }
  [[nodiscard]] std::vector<std::byte> inspect(cuda::CUdeviceptr pointer, std::size_t length) {
    return fabric::inspect(host->bus(), End::of(DevicePointer{pointer}), length);
  }
  void plant(cuda::CUdeviceptr pointer, const std::vector<std::byte>& bytes) {
    EXPECT_TRUE(host->bus().plant(End::of(DevicePointer{pointer}), bytes));
  }

  std::unique_ptr<SoftHost> host;
  system::Cuda* api = nullptr;
  std::vector<cuda::CUcontext> contexts;
};

}  // namespace nobounce::fabric
