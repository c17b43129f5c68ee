// Link counters: 32-bit numbers made whole, gaps that void them, and what each pair's links carry.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "evidence/witness.hpp"
#include "support/around_host.hpp"
#include "support/soft_session.hpp"

namespace nobounce {
namespace {

using evidence::LinkCounters;
using evidence::WitnessKind;
using evidence::WitnessValue;

constexpr std::uint64_t millisecond_ns = 1'000'000;

/// Answers what a test sets.
class ScriptedNvml : public system::Nvml {
 public:
  std::map<unsigned, std::uint64_t> fields;
  int inits = 0;
  int shutdowns = 0;
  std::vector<unsigned> asked_scopes;

  nvmlReturn_t init() override {
    ++inits;
    return system::nvml::success;
  }
  nvmlReturn_t shutdown() override {
    ++shutdowns;
    return system::nvml::success;
  }
  nvmlReturn_t device_get_handle_by_index(unsigned, nvmlDevice_t*) override {
    return system::nvml::success;
  }
  nvmlReturn_t device_get_field_values(nvmlDevice_t, int count, nvmlFieldValue_t* values) override {
    for (int i = 0; i < count; ++i) {
      asked_scopes.push_back(values[i].scopeId);
      const auto found = fields.find(values[i].fieldId);
      values[i].nvmlReturn =
          found == fields.end() ? system::nvml::error_not_supported : system::nvml::success;
      if (found != fields.end()) values[i].value.ullVal = found->second;
    }
    return system::nvml::success;
  }
};

class SetClock : public system::Clock {
 public:
  std::uint64_t time_ns = millisecond_ns;
  std::uint64_t now_ns() override { return time_ns; }
};

/// Starts nobody, so that only the test reads.
class NoWorkers : public system::Workers {
 public:
  Result<system::WorkerId> start(system::Worker&, std::string_view) override {
    return os_error(EAGAIN, "start a worker");
  }
  void wake(system::WorkerId) override {}
  void stop(system::WorkerId) override {}
  bool wait(core::FunctionRef<bool()> ready, std::uint64_t) override { return ready(); }
  void notify() override {}
  unsigned concurrency() const override { return 1; }
};

class LiveLookingHost : public support::AroundHost {
 public:
  using AroundHost::AroundHost;
  ScriptedNvml scripted;
  SetClock set_clock;
  NoWorkers no_workers;

