// The oracle: it finds a planted staging buffer of any kind and alignment, and nothing after a
// direct DMA.
#include "fabric/oracle.hpp"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <algorithm>

#include <cstring>

#include "bus_rig.hpp"
#include "fabric/soft_host.hpp"

namespace nobounce::fabric {
namespace {

constexpr std::size_t length = 300001;

/// Payload that no earlier test of this process left behind in freed memory.
std::vector<std::byte> fresh_payload() {
  static std::uint64_t seed = 1000;
  return random_payload(length, ++seed);
}

TEST(Oracle, FindsNothingWhereThereIsNothing) {
  const auto payload = fresh_payload();
  const SweepResult swept = sweep_process(payload, {});
  EXPECT_EQ(swept.found, 0u) << (swept.hits.empty() ? "" : swept.hits[0].mapping);
  EXPECT_GT(swept.windows, 3u);
  EXPECT_GT(swept.swept_bytes, 100000u);
}

TEST(Oracle, FindsACopyOnTheHeapAtAnyAlignment) {
  const auto payload = fresh_payload();
  for (const std::size_t shift : {0u, 1u, 13u}) {
    std::vector<std::byte> copy(length + shift);
    std::memcpy(copy.data() + shift, payload.data(), length);
    const SweepResult swept = sweep_process(payload, {});
    EXPECT_GE(swept.found, swept.windows);
    EXPECT_EQ(sweep_process(payload, {copy}).found, 0u) << "excluded";
    std::fill(copy.begin(), copy.end(), std::byte{0});
  }
}

TEST(Oracle, FindsAPartInASharedMapping) {
  const auto payload = fresh_payload();
  void* shared = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  std::memcpy(shared, payload.data(), length / 2);
  const SweepResult swept = sweep_process(payload, {});
  EXPECT_GE(swept.found, 2u);
  ASSERT_FALSE(swept.hits.empty());
  EXPECT_EQ(swept.hits[0].address,
            reinterpret_cast<std::uintptr_t>(shared) + swept.hits[0].payload_offset);
  munmap(shared, length);
}

TEST(Oracle, FindsAWindowOnceWhereverItLies) {
  // The sweep reads 4 MiB at a time: a window on either side of such a border, and across it.
  constexpr std::size_t border = 4u << 20;
  constexpr std::size_t size = 3 * border;
  void* shared = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  std::memset(shared, 1, size);
  auto* bytes = static_cast<std::byte*>(shared);
  for (const std::size_t at :
       {border - 64, border - 63, border - 32, border - 1, border, size - 64}) {
    const auto window = random_payload(64, 5000 + at);
    std::memcpy(bytes + at, window.data(), window.size());
    const SweepResult swept = sweep_process(window, {});
    EXPECT_EQ(swept.windows, 1u);
    // What made the window may have left a copy elsewhere: only the mapping of this test counts.
    const auto first = reinterpret_cast<std::uint64_t>(bytes);
    const auto here = std::count_if(swept.hits.begin(), swept.hits.end(), [&](const SweepHit& hit) {
      return hit.address >= first && hit.address < first + size;
    });
    EXPECT_EQ(here, 1) << "at " << at;
  }
  munmap(shared, size);
}

TEST(Oracle, SaysWhenItCannotTell) {
  const std::vector<std::byte> zeros(length);
  EXPECT_EQ(sweep_process(zeros, {}).windows, 0u);
  EXPECT_EQ(sweep_process(std::vector<std::byte>(63), {}).windows, 0u);
}

class OracleOnAMachine : public ::testing::Test {
 protected:
  void SetUp() override {
    auto host = SoftHost::create(bus_machine(), {.deterministic = true});
    ASSERT_TRUE(host.ok()) << to_string(host.error());
    host_ = std::move(host).value();
  }
  std::unique_ptr<SoftHost> host_;
};

TEST_F(OracleOnAMachine, ADirectDmaLeavesNothingBehind) {
  const auto payload = fresh_payload();
  const TestFile file(payload);
  Bus& bus = host_->bus();
  const BusAddress window = *bus.map_bar1(bus.vram_base(0), length);
  ASSERT_TRUE(bus.dma({Initiator::Kind::drive, 0}, End::of(file.medium(), FileOffset{0}),
                      End::at(window), length)
                  .ok());
  EXPECT_EQ(sweep_for(payload, {}, *host_).found, 0u);
  // The sweep itself can see that far: with GPU memory left in, the payload is found.
  EXPECT_GE(sweep_process(payload, {}).found, 1u);
}

TEST_F(OracleOnAMachine, StagingIsSeenEvenBehindAnInaccessibleView) {
  const auto payload = fresh_payload();
  const TestFile file(payload);
  Bus& bus = host_->bus();
  const DramBuffer bounce = *bus.allocate_dram(0, length, DramUse::bounce);
  ASSERT_TRUE(
      bus.read_file(file.medium(), FileOffset{0}, bounce.address, length, FileIo::direct).ok());
  EXPECT_GE(sweep_for(payload, {}, *host_).found, 1u);
  bus.free_dram(bounce);
  EXPECT_EQ(sweep_for(payload, {}, *host_).found, 0u);
}

}  // namespace
}  // namespace nobounce::fabric
