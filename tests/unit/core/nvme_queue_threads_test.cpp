// The NVMe queue of running kernels with producers on threads, and a drive on another.
#include <nobounce/device/nvme_queue.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "support/nvme_queue_rig.hpp"

namespace nobounce::device {
namespace {

using support::block_read_of;
using support::NvmeQueueRig;

/// Lets others run where there are fewer processors than threads.
struct YieldingPlatform : NativePlatform {
  void pause() const { std::this_thread::yield(); }
};

/// More producers than slots: each gets its own answer to each of its commands, whoever rings and
/// whoever reaps.
TEST(NvmeQueueThreads, GiveEveryProducerItsOwnAnswers) {
  constexpr std::uint32_t producers = 4;
  constexpr std::uint64_t rounds = 300;
  NvmeQueueRig<std::uint64_t, YieldingPlatform> rig(1, producers, 3, 1);
  std::atomic<bool> stop{false};
  std::thread drive([&] {
    while (!stop.load()) {
      rig.fetch();
      // By its token, so that each can tell whether the answer was meant for it.
      rig.complete_by([](std::uint64_t id) -> std::uint16_t { return id % 2 == 0 ? 0 : 0x281; });
      std::this_thread::yield();
    }
  });
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint32_t token = 0; token < producers; ++token) {
    threads.emplace_back([&, token] {
      auto producer = rig.producer();
      for (std::uint64_t sequence = 1; sequence <= rounds; ++sequence) {
        std::uint16_t code = 0xffff;
        const bool sent = producer.submit(block_read_of(token, sequence), 0) == Result::ok;
        const Result ended = producer.wait(token, sequence, 0, code);
        const std::uint16_t expected = token % 2 == 0 ? code_ok : code_nvme | 0x281;
        if (!sent || ended == Result::pending || code != expected) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  drive.join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_EQ(rig.count(count_done), producers / 2 * rounds);
  EXPECT_EQ(rig.count(count_failed), producers / 2 * rounds);
}

}  // namespace
}  // namespace nobounce::device
