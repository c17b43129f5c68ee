// Many threads at one connection: submitting, polling, offering and revoking at once.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "rdma_rig.hpp"

namespace nobounce::fabric {
namespace {

TEST(RdmaThreads, SubmitPollOfferAndRevokeAtOnce) {
  constexpr std::uint64_t piece = 64u << 10;
  constexpr std::uint64_t threads = 3;
  constexpr std::uint64_t pieces = 16;
  constexpr std::uint64_t length = threads * pieces * piece;
  RdmaRig rig(two_adapters(), SoftOptions{.seed = 9});
  const GpuMemory source = rig.allocate(0, length);
  const GpuMemory target = rig.allocate(1, length);
  const GpuMemory other = rig.allocate(1, piece);
  ASSERT_TRUE(rig.join().ok());
  const RemoteMemory remote = rig.offer(target, provider::RdmaAccess::read_write);
  rig.near->prepare(1, rig.view(source));
  const std::vector<std::byte> bytes = pattern(length, 31);
  rig.plant(source, bytes);

  std::vector<std::thread> workers;
  for (std::uint64_t thread = 0; thread < threads; ++thread) {
    workers.emplace_back([&, thread] {
      for (std::uint64_t i = 0; i < pieces; ++i) {
        const std::uint64_t number = thread * pieces + i;
        core::Operation operation;
        operation.id = 1000 + number;
        operation.segment.source = part_of(source, number * piece, piece);
        operation.segment.target = part_of(remote, number * piece, piece);
        operation.segment.length_bytes = piece;
        rig.near->submit(std::span(&operation, 1));
      }
    });
  }
  workers.emplace_back([&] {
    for (std::uint64_t id = 100; id < 108; ++id) {
      const auto offered = rig.far->export_region(
          1, id, rig.view(other), provider::RdmaAccess::read, Policy::direct_preferred);
      EXPECT_TRUE(offered.ok());
      EXPECT_TRUE(rig.far->revoke(1, id).ok());
      (void)rig.near->findings(1);
      (void)rig.near->lost(1);
    }
  });
  std::uint64_t ended = 0;
  const bool all = rig.host->workers().wait(
      [&] {
        core::Completion completion;
        while (rig.near->poll(rig.host->clock().now_ns(), std::span(&completion, 1)) == 1) {
          EXPECT_FALSE(completion.error.has_value());
          EXPECT_EQ(completion.bytes[Carriage::direct], piece);
          ++ended;
        }
        return ended == threads * pieces;
      },
      rig.host->clock().now_ns() + rdma_patience_ns);
  for (std::thread& each : workers) each.join();
  EXPECT_TRUE(all);
  EXPECT_EQ(rig.inspect(target), bytes);
}

}  // namespace
}  // namespace nobounce::fabric
