// Counters of a software machine: memory controllers agree with the bus ledger, CPU time is the
// real process's.
#include "fabric/soft_counters.hpp"
#include "machine_rig.hpp"

namespace nobounce::fabric {
namespace {

class CountersTest : public ::testing::Test {
 protected:
  static std::unique_ptr<system::Counters> counters_of(MachineRig& rig) {
    return make_soft_counters(*rig.bus, rig.machine, system::make_live_counters());
  }
};

TEST_F(CountersTest, MemoryControllersCountFromTheirFirstReadingInMebibytes) {
  MachineRig rig(built_in("two-socket"));
  const auto counters = counters_of(rig);
  const Result<DramBuffer> source = rig.bus->allocate_dram(0, 8u << 20, DramUse::user);
  const Result<DramBuffer> target = rig.bus->allocate_dram(1, 8u << 20, DramUse::user);
  ASSERT_TRUE(source.ok() && target.ok());
  const auto copy = [&] {
    ASSERT_TRUE(rig.bus->cpu_copy(target->address, source->address, 8u << 20).ok());
  };
  copy();  // before the first reading: not counted
  EXPECT_EQ(*counters->perf_event("uncore_imc_0", "cas_count_read"), 0);
  EXPECT_EQ(*counters->perf_event("uncore_imc_1", "cas_count_write"), 0);
  copy();
  EXPECT_EQ(*counters->perf_event("uncore_imc_0", "cas_count_read"), 8);
  EXPECT_EQ(*counters->perf_event("uncore_imc_1", "cas_count_write"), 8);
  EXPECT_EQ(*counters->perf_event("uncore_imc_0", "cas_count_write"), 0);
  rig.bus->free_dram(*source);
  rig.bus->free_dram(*target);
}

TEST_F(CountersTest, WhatIsNotThereIsAnError) {
  MachineRig rig(built_in("workstation"));
  const auto counters = counters_of(rig);
  EXPECT_EQ(counters->perf_event("uncore_imc_1", "cas_count_read").error().code, ENOENT);
  EXPECT_EQ(counters->perf_event("uncore_imc_0", "other").error().code, ENOENT);
  EXPECT_EQ(counters->perf_event("", "cas_count_read").error().code, ENOENT);
  MachineRig guest(built_in("cloud-guest"));
  EXPECT_EQ(counters_of(guest)->perf_event("uncore_imc_0", "cas_count_read").error().code, ENOENT);
}

TEST_F(CountersTest, CpuTimeIsTheProcesses) {
  MachineRig rig(built_in("workstation"));
  const auto counters = counters_of(rig);
  const std::uint64_t before = *counters->cpu_time_ns();
  EXPECT_GT(before, 0u);
  EXPECT_GE(*counters->cpu_time_ns(), before);
}

}  // namespace
}  // namespace nobounce::fabric
