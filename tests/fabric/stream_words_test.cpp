// Stream memory operations of a software machine, and the store buffer of its kernels: whatever is
// not ordered is seen out of turn on some seed.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <set>

#include "cuda_rig.hpp"

namespace nobounce::fabric {
namespace {

class StreamWords : public ::testing::TestWithParam<bool> {
 protected:
  StreamWords() : rig_(bus_machine({}), {.deterministic = GetParam()}) {}
  void SetUp() override {
    rig_.start();
    word_ = reinterpret_cast<std::uint64_t*>(rig_.allocate_pinned(4096));
    stream_ = rig_.stream();
  }
  [[nodiscard]] cuda::CUdeviceptr address(std::size_t index = 0) const {
    return reinterpret_cast<cuda::CUdeviceptr>(word_ + index);
  }
  [[nodiscard]] std::uint64_t read(std::size_t index) const {
    return std::atomic_ref<std::uint64_t>(word_[index]).load();
  }
  void write(std::size_t index, std::uint64_t value) {
    std::atomic_ref<std::uint64_t>(word_[index]).store(value);
  }
  /// Whether the stream ends within a generous time of its own accord.
  bool ends() {
    return rig_.host->workers().wait([&] { return api_.stream_query(stream_) == cuda::success; },
                                     rig_.host->clock().now_ns() + 20'000'000'000);
  }
  bool stays_for_a_while() {
    return !rig_.host->workers().wait([&] { return api_.stream_query(stream_) == cuda::success; },
                                      rig_.host->clock().now_ns() + 3'000'000);
  }

  CudaRig rig_;
  system::Cuda& api_ = *rig_.api;
  std::uint64_t* word_ = nullptr;
  cuda::CUstream stream_ = nullptr;
};

TEST_P(StreamWords, AWaitHoldsItsStreamAndNoOther) {
  ASSERT_EQ(api_.stream_wait_value64(stream_, address(0), 5, cuda::wait_value_geq), cuda::success);
  ASSERT_EQ(api_.stream_write_value64(stream_, address(1), 77, 0), cuda::success);
  const cuda::CUstream other = rig_.stream();
  ASSERT_EQ(api_.stream_write_value64(other, address(2), 9, 0), cuda::success);
  ASSERT_EQ(api_.stream_synchronize(other), cuda::success);
  EXPECT_EQ(read(2), 9u);
  EXPECT_TRUE(stays_for_a_while());
  EXPECT_EQ(read(1), 0u);
  write(0, 4);
  EXPECT_TRUE(stays_for_a_while()) << "4 is less than 5";
  write(0, 6);
  EXPECT_TRUE(ends());
  EXPECT_EQ(read(1), 77u);
}

TEST_P(StreamWords, GreaterOrEqualIsCyclic) {
  write(0, 3);
  ASSERT_EQ(api_.stream_wait_value64(stream_, address(), ~std::uint64_t{0} - 2, 0), cuda::success);
  EXPECT_TRUE(ends()) << "3 is six beyond -3";
  ASSERT_EQ(api_.stream_wait_value64(stream_, address(), 3 + (std::uint64_t{1} << 62), 0),
            cuda::success);
  EXPECT_TRUE(stays_for_a_while());
  write(0, 4 + (std::uint64_t{1} << 62));
  EXPECT_TRUE(ends());
}

TEST_P(StreamWords, AllComparisons) {
  struct Case {
    unsigned compare;
    std::uint64_t value;
    std::uint64_t blocked;
    std::uint64_t free;
  };
  for (const Case& one :
       {Case{cuda::wait_value_eq, 8, 9, 8}, Case{cuda::wait_value_and, 6, 9, 2},
        Case{cuda::wait_value_nor, 0xff, ~std::uint64_t{0xff}, ~std::uint64_t{0x1ff}}}) {
    write(0, one.blocked);
    ASSERT_EQ(api_.stream_wait_value64(stream_, address(), one.value, one.compare), cuda::success);
    EXPECT_TRUE(stays_for_a_while()) << one.compare;
    write(0, one.free);
    EXPECT_TRUE(ends()) << one.compare;
  }
}

TEST_P(StreamWords, RefuseWhatTheDriverRefuses) {
  std::uint64_t plain = 0;
  EXPECT_EQ(api_.stream_wait_value64(stream_, reinterpret_cast<cuda::CUdeviceptr>(&plain), 0, 0),
            cuda::error_invalid_value)
      << "not pinned";
  EXPECT_EQ(api_.stream_wait_value64(stream_, address() + 4, 0, 0), cuda::error_invalid_value);
  EXPECT_EQ(api_.stream_wait_value64(stream_, address(), 0, 4), cuda::error_invalid_value);
  EXPECT_EQ(api_.stream_wait_value64(stream_, address(), 0, cuda::wait_value_flush),
            cuda::error_not_supported);
  for (const unsigned flags : {cuda::write_value_no_memory_barrier, 2u}) {
    EXPECT_EQ(api_.stream_write_value64(stream_, address(), 0, flags), cuda::error_invalid_value);
  }
  EXPECT_EQ(api_.stream_write_value64(stream_, 0, 0, 0), cuda::error_invalid_value);
  cuda::CUdeviceptr managed = 0;
  ASSERT_EQ(api_.mem_alloc_managed(&managed, 4096, cuda::managed_attach_global), cuda::success);
  EXPECT_EQ(api_.stream_wait_value64(stream_, managed, 0, 0), cuda::error_invalid_value);
}

TEST_P(StreamWords, WordsInGpuMemoryServeAsWell) {
  const cuda::CUdeviceptr device = rig_.allocate(4096);
  ASSERT_EQ(api_.memset_d8_async(device, 0, 4096, stream_), cuda::success);
  ASSERT_EQ(api_.stream_wait_value64(stream_, device, 1, 0), cuda::success);
  ASSERT_EQ(api_.stream_write_value64(stream_, address(), 1, 0), cuda::success);
  EXPECT_TRUE(stays_for_a_while());
  ASSERT_EQ(api_.stream_write_value64(rig_.stream(), device, 1, 0), cuda::success);
  EXPECT_TRUE(ends());
  EXPECT_EQ(read(0), 1u);
}

TEST_P(StreamWords, ACapturedStreamSaysSoAndTakesNothing) {
  int status = 7;
  ASSERT_EQ(api_.stream_is_capturing(stream_, &status), cuda::success);
  EXPECT_EQ(status, cuda::capture_status_none);
  ASSERT_EQ(api_.stream_begin_capture(stream_, cuda::capture_mode_relaxed), cuda::success);
  ASSERT_EQ(api_.stream_is_capturing(stream_, &status), cuda::success);
  EXPECT_EQ(status, cuda::capture_status_active);
  EXPECT_EQ(api_.stream_write_value64(stream_, address(), 1, 0),
            cuda::error_stream_capture_unsupported);
  cuda::CUgraph graph = nullptr;
  ASSERT_EQ(api_.stream_end_capture(stream_, &graph), cuda::success);
  EXPECT_EQ(api_.graph_destroy(graph), cuda::success);
  EXPECT_EQ(api_.graph_destroy(graph), cuda::error_invalid_value);
  ASSERT_EQ(api_.stream_is_capturing(stream_, &status), cuda::success);
  EXPECT_EQ(status, cuda::capture_status_none);
  EXPECT_EQ(api_.stream_write_value64(stream_, address(), 1, 0), cuda::success);
}

INSTANTIATE_TEST_SUITE_P(Both, StreamWords, ::testing::Values(true, false),
                         [](const auto& instance) {
                           return std::string(instance.param ? "Deterministic" : "OnThreads");
                         });

/// What a second kernel sees of data and flag that a first one stored, over seeds: {flag, data}.
std::set<std::pair<std::uint64_t, std::uint64_t>> message_passing(bool released) {
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CudaRig rig(bus_machine({}), {.deterministic = true, .seed = seed});
    rig.start();
    const DevicePointer data{rig.allocate(4096)};
    const DevicePointer flag{rig.allocate(4096)};
    EXPECT_EQ(rig.host->launch(rig.stream(),
                               [=, step = 0](Lane& lane) mutable {
                                 if (step++ == 0) {
                                   lane.store<std::uint64_t>(data, 1);
                                   if (released) {
                                     lane.store_release<std::uint64_t>(flag, 1);
                                   } else {
                                     lane.store<std::uint64_t>(flag, 1);
                                   }
                                 }
                                 return step < 4 ? system::Step::busy() : system::Step::done();
                               }),
              cuda::success);
    EXPECT_EQ(rig.host->launch(rig.stream(),
                               [&, step = 0](Lane& lane) mutable {
                                 const auto first = lane.load<std::uint64_t>(flag);
                                 const auto second = lane.load<std::uint64_t>(data);
                                 seen.emplace(first, second);
                                 return ++step < 6 ? system::Step::busy() : system::Step::done();
                               }),
              cuda::success);
    EXPECT_EQ(rig.api->ctx_synchronize(), cuda::success);
  }
  return seen;
}

TEST(StoreBuffer, AFlagWithoutReleaseOutrunsItsPayload) {
  EXPECT_EQ(message_passing(false).count({1, 0}), 1u) << "no seed shows the missing order";
}

TEST(StoreBuffer, AReleasedFlagNeverDoes) {
  const auto seen = message_passing(true);
  EXPECT_EQ(seen.count({1, 0}), 0u);
  EXPECT_EQ(seen.count({1, 1}), 1u);
  EXPECT_EQ(seen.count({0, 0}), 1u);
}

TEST(StoreBuffer, AKernelSeesItsOwnStoresAndOneAddressStaysInOrder) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CudaRig rig(bus_machine({}), {.deterministic = true, .seed = seed});
    rig.start();
    const DevicePointer at{rig.allocate(4096)};
    ASSERT_EQ(rig.host->launch(nullptr, kernel_once([&](Lane& lane) {
                                 for (std::uint64_t i = 1; i <= 100; ++i) {
                                   lane.store<std::uint64_t>(at.plus(8 * (i % 7)), i);
                                   if (i % 10 != 0) continue;
                                   EXPECT_EQ(lane.load<std::uint64_t>(at.plus(8 * (i % 7))), i);
                                 }
                               })),
              cuda::success);
    ASSERT_EQ(rig.api->ctx_synchronize(), cuda::success);
    const auto bytes = rig.inspect(at.value, 56);
    for (std::uint64_t slot = 0; slot < 7; ++slot) {
      std::uint64_t value = 0;
      std::memcpy(&value, bytes.data() + 8 * slot, 8);
      EXPECT_EQ(value % 7, slot);
      EXPECT_GT(value, 93u) << "an older store came last";
    }
  }
}

}  // namespace
}  // namespace nobounce::fabric
