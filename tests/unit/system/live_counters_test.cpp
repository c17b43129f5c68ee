// CPU time, and perf events found by the kernel's own descriptions.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "support/temporary_directory.hpp"
#include "system/live_files.hpp"
#include "system/live_host.hpp"
#include "system/perf_events.hpp"

namespace nobounce::system {
namespace {

/// A /sys with two memory controllers as Intel's uncore driver shows them.
class PerfDescriptions : public testing::Test {
 protected:
  PerfDescriptions() {
    for (const char* pmu : {"uncore_imc_0", "uncore_imc_1", "uncore_imc_free_running_0"}) {
      const std::string folder = std::string("sys/bus/event_source/devices/") + pmu + "/";
      put(folder + "type", std::string(pmu) == "uncore_imc_1" ? "15\n" : "14\n");
      put(folder + "cpumask", "0,28-29\n");
      put(folder + "format/event", "config:0-7\n");
      put(folder + "format/umask", "config:8-15\n");
      put(folder + "format/split", "config1:0-3,32-35\n");
      put(folder + "format/inv", "config2:23\n");
      put(folder + "events/cas_count_read", "event=0x04,umask=0x03\n");
      put(folder + "events/cas_count_read.scale", "6.103515625e-5\n");
    }
    put("sys/bus/event_source/devices/software/type", "1\n");
  }
  void put(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  test::TemporaryDirectory folder_;
  std::unique_ptr<Files> files_ = make_live_files(folder_.path().string());
};

TEST_F(PerfDescriptions, ReadTypeTermsScaleAndCpus) {
  const auto spec = perf_event_spec(*files_, "uncore_imc_1", "cas_count_read");
  ASSERT_TRUE(spec) << to_string(spec.error());
  EXPECT_EQ(spec->type, 15u);
  EXPECT_EQ(spec->config[0], 0x304u);
  EXPECT_DOUBLE_EQ(spec->scale, 6.103515625e-5);
  EXPECT_EQ(spec->cpus, (std::vector<int>{0, 28, 29}));
}

TEST_F(PerfDescriptions, SpreadBitsOverTheFieldOfATerm) {
  const auto spec = perf_event_spec(*files_, "uncore_imc_0", "split=0xa5,inv,config=0x1000");
  ASSERT_TRUE(spec) << to_string(spec.error());
  EXPECT_EQ(spec->config[1], (std::uint64_t{0xa} << 32) | 5u);
  EXPECT_EQ(spec->config[2], std::uint64_t{1} << 23);
  EXPECT_EQ(spec->config[0], 0x1000u);
}

TEST_F(PerfDescriptions, RefuseTermsThatDoNotFit) {
  for (const char* event : {"event=0x100", "unknown=1", "event=abc", "event=", "=1", "event=1,,"}) {
    if (std::string(event) == "event=") continue;  // read as the bare name: 1
    const auto spec = perf_event_spec(*files_, "uncore_imc_0", event);
    ASSERT_FALSE(spec) << event;
    EXPECT_EQ(spec.error().code, EINVAL) << event;
  }
  EXPECT_EQ(perf_event_spec(*files_, "uncore_imc_0", "no_such_event").error().code, ENOENT);
  EXPECT_EQ(perf_event_spec(*files_, "uncore_imc_0", "../type").error().code, EINVAL);
}

TEST_F(PerfDescriptions, FindAllPmusOfAKind) {
  const auto all = perf_pmus(*files_, "uncore_imc_*");
  ASSERT_TRUE(all);
  EXPECT_EQ(all->size(), 3u);
  EXPECT_EQ(*perf_pmus(*files_, "uncore_imc_0"), std::vector<std::string>{"uncore_imc_0"});
  EXPECT_EQ(perf_pmus(*files_, "uncore_imc").error().code, ENOENT);
  EXPECT_EQ(perf_pmus(*files_, "amd_df*").error().code, ENOENT);
  EXPECT_EQ(perf_pmus(*files_, "").error().code, EINVAL);
  EXPECT_EQ(perf_pmus(*files_, "../x").error().code, EINVAL);
}

TEST(LiveCounters, CountTheCpuTimeOfTheProcess) {
  const auto counters = make_live_counters();
  const auto before = counters->cpu_time_ns();
  ASSERT_TRUE(before);
  volatile std::uint64_t sum = 0;
  for (int step = 0; step < 20'000'000; ++step) sum = sum + static_cast<unsigned>(step);
  const auto after = counters->cpu_time_ns();
  ASSERT_TRUE(after);
  EXPECT_GT(*after, *before);
}

TEST(LiveCounters, ReadAPerfEventThatGoesOnOrSayWhyNot) {
  const auto counters = make_live_counters();
  const auto before = counters->perf_event("software", "config=1");  // task clock
  if (!before) {
    EXPECT_EQ(before.error().origin, ErrorOrigin::os);
    EXPECT_NE(before.error().code, 0);
    GTEST_SKIP() << to_string(before.error());
  }
  volatile std::uint64_t sum = 0;
  for (int step = 0; step < 1'000'000; ++step) sum = sum + static_cast<unsigned>(step);
  const auto after = counters->perf_event("software", "config=1");
  ASSERT_TRUE(after);
  EXPECT_GT(*after, *before) << "opened once: counting since the first call";
}

TEST(LiveCounters, AnswerAnErrorForEventsThatDoNotExist) {
  const auto counters = make_live_counters();
  for (int round = 0; round < 2; ++round) {
    const auto value = counters->perf_event("no_such_pmu_*", "reads");
    ASSERT_FALSE(value);
    EXPECT_EQ(value.error().origin, ErrorOrigin::os);
    EXPECT_EQ(value.error().code, ENOENT);
  }
}

}  // namespace
}  // namespace nobounce::system
