// Many threads on one threaded software machine: the driver, its engines, memory and the ledger at
// once.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "cuda_rig.hpp"

namespace nobounce::fabric {
namespace {

TEST(CudaThreads, AllCallFromAllThreads) {
  CudaRig rig(bus_machine(), {.deterministic = false});
  rig.start();
  constexpr int thread_count = 6;
  constexpr std::size_t length = 200000;
  std::vector<std::thread> threads;
  for (int t = 0; t < thread_count; ++t) {
    threads.emplace_back([&rig, t] {
      system::Cuda& api = *rig.api;
      ASSERT_EQ(api.ctx_push_current(rig.contexts[static_cast<std::size_t>(t % 2)]), cuda::success);
      const auto payload = random_payload(length, static_cast<std::uint64_t>(t) + 1);
      const auto pinned = rig.host->memory().allocate_pinned(length, 0, system::MemoryUse::user);
      ASSERT_TRUE(pinned.ok());
      for (int round = 0; round < 8; ++round) {
        const cuda::CUdeviceptr device = rig.allocate(length);
        const cuda::CUstream stream = rig.stream(round % 2 == 0 ? 0 : cuda::stream_non_blocking);
        const cuda::CUevent event = rig.event();
        rig.host->memory().copy(pinned->address, payload.data(), length);
        ASSERT_EQ(api.memcpy_htod_async(device, pinned->address, length, stream), cuda::success);
        ASSERT_EQ(api.event_record(event, stream), cuda::success);
        EXPECT_TRUE(rig.host->workers().wait(
            [&] { return api.event_query(event) != cuda::error_not_ready; }, 0));
        std::vector<std::byte> back(length);
        ASSERT_EQ(api.memcpy_dtoh_async(back.data(), device, length, stream), cuda::success);
        ASSERT_EQ(api.stream_synchronize(stream), cuda::success);
        EXPECT_EQ(back, payload);
        ASSERT_EQ(api.event_destroy(event), cuda::success);
        ASSERT_EQ(api.stream_destroy(stream), cuda::success);
        ASSERT_EQ(api.mem_free(device), cuda::success);
      }
      rig.host->memory().free(*pinned);
      ASSERT_EQ(api.ctx_pop_current(nullptr), cuda::success);
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Per round: two copies by the CPU into and out of host memory, of which one is the driver's.
  const std::uint64_t rounds = thread_count * 8;
  EXPECT_EQ(rig.host->ledger().cpu_touched_bytes(), 2 * rounds * length);
}

TEST(CudaThreads, AMachineGoesWithWorkInFlight) {
  for (int i = 0; i < 5; ++i) {
    CudaRig rig(bus_machine(), {.deterministic = false});
    rig.start();
    const cuda::CUdeviceptr device = rig.allocate(1u << 20);
    for (int k = 0; k < 20; ++k) {
      ASSERT_EQ(rig.api->memset_d8_async(device, 1, 1u << 20, nullptr), cuda::success);
    }
  }
}

TEST(CudaThreads, DirectRequestsRunInParallel) {
  CudaRig rig(bus_machine(), {.deterministic = false});
  constexpr std::size_t length = 500000;
  const auto payload = random_payload(length, 3);
  const TestFile file(payload);
  Bus& bus = rig.host->bus();
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const DevicePointer target = bus.vram_base(0).plus(t << 20);
      for (int round = 0; round < 10; ++round) {
        const Result<BusAddress> window = bus.map_bar1(target, length);
        ASSERT_TRUE(window.ok());
        ASSERT_TRUE(bus.dma({Initiator::Kind::drive, 0}, End::of(file.medium(), FileOffset{0}),
                            End::at(*window), length)
                        .ok());
        ASSERT_TRUE(bus.unmap_bar1(*window));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::uint64_t t = 0; t < 4; ++t) {
    const End target = End::of(bus.vram_base(0).plus(t << 20));
    EXPECT_EQ(inspect(bus, target, length), payload);
    EXPECT_EQ(bus.ledger().arrivals(bus.extent_of(target), length).bytes[Carriage::direct], length);
  }
  EXPECT_EQ(bus.ledger().dram_bytes(), 0u);
  EXPECT_EQ(bus.ledger().links().at("switch:0/gpu:0").towards_device, 40 * length);
}

}  // namespace
}  // namespace nobounce::fabric
