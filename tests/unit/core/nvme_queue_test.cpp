// The NVMe queue of running kernels against a model of the drive: laps, phases, slots, ids, errors,
// and what other queues got wrong.
#include <nobounce/device/nvme_queue.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "support/nvme_queue_rig.hpp"

namespace nobounce::device {
namespace {

using support::block_read_of;
using support::data_iova;
using support::NvmeQueueRig;

/// One command through the steps that never wait. False where its slot is not free.
template <typename Producer>
bool post(Producer& producer, const Request& request) {
  const auto ticket = producer.claim();
  if (!producer.is_free(ticket)) return false;
  producer.fill(ticket, request);
  return producer.publish(ticket);
}

template <typename Ticket>
class NvmeQueueWidths : public ::testing::Test {};
using Widths = ::testing::Types<std::uint8_t, std::uint16_t, std::uint64_t>;
TYPED_TEST_SUITE(NvmeQueueWidths, Widths);

/// Thousands of laps, with tickets that wrap (BaM's counters stop the queue at 2^32; eight bits
/// show it at once), in any order of completion, some of them errors.
TYPED_TEST(NvmeQueueWidths, GoesOnForManyLapsWhateverTheOrder) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    NvmeQueueRig<TypeParam> rig(3, 6, 4, seed);
    auto producer = rig.producer();
    std::mt19937 random(seed);
    std::vector<std::uint64_t> sequence(6, 0);
    std::vector<bool> busy(6, false);
    std::vector<std::uint16_t> expected(6, 0);
    std::uint64_t finished = 0;
    std::uint32_t under_way = 0;
    std::uint64_t failed = 0;
    for (int round = 0; finished < 4000; ++round) {
      ASSERT_LT(round, 200000);
      const auto token = static_cast<std::uint32_t>(random() % 6);
      if (!busy[token] && under_way < 6) {
        ++sequence[token];
        ASSERT_TRUE(
            post(producer, block_read_of(token, sequence[token], token * std::uint64_t{4096})));
        busy[token] = true;
        ++under_way;
      }
      if (random() % 3 == 0) rig.fetch();
      if (random() % 2 == 0) {
        const bool err = random() % 7 == 0;
        if (rig.complete(err ? 0x281 : 0)) {
          const auto id = static_cast<std::uint32_t>(rig.done().back().word[0] >> 16 & 0xffff);
          expected[id] = err ? code_nvme | 0x281 : code_ok;
          failed += err ? 1 : 0;
        }
      }
      producer.reap();
      for (std::uint32_t each = 0; each < 6; ++each) {
        if (!busy[each]) continue;
        std::uint16_t code = 0xffff;
        const Result result = producer.poll(each, sequence[each], code);
        if (result == Result::pending) continue;
        ASSERT_EQ(code, expected[each]);
        ASSERT_EQ(result, code == code_ok ? Result::ok : Result::error);
        busy[each] = false;
        --under_way;
        ++finished;
      }
    }
    EXPECT_EQ(rig.count(count_done) + rig.count(count_failed), finished);
    EXPECT_EQ(rig.count(count_failed), failed);
    EXPECT_EQ(rig.count(count_bytes), rig.count(count_done) * 4096);
  }
}

/// Slots are freed by SQHD alone, one stays empty, and an id stays taken until its own completion
/// although its slot is free long before.
TEST(NvmeQueue, TellsSlotsFromCommands) {
  NvmeQueueRig<std::uint64_t> rig(2, 12, 5, 1);
  auto producer = rig.producer();
  for (std::uint32_t token = 0; token < 3; ++token) {
    ASSERT_TRUE(post(producer, block_read_of(token, 1)));
  }
  const auto ticket = producer.claim();
  EXPECT_FALSE(
      producer.is_free(ticket));  // three of four: the drive could not tell full from empty
  rig.fetch();
  EXPECT_FALSE(producer.is_free(ticket));  // fetched, but nobody said so yet
  ASSERT_TRUE(rig.complete());
  producer.reap();
  EXPECT_TRUE(producer.is_free(ticket));
  producer.fill(ticket, block_read_of(5, 1));
  EXPECT_TRUE(producer.publish(ticket));
  // Two of the first three are still under way, and answered under their own names.
  rig.fetch();
  EXPECT_EQ(rig.fetched(), 3u);
  while (rig.complete()) {
  }
  producer.reap();
  std::uint16_t code = 0;
  for (const std::uint32_t token : {0u, 1u, 2u, 5u}) {
    EXPECT_EQ(producer.poll(token, 1, code), Result::ok) << token;
  }
}

