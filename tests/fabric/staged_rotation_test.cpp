// Rotating slots: a control run uses all the bounce memory it may, in turn, so that no cache holds
// it; an ordinary one keeps its ring small.
#include <gtest/gtest.h>

#include "support/around_host.hpp"
#include "support/soft_session.hpp"

namespace nobounce {
namespace {

constexpr std::uint64_t slot_bytes = 64u << 10;
constexpr std::uint64_t slots_max = 32;

/// Pinned slots that a session allocated to stage twice 64 slots' worth of bytes.
std::uint64_t slots_used(bool rotate) {
  Result<std::unique_ptr<fabric::SoftHost>> soft =
      fabric::SoftHost::create(test::machine_with("workstation"), {});
  EXPECT_TRUE(soft.ok());
  support::AroundHost host(**soft);
  support::CountingMemory memory((*soft)->memory());
  host.memory_part = &memory;
  SessionOptions options = test::SoftSession::quiet();
  options.slot_bytes = slot_bytes;
  options.pinned_bytes_max = slots_max * slot_bytes;
  options.readers = 1;
  options.rotate_slots = rotate;
  std::uint64_t used = 0;
  {
    Result<Session> session = Session::open(host, options);
    EXPECT_TRUE(session.ok());
    Result<Region> source = session->allocate(0, 64 * slot_bytes);
    Result<Region> target = session->allocate(1, 64 * slot_bytes);
    EXPECT_TRUE(source.ok() && target.ok());
    EXPECT_TRUE(session->fill_pattern(source->place(), 1).ok());
    for (int i = 0; i < 2; ++i) {
      const Outcome outcome =
          session->transfer(source->place(), target->place(), {.policy = Policy::staged_only});
      EXPECT_TRUE(outcome.ok());
      EXPECT_LE(outcome.receipt.pinned_bytes, options.pinned_bytes_max);
    }
    used = memory.pinned_allocations();
    EXPECT_EQ(*session->checksum(source->place()), *session->checksum(target->place()));
  }
  EXPECT_EQ(memory.held_bytes(), 0U);
  return used;
}

TEST(RotatingSlots, UseAllTheBounceMemoryOnceAndThenAgain) {
  EXPECT_EQ(slots_used(true), slots_max);
}

TEST(RotatingSlots, AreOffUnlessAskedFor) {
  const std::uint64_t used = slots_used(false);
  EXPECT_GE(used, 1U);
  EXPECT_LE(used, 4U);
}

}  // namespace
}  // namespace nobounce
