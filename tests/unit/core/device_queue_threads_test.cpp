// The device queue between threads, with narrow tickets that wrap all the time, and between the
// lanes of an emulated warp.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <nobounce/device/queue.hpp>
#include "support/queue_rig.hpp"

namespace nobounce::device {
namespace {

using support::far_ahead;
using support::QueueRig;
using support::read_of;

/// A pause that lets the other side run, where there are fewer CPUs than threads.
struct YieldingPlatform : NativePlatform {
  void pause() const { std::this_thread::yield(); }
};

template <typename Ticket>
class ThreadedQueue : public testing::Test {};
using TicketTypes = testing::Types<std::uint8_t, std::uint64_t>;
TYPED_TEST_SUITE(ThreadedQueue, TicketTypes);

/// Producers that wait for each of their requests; the consumer answers with bytes and a code.
template <typename Ticket>
void run_round_trips(std::uint32_t size_log2, std::uint32_t producers, std::uint64_t rounds) {
  QueueRig<Ticket> rig(size_log2, producers);
  QueueMemory<YieldingPlatform, Ticket> memory;
  memory.head = rig.memory().head;
  memory.tail_seen = rig.memory().tail_seen;
  memory.abandoned = rig.memory().abandoned;
  memory.slots = rig.memory().slots;
  memory.tail = rig.memory().tail;
  memory.state = rig.memory().state;
  memory.completions = rig.memory().completions;
  memory.size_log2 = size_log2;
  YieldingPlatform platform;
  platform.host_clock = &support::test_clock_ns;
  std::vector<std::uint64_t> asked(producers);   // plain: published by the request
  std::vector<std::uint64_t> answer(producers);  // plain: published by the completion
  std::atomic<bool> stop{false};
  std::thread server([&] {
    Consumer<YieldingPlatform, Ticket> consumer(platform, memory);
    Request request;
    while (!stop) {
      if (!consumer.front(request)) {
        platform.pause();
        continue;
      }
      answer[request.token] = asked[request.token] + request.offset_bytes;
      consumer.complete(request.token, request.sequence,
                        request.sequence % 7 == 0 ? code_bad_range : code_ok);
      consumer.release_front();
    }
  });
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint32_t token = 0; token < producers; ++token) {
    threads.emplace_back([&, token] {
      Producer<YieldingPlatform, Ticket> producer(platform, memory);
      for (std::uint64_t i = 1; i <= rounds; ++i) {
        asked[token] = i * 1000;
        Request request = read_of(token, i, i);
        request.operation = Operation::write;  // publishes
        std::uint16_t code = 0;
        const bool sent = producer.submit(request, far_ahead()) == Result::ok;
        Result result = Result::pending;
        while (sent && result == Result::pending) {
          result = producer.poll(token, i, code);
          if (result == Result::pending) platform.pause();
        }
        const Result expected = i % 7 == 0 ? Result::error : Result::ok;
        if (!sent || result != expected || answer[token] != i * 1001) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  server.join();
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(static_cast<Ticket>(producers * rounds), rig.head());
}

TYPED_TEST(ThreadedQueue, EachProducerGetsItsOwnAnswers) {
  run_round_trips<TypeParam>(2, 3, 2000);
}
TYPED_TEST(ThreadedQueue, MoreProducersThanSlots) {
  run_round_trips<TypeParam>(1, 5, 1000);
}

/// Lanes of one warp, each on a thread of its own, that meet where a real warp's would.
class WarpMeeting {
 public:
  explicit WarpMeeting(std::uint32_t lanes) : all_((std::uint64_t{1} << lanes) - 1) {}
  [[nodiscard]] std::uint32_t all() const { return static_cast<std::uint32_t>(all_); }

  /// Every lane of `lanes` brings a value; all go on with all values.
  std::array<std::uint64_t, 32> exchange(std::uint32_t lanes, std::uint32_t lane,
                                         std::uint64_t value) {
    std::unique_lock lock(mutex_);
    Meeting& meeting = meetings_[lanes];
    const std::uint64_t generation = meeting.generation;
    meeting.values[lane] = value;
    if (++meeting.arrived == count_lanes(lanes)) {
      meeting.arrived = 0;
      meeting.settled = meeting.values;
      ++meeting.generation;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return meeting.generation != generation; });
    }
    return meeting.settled;
  }

 private:
  struct Meeting {
    std::uint32_t arrived = 0;
    std::uint64_t generation = 0;
    std::array<std::uint64_t, 32> values{};
    std::array<std::uint64_t, 32> settled{};
  };
  const std::uint64_t all_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint32_t, Meeting> meetings_;
};

struct WarpPlatform : YieldingPlatform {
  WarpMeeting* warp = nullptr;
  std::uint32_t index = 0;
  std::atomic<std::uint64_t>* updates = nullptr;

  template <Order order, Scope scope, typename T>
  T fetch_add(T* target, T operand) const {
    ++*updates;
    return NativePlatform::fetch_add<order, scope>(target, operand);
  }
  [[nodiscard]] std::uint32_t lanes_here() const { return warp->all(); }
  [[nodiscard]] std::uint32_t lane() const { return index; }
  [[nodiscard]] std::uint32_t lanes_alike(std::uint32_t lanes, std::uint64_t key) const {
    const auto keys = warp->exchange(lanes, index, key);
    std::uint32_t alike = 0;
    for (std::uint32_t i = 0; i < 32; ++i) {
      if ((lanes >> i & 1U) != 0 && keys[i] == key) alike |= 1U << i;
    }
    return alike;
  }
  [[nodiscard]] std::uint64_t from_lane(std::uint32_t lanes, std::uint64_t value,
                                        std::uint32_t leader) const {
    return warp->exchange(lanes, index, value)[leader];
  }
  void join_lanes(std::uint32_t lanes) const { (void)warp->exchange(lanes, index, 0); }
};

struct WarpOutcome {
  std::vector<std::uint64_t> tokens_seen;  ///< by queue and token
  std::uint64_t updates = 0;
  std::uint64_t accepted = 0;
};

/// `lanes` lanes submit `rounds` times each to two queues, every fifth lane something unsound.
WarpOutcome run_warp(std::uint32_t lanes, std::uint32_t size_log2, std::uint64_t rounds) {
  std::array<QueueRig<std::uint8_t>, 2> rigs{QueueRig<std::uint8_t>(size_log2, lanes),
                                             QueueRig<std::uint8_t>(size_log2, lanes)};
  std::array<QueueMemory<WarpPlatform, std::uint8_t>, 2> memories;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& from = rigs[i].memory();
    memories[i].head = from.head;
    memories[i].tail_seen = from.tail_seen;
    memories[i].abandoned = from.abandoned;
    memories[i].slots = from.slots;
    memories[i].tail = from.tail;
    memories[i].state = from.state;
    memories[i].completions = from.completions;
    memories[i].size_log2 = size_log2;
  }
  WarpMeeting warp(lanes);
  std::atomic<std::uint64_t> updates{0};
  std::atomic<std::uint64_t> accepted{0};
  std::atomic<bool> stop{false};
  WarpOutcome outcome;
  outcome.tokens_seen.assign(std::size_t{2} * lanes, 0);
  std::thread server([&] {
    std::array<Consumer<NativePlatform, std::uint8_t>, 2> consumers{rigs[0].consumer(),
                                                                    rigs[1].consumer()};
    for (bool idle = false, last = false; !(last && idle);) {
      last = stop;
      idle = true;
      for (std::size_t i = 0; i < 2; ++i) {
        Request request;
        if (!consumers[i].front(request)) continue;
        idle = false;
        ++outcome.tokens_seen[i * lanes + request.token];
        consumers[i].release_front();
      }
      if (idle) std::this_thread::yield();
    }
  });
  std::vector<std::thread> threads;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    threads.emplace_back([&, lane] {
      WarpPlatform platform;
      platform.host_clock = &support::test_clock_ns;
      platform.warp = &warp;
      platform.index = lane;
      platform.updates = &updates;
      Producer<WarpPlatform, std::uint8_t> producer(platform, memories[lane % 2]);
      for (std::uint64_t i = 1; i <= rounds; ++i) {
        Request request = read_of(lane, i);
        if (lane % 5 == 4) request.place = std::uint64_t{1} << 63;
        if (producer.submit_together(request, far_ahead()) == Result::ok) ++accepted;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  server.join();
  outcome.updates = updates;
  outcome.accepted = accepted;
  return outcome;
}

TEST(DeviceQueueWarp, OneUpdateServesAllLanesOfAQueue) {
  const std::uint64_t rounds = 20;
  const WarpOutcome outcome = run_warp(8, 4, rounds);
  EXPECT_EQ(outcome.updates, 2 * rounds);
  EXPECT_EQ(outcome.accepted, 7 * rounds);
  for (std::uint32_t lane = 0; lane < 8; ++lane) {
    const std::uint64_t seen = outcome.tokens_seen[(lane % 2) * 8 + lane];
    EXPECT_EQ(seen, lane == 4 ? 0 : rounds) << "lane " << lane;
  }
}

TEST(DeviceQueueWarp, AWarpWithMoreLanesThanSlotsGoesOnInTurns) {
  const std::uint64_t rounds = 20;
  const WarpOutcome outcome = run_warp(12, 1, rounds);
  EXPECT_EQ(outcome.accepted, 10 * rounds);
  EXPECT_GT(outcome.updates, 2 * rounds) << "two slots do not hold what five lanes claim";
}

}  // namespace
}  // namespace nobounce::device