/// A later ticket waits for its turn to ring: the register never goes back.
TEST(NvmeQueue, RingsInTheOrderOfTickets) {
  NvmeQueueRig<std::uint64_t> rig(3, 4, 4, 1);
  auto producer = rig.producer();
  const auto first = producer.claim();
  const auto second = producer.claim();
  producer.fill(second, block_read_of(1, 1));
  EXPECT_FALSE(producer.publish(second));
  rig.fetch();
  EXPECT_EQ(rig.fetched(), 0u);
  producer.fill(first, block_read_of(0, 1));
  EXPECT_TRUE(producer.publish(first));
  rig.fetch();
  EXPECT_EQ(rig.fetched(), 1u);
  EXPECT_TRUE(producer.publish(second));
  rig.fetch();
  EXPECT_EQ(rig.fetched(), 2u);
}

/// A claimed slot that is not needed holds a command that nobody waits for, and those behind it are
/// served.
TEST(NvmeQueue, FillsEveryClaimedSlot) {
  NvmeQueueRig<std::uint64_t> rig(3, 4, 4, 1);
  auto producer = rig.producer();
  rig.set_state(State::stopping);
  EXPECT_EQ(producer.submit(block_read_of(0, 1), 0), Result::stopping);
  rig.set_state(State::running);
  EXPECT_EQ(producer.submit(block_read_of(1, 1), 0), Result::ok);
  rig.fetch();
  ASSERT_EQ(rig.fetched(), 2u);
  while (rig.complete()) {
  }
  producer.reap();
  std::uint16_t code = 0;
  EXPECT_EQ(producer.poll(1, 1, code), Result::ok);
  EXPECT_EQ(producer.poll(0, 1, code), Result::pending);
  EXPECT_EQ(rig.count(count_done), 1u);
  for (const auto& fetched : rig.done()) {
    const std::uint64_t id = fetched.word[0] >> 16 & 0xffff;
    const bool flush = (fetched.word[0] & 0xff) == 0;
    EXPECT_EQ(id >= nvme_id_of_nothing, flush);
  }
}

/// A drive that has read a flush of nothing may still owe its answer: neither the id of its slot
/// nor the place for the answer may be given away twice.
TEST(NvmeQueue, GivesNoSlotAwayWhileItsNothingIsUnanswered) {
  NvmeQueueRig<std::uint64_t> rig(2, 4, 4, 1);
  auto producer = rig.producer();
  rig.set_state(State::stopping);
  ASSERT_EQ(producer.submit(block_read_of(0, 1), 0), Result::stopping);  // slot 0
  rig.set_state(State::running);
  std::uint16_t code = 0;
  for (std::uint32_t slot = 1; slot < 4; ++slot) {
    ASSERT_TRUE(post(producer, block_read_of(1, slot)));
    rig.fetch();
    ASSERT_TRUE(rig.complete_id(1));
    producer.reap();
    ASSERT_EQ(producer.poll(1, slot, code), Result::ok);
  }
  const auto again = producer.claim();  // slot 0
  EXPECT_FALSE(producer.is_free(again)) << "read by the drive, and not answered";
  ASSERT_TRUE(rig.complete_id(nvme_id_of_nothing));
  producer.reap();
  EXPECT_TRUE(producer.is_free(again));
}

TEST(NvmeQueue, TellsWritesFromReads) {
  NvmeQueueRig<std::uint64_t> rig(3, 4, 4, 1);
  auto producer = rig.producer();
  Request write = block_read_of(0, 1);
  write.operation = Operation::write;
  ASSERT_TRUE(post(producer, write));
  write.token = 1;
  ASSERT_TRUE(post(producer, write));
  ASSERT_TRUE(post(producer, block_read_of(2, 1)));
  rig.fetch();
  ASSERT_TRUE(rig.complete_id(0));
  ASSERT_TRUE(rig.complete_id(1, 0x280));
  ASSERT_TRUE(rig.complete_id(2));
  producer.reap();
  EXPECT_EQ(rig.count(count_bytes), 4096u);
  EXPECT_EQ(rig.count(count_bytes_written), 4096u);
  EXPECT_EQ(rig.count(count_failed), 1u);
  EXPECT_EQ(rig.count(count_failed_writes), 1u);
}

