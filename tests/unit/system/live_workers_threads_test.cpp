// Workers on threads: stepping, idling, waking, stopping, and waits that nobody can miss.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "system/live_host.hpp"

namespace nobounce::system {
namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;

class StepWorker : public Worker {
 public:
  explicit StepWorker(std::function<Step()> body) : body_(std::move(body)) {}
  Step step() override {
    ++steps;
    return body_();
  }
  std::atomic<int> steps{0};

 private:
  std::function<Step()> body_;
};

class LiveWorkers : public testing::Test {
 protected:
  /// Generous: reached only where something hangs.
  bool eventually(core::FunctionRef<bool()> ready) {
    return workers_->wait(ready, clock_->now_ns() + 60 * second_ns);
  }
  std::unique_ptr<Clock> clock_ = make_live_clock();
  std::unique_ptr<Workers> workers_ = make_threaded_workers(*clock_);
};

TEST_F(LiveWorkers, StepABusyWorkerUntilItIsDone) {
  std::atomic<int> left{1000};
  StepWorker worker([&] { return --left == 0 ? Step::done() : Step::busy(); });
  const auto id = workers_->start(worker, "a name longer than fifteen characters");
  ASSERT_TRUE(id) << to_string(id.error());
  EXPECT_TRUE(eventually([&] { return left.load() == 0; }));
  workers_->stop(*id);
  EXPECT_EQ(worker.steps.load(), 1000);
}

TEST_F(LiveWorkers, LeaveAnIdleWorkerAloneUntilItIsWoken) {
  StepWorker worker([] { return Step::idle(); });
  const auto id = workers_->start(worker, "idle");
  ASSERT_TRUE(id);
  ASSERT_TRUE(eventually([&] { return worker.steps.load() == 1; }));
  EXPECT_FALSE(
      workers_->wait([&] { return worker.steps.load() > 1; }, clock_->now_ns() + second_ns / 50));
  for (int round = 2; round < 200; ++round) {
    workers_->wake(*id);
    ASSERT_TRUE(eventually([&] { return worker.steps.load() >= round; }));
  }
  workers_->stop(*id);
}

TEST_F(LiveWorkers, StepAnIdleWorkerAgainWhenItsTimeHasCome) {
  StepWorker worker([this] { return Step::idle_until(clock_->now_ns() + second_ns / 1000); });
  const auto id = workers_->start(worker, "timer");
  ASSERT_TRUE(id);
  EXPECT_TRUE(eventually([&] { return worker.steps.load() >= 5; }));
  workers_->stop(*id);
}

TEST_F(LiveWorkers, DoNotLoseAWakeThatComesDuringAStep) {
  std::atomic<bool> in_step{false};
  std::atomic<bool> go_on{false};
  StepWorker worker([&] {
    in_step = true;
    while (!go_on.load()) std::this_thread::yield();
    return Step::idle();
  });
  const auto id = workers_->start(worker, "slow");
  ASSERT_TRUE(id);
  ASSERT_TRUE(eventually([&] { return in_step.load(); }));
  workers_->wake(*id);
  go_on = true;
  EXPECT_TRUE(eventually([&] { return worker.steps.load() >= 2; }));
  workers_->stop(*id);
}

TEST_F(LiveWorkers, NeverStepAWorkerAfterStopReturned) {
  for (int round = 0; round < 50; ++round) {
    auto worker = std::make_unique<StepWorker>([] { return Step::busy(); });
    const auto id = workers_->start(*worker, "busy");
    ASSERT_TRUE(id);
    workers_->stop(*id);
    const int steps = worker->steps.load();
    workers_->wake(*id);  // late: nobody sits there any more
    EXPECT_EQ(worker->steps.load(), steps);
    worker.reset();  // the sanitizers would see a step on it
  }
}

TEST_F(LiveWorkers, StopAtOnceFromSeveralThreadsAndAgain) {
  StepWorker worker([] { return Step::idle(); });
  const auto id = workers_->start(worker, "shared");
  ASSERT_TRUE(id);
  std::vector<std::thread> stoppers;
  for (int index = 0; index < 4; ++index) {
    stoppers.emplace_back([&] {
      workers_->stop(*id);
      const int steps = worker.steps.load();
      EXPECT_EQ(worker.steps.load(), steps);
    });
  }
  for (std::thread& stopper : stoppers) stopper.join();
  workers_->stop(*id);
  workers_->stop(0);
  workers_->stop(987'654'321);
}

TEST_F(LiveWorkers, AreStoppedWhenTheyAreDestroyed) {
  StepWorker worker([] { return Step::idle(); });
  ASSERT_TRUE(workers_->start(worker, "forgotten"));
  workers_.reset();
}

TEST_F(LiveWorkers, MayWakeOneAnotherAndThemselvesFromAStep) {
  std::atomic<WorkerId> ids[2] = {0, 0};
  const auto body = [&](int other) {
    return [this, &ids, other] {
      workers_->wake(ids[other].load());
      return Step::idle();
    };
  };
  StepWorker first(body(1));
  StepWorker second(body(0));
  ids[0] = *workers_->start(first, "first");
  ids[1] = *workers_->start(second, "second");
  workers_->wake(ids[0].load());
  EXPECT_TRUE(eventually([&] { return first.steps.load() > 200 && second.steps.load() > 200; }));
  workers_->stop(ids[0].load());
  workers_->stop(ids[1].load());
}

TEST_F(LiveWorkers, RefuseMoreThanTheyHaveRoomForAndRecover) {
  std::vector<std::unique_ptr<StepWorker>> crowd;
  std::vector<WorkerId> ids;
  for (int index = 0; index < 64; ++index) {
    crowd.push_back(std::make_unique<StepWorker>([] { return Step::idle(); }));
    const auto id = workers_->start(*crowd.back(), "crowd");
    ASSERT_TRUE(id);
    ids.push_back(*id);
  }
  for (const WorkerId id : ids) workers_->wake(id);
  for (const WorkerId id : ids) workers_->stop(id);
  StepWorker last([] { return Step::done(); });
  const auto id = workers_->start(last, "last");
  ASSERT_TRUE(id);
  for (const WorkerId old : ids) EXPECT_NE(old, *id) << "a taken seat has a new number";
  workers_->stop(*id);
}

TEST_F(LiveWorkers, WaitAnswersAtOnceWhenReadyEvenAfterTheDeadline) {
  EXPECT_TRUE(workers_->wait([] { return true; }, 1));
  EXPECT_FALSE(workers_->wait([] { return false; }, 1));
}

TEST_F(LiveWorkers, WaitEndsAtItsDeadline) {
  const std::uint64_t deadline_ns = clock_->now_ns() + second_ns / 100;
  EXPECT_FALSE(workers_->wait([] { return false; }, deadline_ns));
  EXPECT_GE(clock_->now_ns(), deadline_ns);
}

TEST_F(LiveWorkers, WaitCloselyEndsAtItsDeadlineInEitherPhase) {
  for (const std::uint64_t closely_ns : {std::uint64_t{0}, second_ns}) {
    const std::uint64_t deadline_ns = clock_->now_ns() + second_ns / 100;
    EXPECT_FALSE(workers_->wait_closely([] { return false; }, deadline_ns, closely_ns));
    EXPECT_GE(clock_->now_ns(), deadline_ns);
    EXPECT_TRUE(workers_->wait_closely([] { return true; }, deadline_ns, closely_ns));
  }
}

TEST_F(LiveWorkers, WaitCloselySeesWhatNobodyTells) {
  for (const std::uint64_t closely_ns : {std::uint64_t{0}, 60 * second_ns}) {
    std::atomic<bool> happened{false};
    std::thread other([&] { happened = true; });
    EXPECT_TRUE(workers_->wait_closely([&] { return happened.load(); },
                                       clock_->now_ns() + 60 * second_ns, closely_ns));
    other.join();
  }
}

TEST_F(LiveWorkers, WaitersSeeWhatHappensWithAndWithoutNotice) {
  for (const bool notify : {true, false}) {
    std::atomic<bool> ready{false};
    std::atomic<int> looks{0};
    std::vector<std::thread> waiters;
    std::atomic<int> satisfied{0};
    for (int index = 0; index < 4; ++index) {
      waiters.emplace_back([&] {
        if (workers_->wait(
                [&] {
                  ++looks;
                  return ready.load();
                },
                0)) {
          ++satisfied;
        }
      });
    }
    while (looks.load() < 1000) std::this_thread::yield();
    ready = true;
    if (notify) workers_->notify();
    for (std::thread& waiter : waiters) waiter.join();
    EXPECT_EQ(satisfied.load(), 4);
  }
}

TEST_F(LiveWorkers, HandWorkFromOneToTheOtherWithoutLosingAny) {
  constexpr int items = 20'000;
  std::atomic<int> made{0};
  std::atomic<int> used{0};
  StepWorker consumer([&] {
    if (used.load() < made.load()) {
      if (++used == items) {
        workers_->notify();
        return Step::done();
      }
      return Step::busy();
    }
    return Step::idle();  // no time limit: a lost wake would hang here
  });
  const auto consuming = workers_->start(consumer, "consumer");
  ASSERT_TRUE(consuming);
  StepWorker producer([&] {
    const bool last = ++made == items;
    workers_->wake(*consuming);
    return last ? Step::done() : Step::busy();
  });
  const auto producing = workers_->start(producer, "producer");
  ASSERT_TRUE(producing);
  EXPECT_TRUE(eventually([&] { return used.load() == items; }));
  workers_->stop(*producing);
  workers_->stop(*consuming);
}

TEST_F(LiveWorkers, RunAsManyAtOnceAsThereAreCpusForUs) {
  EXPECT_GE(workers_->concurrency(), 1u);
}

TEST(LiveEnvironmentWithThreads, RefusesToSetWhileASecondThreadRuns) {
  const auto host = make_live_host();
  std::atomic<bool> go_home{false};
  std::thread second([&] {
    while (!go_home.load()) std::this_thread::yield();
  });
  const Status set = host->environment().set("NOBOUNCE_TEST_THREADS", "1");
  go_home = true;
  second.join();
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().origin, ErrorOrigin::session);
  EXPECT_NE(set.error().detail.find("threads"), std::string::npos);
  EXPECT_FALSE(remedy_of(set.error()).empty());
  EXPECT_FALSE(host->environment().get("NOBOUNCE_TEST_THREADS").has_value());
}

TEST(LiveTablesWithThreads, AreLoadedOnceByManyAtOnce) {
  const auto host = make_live_host({.cuda_library = "libnobounce-no-cuda.so.1"});
  std::vector<std::thread> callers;
  std::atomic<int> named{0};
  for (int index = 0; index < 8; ++index) {
    callers.emplace_back([&] {
      const auto table = host->cuda();
      if (!table && table.error().detail.find("no-cuda") != std::string::npos) ++named;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(named.load(), 8);
}

}  // namespace
}  // namespace nobounce::system
