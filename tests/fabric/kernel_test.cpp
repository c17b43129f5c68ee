// Kernels of a software machine: what they do to memory, what the ledger says of it, and what is
// left of a process after one that faulted.
#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "cuda_rig.hpp"
#include "fabric/ledger.hpp"

namespace nobounce::fabric {
namespace {

constexpr std::size_t page = 4096;

class Kernels : public ::testing::TestWithParam<bool> {
 protected:
  Kernels() : rig_(bus_machine({.nvlinks = 2}), {.deterministic = GetParam()}) {}
  void SetUp() override {
    rig_.start();
    own_ = DevicePointer{rig_.allocate(page)};
    ASSERT_EQ(api_.ctx_push_current(rig_.contexts[1]), cuda::success);
    peers_ = DevicePointer{rig_.allocate(page)};
    ASSERT_EQ(api_.ctx_pop_current(nullptr), cuda::success);
  }
  void reach_peer() { ASSERT_EQ(api_.ctx_enable_peer_access(rig_.contexts[1], 0), cuda::success); }
  int run(Kernel kernel) {
    EXPECT_EQ(rig_.host->launch(nullptr, std::move(kernel)), cuda::success);
    return api_.ctx_synchronize();
  }
  [[nodiscard]] std::uint64_t by_kernel(std::uint32_t source, std::uint32_t target) {
    std::uint64_t bytes = 0;
    for (const auto& [flow, count] : rig_.host->ledger().flows()) {
      if (flow.initiator.kind != Initiator::Kind::kernel) continue;
      EXPECT_EQ(flow.initiator.index, 0u);
      if (flow.source == Space{Space::Kind::vram, source} &&
          flow.target == Space{Space::Kind::vram, target}) {
        bytes += count;
      }
    }
    return bytes;
  }