  HostKind kind() const override { return HostKind::live; }
  Result<system::Nvml*> nvml() override { return static_cast<system::Nvml*>(&scripted); }
  system::Clock& clock() override { return set_clock; }
  system::Workers& workers() override { return no_workers; }
};

class LinkCounterTest : public ::testing::Test {
 protected:
  void set_pcie(std::uint64_t sent, std::uint64_t received) {
    host_.scripted.fields[system::nvml::field_pcie_count_tx_bytes] = sent;
    host_.scripted.fields[system::nvml::field_pcie_count_rx_bytes] = received;
  }
  test::SoftSession soft_{test::machine_with("workstation")};
  LiveLookingHost host_{soft_.host()};
};

TEST_F(LinkCounterTest, UnwrapThirtyTwoBits) {
  set_pcie(0xfffffff0, 0);
  LinkCounters counters(host_);
  counters.watch({0});
  const WitnessValue before = counters.pcie_bytes();
  host_.set_clock.time_ns += 10 * millisecond_ns;
  set_pcie(0x10, 100);
  const WitnessValue moved = evidence::moved(before, counters.pcie_bytes());
  ASSERT_TRUE(moved.value.has_value()) << moved.detail;
  EXPECT_EQ(*moved.value, 0x20 + 100);
}

TEST_F(LinkCounterTest, AreVoidAcrossAGapInWhichTheyMayHaveWrappedTwice) {
  set_pcie(0, 0);
  LinkCounters counters(host_);
  counters.watch({0});
  const WitnessValue before = counters.pcie_bytes();
  host_.set_clock.time_ns += 61 * millisecond_ns;
  set_pcie(5, 5);
  const WitnessValue after = counters.pcie_bytes();
  EXPECT_EQ(evidence::moved(before, after).unreadable, Cause::evidence_gpu_counters_gap);
  // What comes after the gap can be compared again.
  host_.set_clock.time_ns += 10 * millisecond_ns;
  set_pcie(7, 5);
  const WitnessValue moved = evidence::moved(after, counters.pcie_bytes());
  ASSERT_TRUE(moved.value.has_value());
  EXPECT_EQ(*moved.value, 2);
}

TEST_F(LinkCounterTest, ASampleInBetweenClosesTheGap) {
  set_pcie(0, 0);
  LinkCounters counters(host_);
  counters.watch({0});
  const WitnessValue before = counters.pcie_bytes();
  for (std::uint64_t i = 1; i <= 4; ++i) {
    host_.set_clock.time_ns += 40 * millisecond_ns;
    set_pcie((i * 0xc0000000) & 0xffffffff, 0);
    const system::Step step = counters.step();
    EXPECT_EQ(step.kind, system::Step::Kind::idle);
    EXPECT_EQ(step.until_ns, host_.set_clock.time_ns + 15 * millisecond_ns);
  }
  const WitnessValue moved = evidence::moved(before, counters.pcie_bytes());
  ASSERT_TRUE(moved.value.has_value());
  EXPECT_EQ(*moved.value, 4.0 * 0xc0000000);
}

TEST_F(LinkCounterTest, ThatAreNotSupportedSayWhich) {
  LinkCounters counters(host_);
  counters.watch({0});
  const WitnessValue value = counters.nvlink_bytes();
  EXPECT_EQ(value.unreadable, Cause::evidence_gpu_counters_unreadable);
  EXPECT_NE(value.detail.find("field 138 of gpu:0"), std::string::npos) << value.detail;
}

TEST_F(LinkCounterTest, OfNvlinkAreThoseOfAllLinks) {
  host_.scripted.fields[system::nvml::field_nvlink_throughput_data_tx] = 3;
  LinkCounters counters(host_);
  counters.watch({0, 1});
  host_.scripted.asked_scopes.clear();
  EXPECT_EQ(counters.nvlink_bytes().value, std::optional<double>(2 * 3 * 1024.0));
  EXPECT_EQ(host_.scripted.asked_scopes, std::vector<unsigned>(2, system::nvml::scope_all_links));
}

TEST_F(LinkCounterTest, OpenNvmlOnceAndCloseIt) {
  set_pcie(0, 0);
  {
    LinkCounters counters(host_);
    counters.watch({0});
    (void)counters.pcie_bytes();
    counters.watch({0, 1});
    (void)counters.pcie_bytes();
  }
  EXPECT_EQ(host_.scripted.inits, 1);
  EXPECT_EQ(host_.scripted.shutdowns, 1);
}

TEST(LinkCountersOfASoftwareMachine, SeeANvlinkCopyOnNvlinkAndItsStagedTwinOnPcie) {
  test::SoftSession soft(test::machine_with("dgx"));
  evidence::Witnesses witnesses(soft.host(), nullptr);
  constexpr std::uint64_t bytes = 1 << 20;
  Result<Region> source = soft->allocate(0, bytes);
  Result<Region> target = soft->allocate(1, bytes);
  ASSERT_TRUE(source.ok() && target.ok());
  ASSERT_TRUE(soft->fill_pattern(source->place(), 1).ok());
  (void)soft->transfer(source->place(), target->place());  // the probe belongs to no reading
  witnesses.watch({0, 1});
  for (const Policy policy : {Policy::direct_required, Policy::staged_only}) {
    const evidence::WitnessReading before = witnesses.read();
    ASSERT_TRUE(soft->transfer(source->place(), target->place(), {.policy = policy}).ok());
    const evidence::WitnessReading after = witnesses.read();
    const auto moved = [&](WitnessKind kind) {
      return evidence::moved(before.of(kind), after.of(kind)).value.value_or(-1);
    };
    const bool staged = policy == Policy::staged_only;
    EXPECT_EQ(moved(WitnessKind::gpu_nvlink), staged ? 0 : bytes);
    EXPECT_EQ(moved(WitnessKind::gpu_pcie), staged ? 2 * bytes : 0);
  }
}

TEST(WitnessTable, SaysWhatEachCanTellApart) {
  using evidence::separates;
  EXPECT_TRUE(separates(WitnessKind::gpu_nvlink, Member::p2p, Link::nvlink));
  EXPECT_FALSE(separates(WitnessKind::gpu_nvlink, Member::p2p, Link::pcie_switch));
  EXPECT_FALSE(separates(WitnessKind::gpu_pcie, Member::storage, Link::pcie_switch));
  EXPECT_TRUE(separates(WitnessKind::host_dram, Member::storage, Link::host_bridge));
  for (const WitnessKind kind : {WitnessKind::cpu_time, WitnessKind::nvidia_fs, WitnessKind::cufile,
                                 WitnessKind::host_copies}) {
    EXPECT_FALSE(separates(kind, Member::p2p, Link::nvlink)) << to_string(kind);
    EXPECT_FALSE(separates(kind, Member::storage, Link::pcie_switch)) << to_string(kind);
  }
}

}  // namespace
}  // namespace nobounce
