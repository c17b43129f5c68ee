// The device queue, step by step on one thread: what each side sees, and the mistakes that others
// made, each with a test of its own.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include <nobounce/device/queue.hpp>
#include "support/queue_rig.hpp"

namespace nobounce::device {
namespace {

using support::QueueRig;
using support::read_of;

TEST(DeviceQueue, CarriesEveryFieldOfARequest) {
  QueueRig<> rig(2);
  auto consumer = rig.consumer();
  Request asked;
  asked.offset_bytes = (std::uint64_t{1} << 63) - 1;
  asked.place = 0x123456789abcdef;
  asked.length_bytes = UINT32_MAX;
  asked.token = token_limit - 1;
  asked.sequence = sequence_mask;
  asked.operation = Operation::write;
  ASSERT_EQ(rig.producer().submit(asked, 0), Result::ok);
  Request got;
  ASSERT_TRUE(consumer.front(got));
  EXPECT_EQ(got, asked);
}

TEST(DeviceQueue, ARequestOfZerosIsThere) {
  QueueRig<> rig(1);
  auto producer = rig.producer();
  auto consumer = rig.consumer();
  Request got;
  EXPECT_FALSE(consumer.front(got)) << "an empty queue holds nothing";
  for (int lap = 0; lap < 5; ++lap) {
    for (int slot = 0; slot < 2; ++slot) {
      EXPECT_FALSE(consumer.front(got)) << lap;
      ASSERT_EQ(producer.submit(Request{}, 0), Result::ok);
      ASSERT_TRUE(consumer.front(got)) << lap;
      EXPECT_EQ(got, Request{});
      consumer.release_front();
    }
  }
}

TEST(DeviceQueue, ASlotThatIsWrittenInPartIsNotThere) {
  QueueRig<> rig(1);
  ASSERT_EQ(rig.producer().submit(read_of(1, 1, 4096), 0), Result::ok);
  for (std::uint32_t missing = 0; missing < words_per_slot; ++missing) {
    QueueRig<> other(1);
    auto reader = other.consumer();
    for (std::uint32_t i = 0; i < words_per_slot; ++i) {
      if (i != missing) other.memory().slots[i] = rig.slots()[i];
    }
    Request got;
    EXPECT_FALSE(reader.front(got)) << "word " << missing << " has not arrived";
    other.memory().slots[missing] = rig.slots()[missing];
    EXPECT_TRUE(reader.front(got));
    EXPECT_EQ(got, read_of(1, 1, 4096));
  }
}

TEST(DeviceQueue, WhatNoSlotCanHoldIsRefusedBeforeATicketIsTaken) {
  QueueRig<> rig(1);
  Request request = read_of(1, 1);
  request.offset_bytes = std::uint64_t{1} << 63;
  EXPECT_EQ(rig.producer().submit(request, 0), Result::error);
  request = read_of(token_limit, 1);
  EXPECT_EQ(rig.producer().submit(request, 0), Result::error);
  request = read_of(1, 1);
  request.place = std::uint64_t{1} << 63;
  EXPECT_EQ(rig.producer().submit_together(request, 0), Result::error);
  EXPECT_EQ(rig.head(), 0U);
}

TEST(DeviceQueue, AFullQueueHoldsItsProducersBack) {
  QueueRig<> rig(1);
  auto producer = rig.producer();
  auto consumer = rig.consumer();
  ASSERT_EQ(producer.submit(read_of(0, 1), 0), Result::ok);
  ASSERT_EQ(producer.submit(read_of(1, 1), 0), Result::ok);
  const auto third = producer.tickets().claim();
  EXPECT_FALSE(producer.tickets().is_free(third));
  Request got;
  ASSERT_TRUE(consumer.front(got));
  EXPECT_FALSE(producer.tickets().is_free(third)) << "read, but not handed on";
  consumer.release_front();
  EXPECT_TRUE(producer.tickets().is_free(third));
}

TEST(DeviceQueue, ADeadlineThatPassesFillsTheSlotWithNothing) {
  QueueRig<> rig(1);
  auto producer = rig.producer();
  auto consumer = rig.consumer();
  EXPECT_EQ(producer.submit(read_of(3, 1), 1), Result::deadline) << "long ago";
  ASSERT_EQ(producer.submit(read_of(4, 1), 0), Result::ok);
  Request got;
  ASSERT_TRUE(consumer.front(got)) << "no hole is left behind";
  EXPECT_EQ(got.operation, Operation::nothing);
  consumer.release_front();
  ASSERT_TRUE(consumer.front(got));
  EXPECT_EQ(got.token, 4U);
}

TEST(DeviceQueue, AConsumerThatIsGoneEndsTheWaitForASlot) {
  QueueRig<> rig(1);
  auto producer = rig.producer();
  ASSERT_EQ(producer.submit(read_of(0, 1), 0), Result::ok);
  ASSERT_EQ(producer.submit(read_of(1, 1), 0), Result::ok);
  rig.set_state(State::failed);
  EXPECT_EQ(producer.submit(read_of(2, 1), 0), Result::failed);
  std::uint16_t code = 0;
  EXPECT_EQ(producer.wait(0, 1, 0, code), Result::failed);
}

TEST(DeviceQueue, AHoleThatNobodyWillFillEndsTheQueueForAll) {
  QueueRig<> rig(1);
  rig.memory().abandon_ns = 1;
  auto producer = rig.producer();
  ASSERT_EQ(producer.submit(read_of(0, 1), 0), Result::ok);
  ASSERT_EQ(producer.submit(read_of(1, 1), 0), Result::ok);
  EXPECT_EQ(producer.submit(read_of(2, 1), 1), Result::failed) << "its owner says nothing at all";
  EXPECT_EQ(producer.tickets().state(), State::failed);
  std::uint16_t code = 0;
  EXPECT_EQ(producer.wait(0, 1, 0, code), Result::failed);
}

TEST(DeviceQueue, WhatWasCompletedBeforeTheQueueFailedStaysSo) {
  QueueRig<> rig(1);
  auto producer = rig.producer();
  auto consumer = rig.consumer();
  ASSERT_EQ(producer.submit(read_of(2, 9), 0), Result::ok);
  consumer.complete(2, 9, code_ok);
  rig.set_state(State::failed);
  std::uint16_t code = 1;
  EXPECT_EQ(producer.wait(2, 9, 0, code), Result::ok);
}

TEST(DeviceQueue, ALateCompletionIsNotTakenForTheNextOne) {
  QueueRig<> rig(2);
  auto producer = rig.producer();
  auto consumer = rig.consumer();
  std::uint16_t code = 0;
  ASSERT_EQ(producer.submit(read_of(5, 1), 0), Result::ok);
  EXPECT_EQ(producer.wait(5, 1, 1, code), Result::deadline);
  consumer.complete(5, 1, code_short);
  EXPECT_EQ(producer.poll(5, 2, code), Result::pending);
  EXPECT_EQ(producer.poll(5, 1, code), Result::error) << "it can still be waited for";
  EXPECT_EQ(code, code_short);
}

TEST(DeviceQueue, SequencesGoOnBeyondTheirWidth) {
  QueueRig<> rig(2);
  auto producer = rig.producer();
  auto consumer = rig.consumer();
  std::uint16_t code = 0;
  consumer.complete(0, sequence_mask, code_ok);
  EXPECT_EQ(producer.poll(0, sequence_mask + 1, code), Result::pending);
  consumer.complete(0, sequence_mask + 1, code_ok);
  EXPECT_EQ(producer.poll(0, sequence_mask + 1, code), Result::ok);
}

// Mistakes of other queues, by what went wrong there.

TEST(DeviceQueueRegression, NarrowTicketsWrapThousandsOfTimesWithoutStalling) {
  for (std::uint32_t size_log2 : {1U, 2U, 3U}) {
    QueueRig<std::uint8_t> rig(size_log2);
    auto producer = rig.producer();
    auto consumer = rig.consumer();
    for (std::uint64_t i = 1; i <= 256 * 3000; ++i) {
      ASSERT_EQ(producer.submit(read_of(0, i, i), 0), Result::ok);
      Request got;
      ASSERT_TRUE(consumer.front(got)) << i;
      ASSERT_EQ(got, read_of(0, i, i));
      consumer.release_front();
      ASSERT_FALSE(consumer.front(got)) << i;
    }
  }
}

TEST(DeviceQueueRegression, TheStatusOfACompletionIsLookedAt) {
  QueueRig<> rig(2);
  auto producer = rig.producer();
  rig.consumer().complete(0, 1, code_os + 5);
  std::uint16_t code = 0;
  EXPECT_EQ(producer.wait(0, 1, 0, code), Result::error);
  EXPECT_EQ(code, code_os + 5);
}

TEST(DeviceQueueRegression, AnErrorIsNotNotYet) {
  QueueRig<> rig(2);
  auto producer = rig.producer();
  std::uint16_t code = 0;
  EXPECT_EQ(producer.poll(0, 1, code), Result::pending);
  for (const std::uint16_t wrong : {code_bad_operation, code_bad_token, code_bad_range, code_short,
                                    code_stopped, code_device, code_deadline}) {
    rig.consumer().complete(0, 1, wrong);
    EXPECT_EQ(producer.poll(0, 1, code), Result::error) << wrong;
    EXPECT_EQ(code, wrong);
  }
}

TEST(DeviceQueueRegression, ARequestThatCouldNotBeHandedOnStaysInFront) {
  QueueRig<> rig(1);
  auto producer = rig.producer();
  auto consumer = rig.consumer();
  ASSERT_EQ(producer.submit(read_of(7, 1), 0), Result::ok);
  Request got;
  for (int attempt = 0; attempt < 3; ++attempt) {
    ASSERT_TRUE(consumer.front(got)) << "the consumer had no memory just then";
    EXPECT_EQ(got.token, 7U);
  }
  consumer.release_front();
  EXPECT_FALSE(consumer.front(got));
}

TEST(DeviceQueueRegression, TheConsumerWritesToNoSlot) {
  // Somebody who clears slots races with producers that fill them anew.
  const std::size_t length = 4096;
  auto* slots = static_cast<std::uint64_t*>(
      mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(slots, MAP_FAILED);
  QueueRig<> rig(1);
  rig.memory().slots = slots;
  auto producer = rig.producer();
  auto consumer = rig.consumer();
  for (std::uint64_t i = 1; i <= 9; ++i) {
    ASSERT_EQ(mprotect(slots, length, PROT_READ | PROT_WRITE), 0);
    ASSERT_EQ(producer.submit(read_of(0, i), 0), Result::ok);
    ASSERT_EQ(mprotect(slots, length, PROT_READ), 0);
    Request got;
    ASSERT_TRUE(consumer.front(got));
    consumer.complete(0, i, code_ok);
    consumer.release_front();
  }
  munmap(slots, length);
}

TEST(DeviceQueueRegression, TheOldLapOfASlotIsNotTakenForTheNew) {
  QueueRig<> rig(1);
  auto producer = rig.producer();
  auto consumer = rig.consumer();
  Request got;
  for (std::uint64_t i = 1; i <= 2; ++i) {
    ASSERT_EQ(producer.submit(read_of(0, i), 0), Result::ok);
    ASSERT_TRUE(consumer.front(got));
    consumer.release_front();
  }
  const auto ticket = producer.tickets().claim();
  EXPECT_TRUE(producer.tickets().is_free(ticket));
  EXPECT_FALSE(consumer.front(got)) << "claimed is not filled";
  producer.fill(ticket, read_of(0, 3));
  EXPECT_TRUE(consumer.front(got));
}

TEST(DeviceQueueRegression, MoreProducersThanSlotsFillOnlyTheirOwnLap) {
  QueueRig<> rig(1);
  auto producer = rig.producer();
  auto consumer = rig.consumer();
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_EQ(producer.tickets().claim(), i);
  EXPECT_TRUE(producer.tickets().is_free(0));
  EXPECT_TRUE(producer.tickets().is_free(1));
  for (std::uint64_t i = 2; i < 5; ++i) EXPECT_FALSE(producer.tickets().is_free(i)) << i;
  producer.fill(1, read_of(1, 1));
  Request got;
  EXPECT_FALSE(consumer.front(got)) << "the one in front is missing";
  producer.fill(0, read_of(0, 1));
  ASSERT_TRUE(consumer.front(got));
  EXPECT_EQ(got.token, 0U);
  consumer.release_front();
  EXPECT_TRUE(producer.tickets().is_free(2));
  EXPECT_FALSE(producer.tickets().is_free(3));
}

TEST(DeviceQueueRegression, AQueueThatIsClosingIsNotWedgedByWhoHadClaimed) {
  QueueRig<> rig(1);
  auto producer = rig.producer();
  auto consumer = rig.consumer();
  ASSERT_EQ(producer.submit(read_of(0, 1), 0), Result::ok);
  const auto claimed = producer.tickets().claim();
  rig.set_state(State::stopping);
  EXPECT_EQ(producer.tickets().state(), State::stopping);
  ASSERT_EQ(producer.tickets().await_slot(claimed, 0), Result::ok) << "free at once: no waiting";
  producer.fill(claimed, Request{});
  Request got;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(consumer.front(got)) << i;
    consumer.release_front();
  }
  EXPECT_EQ(consumer.tail(), rig.head());
}

}  // namespace
}  // namespace nobounce::device