  CudaRig rig_;
  system::Cuda& api_ = *rig_.api;
  DevicePointer own_;
  DevicePointer peers_;
};

TEST_P(Kernels, LoadStoreAndUpdateThroughAMappingOfAPeer) {
  reach_peer();
  rig_.plant(peers_.value, std::vector<std::byte>(page, std::byte{3}));
  std::array<std::uint32_t, 4> seen{};
  ASSERT_EQ(run(kernel_once([&](Lane& lane) {
              EXPECT_EQ(lane.gpu(), 0u);
              seen[0] = lane.load<std::uint32_t>(peers_);
              lane.store<std::uint32_t>(peers_.plus(8), 77);
              seen[1] = lane.atomic_add<std::uint32_t>(peers_.plus(8), 5);
              seen[2] = lane.atomic_exchange<std::uint32_t>(peers_.plus(12), 9);
              seen[3] = lane.atomic_compare_exchange<std::uint32_t>(peers_.plus(12), 9, 10);
            })),
            cuda::success);
  EXPECT_EQ(seen, (std::array<std::uint32_t, 4>{0x03030303, 77, 0x03030303, 9}));
  std::array<std::uint32_t, 2> words{};
  ASSERT_TRUE(rig_.host->bus().inspect(End::of(peers_.plus(8)),
                                       std::as_writable_bytes(std::span<std::uint32_t>(words))));
  EXPECT_EQ(words[0], 82u);
  EXPECT_EQ(words[1], 10u);
  EXPECT_EQ(by_kernel(1, 0), 4u) << "one load";
  EXPECT_EQ(by_kernel(0, 1), 16u) << "one store and three updates";
  EXPECT_EQ(rig_.host->ledger().links().count("nvlink:0-1"), 1u);
  EXPECT_EQ(rig_.host->ledger().dram_bytes(), 0u);
  // What a kernel stored into memory of another GPU came there directly.
  const Extent extent = rig_.host->bus().extent_of(End::of(peers_.plus(8)));
  EXPECT_EQ(rig_.host->ledger().arrivals(extent, 8).bytes[Carriage::direct], 8u);
}

TEST_P(Kernels, RunInTheOrderOfTheirStream) {
  const cuda::CUstream stream = rig_.stream();
  std::byte* const pinned = rig_.allocate_pinned(64);
  EXPECT_EQ(api_.memset_d8_async(own_.value, 1, 64, stream), cuda::success);
  EXPECT_EQ(rig_.host->launch(stream, kernel_once([this](Lane& lane) {
                                const auto before = lane.load<std::uint8_t>(own_);
                                lane.store<std::uint8_t>(own_, before == 1 ? 2 : 99);
                              })),
            cuda::success);
  EXPECT_EQ(api_.memcpy_dtoh_async(pinned, own_.value, 64, stream), cuda::success);
  EXPECT_EQ(api_.stream_synchronize(stream), cuda::success);
  EXPECT_EQ(pinned[0], std::byte{2});
  EXPECT_EQ(pinned[1], std::byte{1});
}

TEST_P(Kernels, MayWaitForWhatAnotherStreamDoes) {
  std::uint64_t steps = 0;
  ASSERT_EQ(rig_.host->launch(rig_.stream(),
                              [this, steps](Lane& lane) mutable {
                                ++steps;  // kept from step to step
                                if (lane.load<std::uint8_t>(own_) != 5) return system::Step::busy();
                                lane.store<std::uint64_t>(own_.plus(8), steps);
                                return system::Step::done();
                              }),
            cuda::success);
  ASSERT_EQ(api_.memset_d8_async(own_.value, 5, 1, rig_.stream()), cuda::success);
  ASSERT_EQ(api_.ctx_synchronize(), cuda::success);
  ASSERT_TRUE(rig_.host->bus().inspect(End::of(own_.plus(8)),
                                       std::as_writable_bytes(std::span(&steps, 1))));
  EXPECT_GE(steps, 1u);
}

TEST_P(Kernels, OfTwoGpusUpdateOneWordAtomically) {
  reach_peer();
  const auto adding = kernel_once([this](Lane& lane) {
    for (int i = 0; i < 500; ++i) lane.atomic_add<std::uint64_t>(peers_, 1);
  });
  ASSERT_EQ(rig_.host->launch(nullptr, adding), cuda::success);
  ASSERT_EQ(api_.ctx_push_current(rig_.contexts[1]), cuda::success);
  ASSERT_EQ(rig_.host->launch(nullptr, adding), cuda::success);
  ASSERT_EQ(api_.ctx_synchronize(), cuda::success);
  ASSERT_EQ(api_.ctx_pop_current(nullptr), cuda::success);
  ASSERT_EQ(api_.ctx_synchronize(), cuda::success);
  std::uint64_t sum = 0;
  ASSERT_TRUE(
      rig_.host->bus().inspect(End::of(peers_), std::as_writable_bytes(std::span(&sum, 1))));
  EXPECT_EQ(sum, 1000u);
}

TEST_P(Kernels, ReachPinnedHostMemoryAndNoOther) {
  std::byte* const pinned = rig_.allocate_pinned(64);
  const DevicePointer host{reinterpret_cast<std::uintptr_t>(pinned)};
  ASSERT_EQ(run(kernel_once([host](Lane& lane) { lane.store<std::uint32_t>(host, 0x01010101); })),
            cuda::success);
  EXPECT_EQ(pinned[3], std::byte{1});
  EXPECT_EQ(rig_.host->ledger().dram_bytes(), 4u);
  std::vector<std::byte> pageable(64);
  const DevicePointer wrong{reinterpret_cast<std::uintptr_t>(pageable.data())};
  EXPECT_EQ(run(kernel_once([wrong](Lane& lane) { lane.store<std::uint32_t>(wrong, 1); })),
            cuda::error_illegal_address);
  EXPECT_EQ(pageable[0], std::byte{0});
}

TEST_P(Kernels, FaultOnAPeerThatIsNotMappedAndTakeTheProcessAlong) {
  reach_peer();
  ASSERT_EQ(run(kernel_once([this](Lane& lane) { lane.store<std::uint8_t>(peers_, 1); })),
            cuda::success);
  ASSERT_EQ(api_.ctx_disable_peer_access(rig_.contexts[1]), cuda::success);
  bool went_on = false;
  ASSERT_EQ(run([&](Lane& lane) {
              lane.store<std::uint8_t>(peers_, 2);
              EXPECT_TRUE(lane.faulted());
              lane.store<std::uint8_t>(own_, 2);  // too late
              EXPECT_FALSE(went_on) << "stepped after its fault";
              return std::exchange(went_on, true) ? system::Step::done() : system::Step::busy();
            }),
            cuda::error_illegal_address);
  EXPECT_EQ(rig_.inspect(peers_.value, 1)[0], std::byte{1});
  EXPECT_EQ(rig_.inspect(own_.value, 1)[0], std::byte{0});
  cuda::CUdeviceptr pointer = 0;
  EXPECT_EQ(api_.mem_alloc(&pointer, 512), cuda::error_illegal_address);
  EXPECT_EQ(api_.memset_d8_async(own_.value, 1, 1, nullptr), cuda::error_illegal_address);
  // Also the context of the GPU that did nothing.
  ASSERT_EQ(api_.ctx_push_current(rig_.contexts[1]), cuda::success);
  EXPECT_EQ(api_.memset_d8_async(peers_.value, 1, 1, nullptr), cuda::error_illegal_address);
}

TEST_P(Kernels, FaultOnMemoryThatIsMappedForReadingAlone) {
  cuda::CUmemAllocationProp properties{};
  properties.type = cuda::memory_allocation_pinned;
  properties.location = {cuda::memory_location_device, 1};
  cuda::CUmemGenericAllocationHandle handle = 0;
  constexpr std::size_t slab = 2u << 20;
  ASSERT_EQ(api_.mem_create(&handle, slab, &properties, 0), cuda::success);
  cuda::CUdeviceptr pointer = 0;
  ASSERT_EQ(api_.mem_address_reserve(&pointer, slab, 0, 0, 0), cuda::success);
  ASSERT_EQ(api_.mem_map(pointer, slab, 0, handle, 0), cuda::success);
  const cuda::CUmemAccessDesc reading{{cuda::memory_location_device, 0}, cuda::memory_access_read};
  ASSERT_EQ(api_.mem_set_access(pointer, slab, &reading, 1), cuda::success);
  const DevicePointer mapped{pointer};
  EXPECT_EQ(run(kernel_once([mapped](Lane& lane) { (void)lane.load<std::uint8_t>(mapped); })),
            cuda::success);
  EXPECT_EQ(run(kernel_once([mapped](Lane& lane) { lane.store<std::uint8_t>(mapped, 1); })),
            cuda::error_illegal_address);
}

INSTANTIATE_TEST_SUITE_P(Both, Kernels, ::testing::Values(true, false), [](const auto& instance) {
  return std::string(instance.param ? "Deterministic" : "OnThreads");
});

TEST(KernelsOverPcie, LoseWhatAcsRedirectsAndReadAllOnes) {
  CudaRig rig(bus_machine({.acs = AcsMode::redirect}));
  rig.start();
  ASSERT_EQ(rig.api->ctx_push_current(rig.contexts[1]), cuda::success);
  const DevicePointer peers{rig.allocate(page)};
  ASSERT_EQ(rig.api->ctx_pop_current(nullptr), cuda::success);
  ASSERT_EQ(rig.api->ctx_enable_peer_access(rig.contexts[1], 0), cuda::success);
  std::uint32_t seen = 0;
  ASSERT_EQ(rig.host->launch(nullptr, kernel_once([&](Lane& lane) {
                               lane.store<std::uint32_t>(peers, 5);
                               seen = lane.load<std::uint32_t>(peers);
                             })),
            cuda::success);
  EXPECT_EQ(rig.api->ctx_synchronize(), cuda::success) << "nobody is told";
  EXPECT_EQ(seen, 0xffffffffu);
  EXPECT_EQ(rig.inspect(peers.value, 1)[0], std::byte{0});
  EXPECT_EQ(rig.host->ledger().lost_bytes(), 8u);
}

TEST(KernelsOverPcie, CrossTheSwitchOrTheForwardingHostBridge) {
  for (const bool redirected : {false, true}) {
    CudaRig rig(bus_machine({.acs = redirected ? AcsMode::redirect : AcsMode::off,
                             .forwarding = PeerForwarding::allowed}));
    rig.start();
    ASSERT_EQ(rig.api->ctx_push_current(rig.contexts[1]), cuda::success);
    const DevicePointer peers{rig.allocate(page)};
    ASSERT_EQ(rig.api->ctx_pop_current(nullptr), cuda::success);
    ASSERT_EQ(rig.api->ctx_enable_peer_access(rig.contexts[1], 0), cuda::success);
    ASSERT_EQ(rig.host->launch(
                  nullptr, kernel_once([&](Lane& lane) { lane.store<std::uint32_t>(peers, 5); })),
              cuda::success);
    ASSERT_EQ(rig.api->ctx_synchronize(), cuda::success);
    EXPECT_EQ(rig.inspect(peers.value, 1)[0], std::byte{5});
    EXPECT_EQ(rig.host->ledger().links().count("switch:0/gpu:1"), 1u);
    EXPECT_EQ(rig.host->ledger().links().count("host_bridge:0/switch:0"), redirected ? 1u : 0u);
    ASSERT_EQ(rig.host->ledger().requests().size(), 1u);
    EXPECT_EQ(rig.host->ledger().requests()[0].redirected, redirected);
  }
}

}  // namespace
}  // namespace nobounce::fabric
