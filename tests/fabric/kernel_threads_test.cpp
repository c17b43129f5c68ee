// Kernels on threads: two GPUs update one word and poll each other's flags, while memory of every
// kind is made, copied and freed beside them.
#include <gtest/gtest.h>

#include <thread>

#include "support/gpu_kinds.hpp"

namespace nobounce {
namespace {

namespace cuda = system::cuda;

TEST(KernelThreads, GpusMeetInAWordWhileOtherMemoryComesAndGoes) {
  auto made = fabric::SoftHost::create(test::machine_with("workstation"), {});
  ASSERT_TRUE(made.ok());
  test::GpuKinds kinds(**made);
  constexpr int rounds = 20;
  const DevicePointer word = kinds.allocate(AllocationKind::vmm, 1, 4096);
  kinds.set_mapping_access(word, test::GpuKinds::slab, 0, cuda::memory_access_read_write);
  std::vector<std::thread> threads;
  for (const std::uint32_t gpu : {0U, 1U}) {
    threads.emplace_back([&, gpu] {
      // Each waits for the other's turn to end, so that neither can run ahead.
      for (int i = 0; i < rounds; ++i) {
        const auto mine = static_cast<std::uint64_t>(2 * i) + gpu;
        EXPECT_EQ(kinds.run(gpu,
                            [word, mine](fabric::Lane& lane) {
                              if (lane.load<std::uint64_t>(word) != mine) {
                                return system::Step::busy();
                              }
                              lane.atomic_add<std::uint64_t>(word, 1);
                              return system::Step::done();
                            }),
                  cuda::success);
      }
    });
  }
  threads.emplace_back([&] {
    const auto payload = test::random_bytes(100000, 1);
    for (int i = 0; i < rounds; ++i) {
      const system::ContextGuard guard(kinds.api(), kinds.context(0));
      cuda::CUdeviceptr memory = 0;
      EXPECT_EQ(kinds.api().mem_alloc_async(&memory, payload.size(), nullptr), cuda::success);
      EXPECT_EQ(kinds.api().memcpy_htod_async(memory, payload.data(), payload.size(), nullptr),
                cuda::success);
      std::vector<std::byte> back(payload.size());
      EXPECT_EQ(kinds.api().memcpy_dtoh_async(back.data(), memory, back.size(), nullptr),
                cuda::success);
      EXPECT_EQ(back, payload);
      EXPECT_EQ(kinds.api().mem_free_async(memory, nullptr), cuda::success);
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(kinds.look_at(word, 1)[0], std::byte{2 * rounds});
}

}  // namespace
}  // namespace nobounce
