// Allocations of GPU memory: first fit, alignment, exhaustion, what is the driver's own.
#include "fabric/soft_gpu.hpp"

#include <gtest/gtest.h>

#include <map>

#include "bus_rig.hpp"

namespace nobounce::fabric {
namespace {

constexpr std::uint64_t mebibyte = 1u << 20;

class Allocations : public ::testing::Test {
 protected:
  std::unique_ptr<Bus> bus_ = make_bus(bus_machine());  // 1 GiB a GPU
  GpuAllocations allocations_{*bus_};
};

TEST_F(Allocations, SmallOnesShareASlabLargeOnesAreAligned) {
  const DevicePointer a = *allocations_.allocate(0, 1);
  const DevicePointer b = *allocations_.allocate(0, 1000);
  const DevicePointer c = *allocations_.allocate(0, 3 * mebibyte);
  EXPECT_EQ(a, bus_->vram_base(0));
  EXPECT_EQ(b, a.plus(512));
  EXPECT_EQ(c.value % (2 * mebibyte), 0u);
  EXPECT_EQ(allocations_.used_bytes(0), 2 * mebibyte + 4 * mebibyte);
  EXPECT_EQ(allocations_.used_bytes(1), 0u);
  EXPECT_EQ(bus_->gpu_of(*allocations_.allocate(1, 10)), 1u);
}

TEST_F(Allocations, AreFoundByAnyAddressInside) {
  const DevicePointer base = *allocations_.allocate(1, 1000);
  const auto found = allocations_.find(base.plus(999));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->base, base);
  EXPECT_EQ(found->length_bytes, 1000u);
  EXPECT_EQ(found->gpu, 1u);
  EXPECT_EQ(found->kind, AllocationKind::device);
  EXPECT_FALSE(allocations_.find(base.plus(1000)).has_value());
  EXPECT_FALSE(allocations_.find(DevicePointer{0}).has_value());
}

TEST_F(Allocations, FreeTakesBasesOnce) {
  const DevicePointer base = *allocations_.allocate(0, 5 * mebibyte);
  EXPECT_FALSE(allocations_.free(base.plus(512)));
  EXPECT_TRUE(allocations_.free(base));
  EXPECT_FALSE(allocations_.free(base));
  EXPECT_EQ(allocations_.used_bytes(0), 0u);
  EXPECT_EQ(*allocations_.allocate(0, 5 * mebibyte), base);
}

TEST_F(Allocations, RunOutExactly) {
  EXPECT_FALSE(allocations_.allocate(0, 1025 * mebibyte).has_value());
  EXPECT_FALSE(allocations_.allocate(0, UINT64_MAX).has_value());
  EXPECT_FALSE(allocations_.allocate(0, 0).has_value());
  EXPECT_FALSE(allocations_.allocate(9, 1).has_value());
  const DevicePointer all = *allocations_.allocate(0, 1024 * mebibyte);
  EXPECT_FALSE(allocations_.allocate(0, 1).has_value());
  EXPECT_TRUE(allocations_.free(all));
  EXPECT_TRUE(allocations_.allocate(0, 1).has_value());
}

TEST_F(Allocations, InternalOnesAreMarkedForTheLedger) {
  const DevicePointer own = *allocations_.allocate(0, mebibyte, true);
  const DevicePointer user = *allocations_.allocate(0, mebibyte);
  EXPECT_TRUE(allocations_.find(own)->internal);
  EXPECT_TRUE(bus_->extent_of(End::of(own.plus(mebibyte - 1))).internal);
  EXPECT_FALSE(bus_->extent_of(End::of(user)).internal);
  EXPECT_TRUE(allocations_.free(own));
  EXPECT_FALSE(bus_->extent_of(End::of(own)).internal);
}

TEST_F(Allocations, FreeAllSparesTheDriversOwn) {
  const DevicePointer own = *allocations_.allocate(0, mebibyte, true);
  const DevicePointer user = *allocations_.allocate(0, mebibyte);
  const DevicePointer other = *allocations_.allocate(1, mebibyte);
  allocations_.free_all(0);
  EXPECT_TRUE(allocations_.find(own).has_value());
  EXPECT_FALSE(allocations_.find(user).has_value());
  EXPECT_TRUE(allocations_.find(other).has_value());
}

TEST_F(Allocations, NeverOverlap) {
  SoftRandom random(3);
  std::map<std::uint64_t, std::uint64_t> live;
  for (int i = 0; i < 3000; ++i) {
    if (!live.empty() && random.below(3) == 0) {
      auto victim = live.begin();
      std::advance(victim, static_cast<long>(random.below(live.size())));
      ASSERT_TRUE(allocations_.free(DevicePointer{victim->first}));
      live.erase(victim);
      continue;
    }
    const std::uint64_t length = 1 + random.below(random.below(4) == 0 ? 20 * mebibyte : 100000);
    const auto base = allocations_.allocate(0, length);
    if (!base) continue;
    EXPECT_EQ(base->value % (length >= mebibyte ? 2 * mebibyte : 512), 0u);
    const auto next = live.lower_bound(base->value);
    if (next != live.end()) {
      ASSERT_LE(base->value + length, next->first);
    }
    if (next != live.begin()) {
      ASSERT_LE(std::prev(next)->first + std::prev(next)->second, base->value);
    }
    live[base->value] = length;
  }
  for (const auto& [base, length] : live) EXPECT_TRUE(allocations_.free(DevicePointer{base}));
  EXPECT_EQ(allocations_.used_bytes(0), 0u);
}

TEST_F(Allocations, HostRangesDoNotOverlap) {
  std::vector<std::byte> memory(10000);
  std::byte* base = memory.data();
  EXPECT_TRUE(allocations_.add_host(base + 1000, 1000, AllocationKind::host_pinned));
  EXPECT_FALSE(allocations_.add_host(base + 1999, 1, AllocationKind::host_pinned));
  EXPECT_FALSE(allocations_.add_host(base, 1001, AllocationKind::host_pinned));
  EXPECT_TRUE(allocations_.add_host(base, 1000, AllocationKind::managed));
  EXPECT_TRUE(allocations_.add_host(base + 2000, 1000, AllocationKind::host_pinned));
  EXPECT_EQ(allocations_.find_host(base + 999)->kind, AllocationKind::managed);
  EXPECT_FALSE(allocations_.find_host(base + 3000).has_value());
  EXPECT_FALSE(allocations_.remove_host(base + 1));
  EXPECT_TRUE(allocations_.remove_host(base));
  EXPECT_FALSE(allocations_.find_host(base).has_value());
}

}  // namespace
}  // namespace nobounce::fabric