/// BaM and vroom ignored the status; NCCL took an error for "not yet".
TEST(NvmeQueue, TellsAnErrorFromNotYetAndFromSuccess) {
  NvmeQueueRig<std::uint64_t> rig(3, 4, 4, 1);
  auto producer = rig.producer();
  ASSERT_TRUE(post(producer, block_read_of(2, 9)));
  std::uint16_t code = 0;
  EXPECT_EQ(producer.poll(2, 9, code), Result::pending);
  rig.fetch();
  ASSERT_TRUE(rig.complete(0x080));
  EXPECT_EQ(producer.wait(2, 9, 0, code), Result::error);
  EXPECT_EQ(code, code_nvme | 0x080);
}

TEST(NvmeQueue, RefusesWhatTheDriveOrTheBufferDoesNotHold) {
  NvmeQueueRig<std::uint64_t> rig(3, 4, 4, 1);
  auto producer = rig.producer();
  const std::uint64_t end = 1u << 20;
  EXPECT_TRUE(producer.is_sound(block_read_of(3, 1, end - 512, 512)));
  for (const Request& request :
       {block_read_of(4, 1), block_read_of(0, 1, end, 512), block_read_of(0, 1, end - 512, 1024),
        block_read_of(0, 1, 100, 512), block_read_of(0, 1, 0, 100), block_read_of(0, 1, 0, 0),
        block_read_of(0, 1, 0, 256u << 10), block_read_of(0, 1, ~std::uint64_t{0} - 511, 512)}) {
    EXPECT_FALSE(producer.is_sound(request)) << request.offset_bytes << " " << request.length_bytes;
    EXPECT_EQ(producer.submit(request, 0), Result::error);
  }
  rig.fetch();
  EXPECT_EQ(rig.fetched(), 0u);
}

/// One page, two pages, and a list of the token's own.
TEST(NvmeQueue, NamesItsMemoryByPages) {
  NvmeQueueRig<std::uint64_t> rig(4, 4, 5, 1);
  auto producer = rig.producer();
  ASSERT_TRUE(post(producer, block_read_of(0, 1, 0, 4096)));
  ASSERT_TRUE(post(producer, block_read_of(1, 1, 512, 4096)));
  ASSERT_TRUE(post(producer, block_read_of(2, 1, 512, 128u << 10)));
  rig.fetch();
  while (rig.complete()) {
  }
  ASSERT_EQ(rig.done().size(), 3u);
  for (const auto& command : rig.done()) {
    switch (command.word[0] >> 16 & 0xffff) {
      case 0:
        EXPECT_EQ(command.word[3], data_iova);
        EXPECT_EQ(command.word[4], 0u);
        EXPECT_EQ(command.word[6], 7u);
        break;
      case 1:
        EXPECT_EQ(command.word[3], data_iova + 512);
        EXPECT_EQ(command.word[4], data_iova + 4096);
        EXPECT_EQ(command.word[5], 1u);
        break;
      default:
        EXPECT_EQ(command.word[4], 0x900000u + 2u * 4096u);
        for (std::uint64_t i = 0; i < 32; ++i) {
          EXPECT_EQ(rig.lists()[2 * 512 + i], data_iova + (i + 1) * 4096);
        }
    }
  }
}

TEST(NvmeQueue, IsFailedByItsOwnerAndLeavesNobodyWaiting) {
  NvmeQueueRig<std::uint64_t> rig(3, 4, 4, 1);
  auto producer = rig.producer();
  ASSERT_TRUE(post(producer, block_read_of(0, 1)));
  rig.set_state(State::failed);
  std::uint16_t code = 0;
  EXPECT_EQ(producer.wait(0, 1, 0, code), Result::failed);
}

}  // namespace
}  // namespace nobounce::device
