// A FaultyHost used by several threads fails exactly one call.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "system/faulty_host.hpp"
#include "system/live_host.hpp"

namespace nobounce::system {
namespace {

TEST(FaultsWithThreads, HitExactlyOneCallOfMany) {
  const auto inner = make_live_host();
  FaultPlan plan;
  plan.fail_call = 100;
  plan.only = "counters.";
  const auto host = FaultyHost::wrap(*inner, plan);
  std::atomic<int> failures{0};
  std::vector<std::thread> callers;
  for (int index = 0; index < 4; ++index) {
    callers.emplace_back([&] {
      for (int call = 0; call < 100; ++call) {
        if (!host->counters().cpu_time_ns()) ++failures;
        if (!host->failed_call().empty() && host->failed_call() != "counters.cpu_time_ns") {
          ++failures;
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(failures.load(), 1);
  EXPECT_EQ(host->calls(), 400u);
}

}  // namespace
}  // namespace nobounce::system
