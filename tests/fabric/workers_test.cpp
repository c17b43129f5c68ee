// Deterministic workers: seeded order, a virtual clock, engines inside steps, and a hang that says
// who hangs.
#include "fabric/soft_workers.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace nobounce::fabric {
namespace {

using system::Step;
using system::WorkerId;

class FunctionWorker final : public system::Worker {
 public:
  explicit FunctionWorker(std::function<Step()> step) : step_(std::move(step)) {}
  Step step() override { return step_(); }

 private:
  std::function<Step()> step_;
};

const auto never = [] { return false; };

std::string order_of(std::uint64_t seed) {
  SoftClock clock;
  const auto workers = make_deterministic_workers(clock, seed);
  std::string order;
  FunctionWorker a([&] { return order += 'a', Step::busy(); });
  FunctionWorker b([&] { return order += 'b', Step::busy(); });
  FunctionWorker c([&] { return order += 'c', Step::busy(); });
  EXPECT_TRUE(workers->start(a, "a").ok());
  EXPECT_TRUE(workers->start(b, "b").ok());
  (void)workers->start_engine(c, "c");
  EXPECT_TRUE(workers->wait([&] { return order.size() >= 60; }, 0));
  return order;
}

TEST(DeterministicWorkers, TheSeedAloneGivesTheOrder) {
  EXPECT_EQ(order_of(1), order_of(1));
  EXPECT_NE(order_of(1), order_of(2));
  for (const char name : {'a', 'b', 'c'}) EXPECT_NE(order_of(3).find(name), std::string::npos);
}

TEST(DeterministicWorkers, WhoPollsLetsThemStepAndTimePass) {
  SoftClock clock;
  const auto workers = make_deterministic_workers(clock, 1);
  int steps = 0;
  FunctionWorker worker([&] { return ++steps, Step::idle_until(clock.now_ns() + 5000); });
  const Result<WorkerId> id = workers->start(worker, "w");
  ASSERT_TRUE(id.ok());
  workers->give_way();
  EXPECT_EQ(steps, 1);
  const std::uint64_t before_ns = clock.now_ns();
  workers->give_way();  // nobody is due: time passes until somebody is
  workers->give_way();
  EXPECT_EQ(steps, 2);
  EXPECT_GE(clock.now_ns(), before_ns + 5000);
  workers->stop(*id);
  workers->give_way();  // and with nobody there it returns
}

TEST(DeterministicWorkers, IdleOnesStepWhenWokenOnly) {
  SoftClock clock;
  const auto workers = make_deterministic_workers(clock, 1);
  int steps = 0;
  FunctionWorker worker([&] { return ++steps, Step::idle(); });
  const Result<WorkerId> id = workers->start(worker, "w");
  ASSERT_TRUE(id.ok());
  EXPECT_FALSE(workers->wait(never, clock.now_ns() + 1000));
  EXPECT_EQ(steps, 1);
  workers->wake(*id);
  EXPECT_FALSE(workers->wait(never, clock.now_ns() + 1000));
  EXPECT_EQ(steps, 2);
  workers->stop(*id);
  workers->wake(*id);
  EXPECT_FALSE(workers->wait(never, clock.now_ns() + 1000));
  EXPECT_EQ(steps, 2);
}

TEST(DeterministicWorkers, AWakeDuringTheStepIsNotLost) {
  SoftClock clock;
  const auto workers = make_deterministic_workers(clock, 1);
  int steps = 0;
  WorkerId id = 0;
  FunctionWorker worker([&] {
    if (++steps == 2) workers->wake(id);
    return Step::idle();
  });
  id = *workers->start(worker, "w");
  workers->wake(id);
  EXPECT_FALSE(workers->wait(never, clock.now_ns() + 1000));
  workers->wake(id);
  EXPECT_FALSE(workers->wait(never, clock.now_ns() + 1000));
  EXPECT_EQ(steps, 3);
}

TEST(DeterministicWorkers, IdleTimeIsJumpedOver) {
  SoftClock clock;
  const auto workers = make_deterministic_workers(clock, 1);
  const std::uint64_t hour_ns = 3'600'000'000'000;
  const std::uint64_t due_ns = clock.now_ns() + hour_ns;
  bool rang = false;
  FunctionWorker worker([&] {
    rang = clock.now_ns() >= due_ns;
    return rang ? Step::done() : Step::idle_until(due_ns);
  });
  ASSERT_TRUE(workers->start(worker, "timer").ok());
  EXPECT_TRUE(workers->wait([&] { return rang; }, 0));
  EXPECT_GE(clock.now_ns(), due_ns);
  EXPECT_LT(clock.now_ns(), due_ns + 10000);
}

TEST(DeterministicWorkers, PollingReachesItsDeadline) {
  SoftClock clock;
  const auto workers = make_deterministic_workers(clock, 1);
  FunctionWorker worker([] { return Step::busy(); });
  ASSERT_TRUE(workers->start(worker, "poller").ok());
  const std::uint64_t deadline_ns = clock.now_ns() + 100'000;
  EXPECT_FALSE(workers->wait(never, deadline_ns));
  EXPECT_GE(clock.now_ns(), deadline_ns);
}

TEST(DeterministicWorkers, InsideAStepOnlyEnginesRun) {
  SoftClock clock;
  const auto workers = make_deterministic_workers(clock, 1);
  int others = 0;
  int engine_steps = 0;
  int others_inside = -1;
  FunctionWorker other([&] { return ++others, Step::busy(); });
  FunctionWorker engine([&] { return ++engine_steps, Step::busy(); });
  FunctionWorker waiting([&] {
    const int before = others;
    const int engines_before = engine_steps;
    workers->wait_for_engines([&] { return engine_steps >= engines_before + 5; }, "the engine");
    EXPECT_TRUE(workers->wait([&] { return engine_steps >= engines_before + 10; }, 0));
    others_inside = others - before;
    return Step::done();
  });
  ASSERT_TRUE(workers->start(other, "other").ok());
  (void)workers->start_engine(engine, "engine");
  ASSERT_TRUE(workers->start(waiting, "waiting").ok());
  EXPECT_TRUE(workers->wait([&] { return others_inside >= 0; }, 0));
  EXPECT_EQ(others_inside, 0);
}

TEST(DeterministicWorkers, RunOneAtATime) {
  SoftClock clock;
  EXPECT_EQ(make_deterministic_workers(clock, 1)->concurrency(), 1u);
}

TEST(DeterministicWorkersDeathTest, AHangNamesWhoWaits) {
  SoftClock clock;
  const auto workers = make_deterministic_workers(clock, 1);
  FunctionWorker worker([] { return Step::idle(); });
  ASSERT_TRUE(workers->start(worker, "reader-3").ok());
  EXPECT_DEATH((void)workers->wait(never, 0), "nothing can make progress.*reader-3");
  EXPECT_DEATH(workers->wait_for_engines(never, "a stream of gpu:0"), "a stream of gpu:0");
}

}  // namespace
}  // namespace nobounce::fabric
