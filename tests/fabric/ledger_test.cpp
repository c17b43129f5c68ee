// The ledger: totals, merging, and for every byte the carriage of its last arrival, held against a
// byte-wise model.
#include "fabric/ledger.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "fabric/soft_random.hpp"

namespace nobounce::fabric {
namespace {

constexpr Space dram0{Space::Kind::dram, 0};
constexpr Space dram1{Space::Kind::dram, 1};
constexpr Space vram0{Space::Kind::vram, 0};
constexpr Space vram1{Space::Kind::vram, 1};
constexpr Space media0{Space::Kind::media, 0};
constexpr Initiator cpu{Initiator::Kind::cpu, 0};
constexpr Initiator engine0{Initiator::Kind::copy_engine, 0};
constexpr Initiator drive0{Initiator::Kind::drive, 0};

Extent memory(Space space, std::uint64_t address, bool internal = false) {
  return {space, address, 0, internal};
}
Extent file(std::uint64_t inode, std::uint64_t offset) {
  return {media0, offset, inode, false};
}
Extent page_cache(std::uint64_t inode, std::uint64_t offset) {
  return {dram0, offset, inode, true};
}

Request request(Initiator initiator, Extent source, Extent target, std::uint64_t length) {
  return {initiator, source, target, length, Link::none, false};
}

CarriageBytes bytes(std::initializer_list<std::pair<Carriage, std::uint64_t>> counts) {
  CarriageBytes result;
  for (const auto& [carriage, count] : counts) result[carriage] = count;
  return result;
}

TEST(Ledger, CountsDramByNodeAndDirection) {
  Ledger ledger;
  ledger.record_request(request(drive0, file(7, 0), memory(dram1, 0), 100));
  ledger.record_request(request(cpu, memory(dram1, 0), memory(dram0, 0), 60));
  EXPECT_EQ(ledger.dram_written_bytes(1), 100u);
  EXPECT_EQ(ledger.dram_read_bytes(1), 60u);
  EXPECT_EQ(ledger.dram_written_bytes(0), 60u);
  EXPECT_EQ(ledger.dram_read_bytes(0), 0u);
  EXPECT_EQ(ledger.dram_bytes(), 220u);
  EXPECT_EQ(ledger.cpu_touched_bytes(), 60u);
}

TEST(Ledger, LostRequestsArriveNowhere) {
  Ledger ledger;
  ledger.record_lost(request(drive0, file(7, 0), memory(vram0, 0), 100));
  EXPECT_EQ(ledger.lost_bytes(), 100u);
  EXPECT_EQ(ledger.arrivals(memory(vram0, 0), 100).bytes.total(), 0u);
  EXPECT_TRUE(ledger.flows().empty());
  EXPECT_TRUE(ledger.requests().empty());
}

TEST(Ledger, EachWayOfArrivingHasItsCarriage) {
  struct Case {
    const char* name;
    Request request;
    Carriage expected;
  };
  const Case cases[] = {
      {"drive to GPU", request(drive0, file(7, 0), memory(vram0, 0), 10), Carriage::direct},
      {"NIC to GPU", request({Initiator::Kind::nic, 0}, file(7, 0), memory(vram0, 0), 10),
       Carriage::direct},
      {"peer GPU", request(engine0, memory(vram1, 0), memory(vram0, 0), 10), Carriage::direct},
      {"within the GPU", request(engine0, memory(vram0, 50), memory(vram0, 0), 10),
       Carriage::direct},
      {"bounced within the GPU", request(engine0, memory(vram0, 50, true), memory(vram0, 0), 10),
       Carriage::device_bounced},
      {"host memory by the engine", request(engine0, memory(dram0, 0), memory(vram0, 0), 10),
       Carriage::staged},
      {"page cache by the engine", request(engine0, page_cache(7, 0), memory(vram0, 0), 10),
       Carriage::in_place},
      {"CPU into the window", request(cpu, memory(dram0, 0), memory(vram0, 0), 10),
       Carriage::cpu_mapped},
      {"CPU out of the window", request(cpu, memory(vram0, 0), memory(dram0, 0), 10),
       Carriage::cpu_mapped},
      {"GPU to host", request(engine0, memory(vram0, 0), memory(dram0, 0), 10), Carriage::direct},
      {"file to host", request(drive0, file(7, 0), memory(dram0, 0), 10), Carriage::direct},
      {"page cache to host", request(cpu, page_cache(7, 0), memory(dram0, 0), 10),
       Carriage::staged},
      {"host to file", request(drive0, memory(dram0, 0), file(7, 0), 10), Carriage::staged},
      {"GPU to file", request(drive0, memory(vram0, 0), file(7, 0), 10), Carriage::direct},
      {"GPU's own to file", request(drive0, memory(vram0, 0, true), file(7, 0), 10),
       Carriage::device_bounced},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    Ledger ledger;
    ledger.record_request(one.request);
    EXPECT_EQ(ledger.arrivals(one.request.target, 10).bytes, bytes({{one.expected, 10}}));
  }
}

TEST(Ledger, TheTransfersOwnSourceIsNoStaging) {
  Ledger ledger;
  ledger.record_request(request(engine0, memory(dram0, 1000), memory(vram0, 0), 100));
  EXPECT_EQ(ledger.arrivals(memory(vram0, 0), 100, memory(dram0, 1000), 100).bytes,
            bytes({{Carriage::direct, 100}}));
  // Half of it came from elsewhere.
  EXPECT_EQ(ledger.arrivals(memory(vram0, 0), 100, memory(dram0, 1050), 100).bytes,
            bytes({{Carriage::direct, 50}, {Carriage::staged, 50}}));
  EXPECT_EQ(ledger.arrivals(memory(vram0, 0), 100, memory(dram1, 1000), 100).bytes,
            bytes({{Carriage::staged, 100}}));
  EXPECT_EQ(ledger.arrivals(memory(vram0, 0), 100, memory(dram0, 1000), 0).bytes,
            bytes({{Carriage::staged, 100}}));
}

TEST(Ledger, TheLastArrivalOfAByteWins) {
  Ledger ledger;
  ledger.record_request(request(drive0, file(7, 0), memory(vram0, 0), 100));
  ledger.record_request(request(engine0, memory(dram0, 0), memory(vram0, 30), 40));
  EXPECT_EQ(ledger.arrivals(memory(vram0, 0), 100).bytes,
            bytes({{Carriage::direct, 60}, {Carriage::staged, 40}}));
  EXPECT_EQ(ledger.arrivals(memory(vram0, 20), 20).bytes,
            bytes({{Carriage::direct, 10}, {Carriage::staged, 10}}));
  EXPECT_EQ(ledger.arrivals(memory(vram0, 70), 100).bytes, bytes({{Carriage::direct, 30}}));
  ledger.record_request(request(drive0, file(7, 0), memory(vram0, 0), 100));
  EXPECT_EQ(ledger.arrivals(memory(vram0, 0), 100).bytes, bytes({{Carriage::direct, 100}}));
}

TEST(Ledger, StagingBehindABounceInsideTheGpuIsSeenThrough) {
  Ledger ledger;
  const Extent own = memory(vram0, 4096, true);
  // The first half reached the GPU's own memory directly, the second half through host memory.
  ledger.record_request(request(drive0, file(7, 0), own, 50));
  ledger.record_request(request(engine0, memory(dram0, 0), memory(vram0, 4146, true), 50));
  ledger.record_request(request(engine0, own, memory(vram0, 0), 100));
  EXPECT_EQ(ledger.arrivals(memory(vram0, 0), 100).bytes,
            bytes({{Carriage::device_bounced, 50}, {Carriage::staged, 50}}));
  // What happens to the bounce memory afterwards changes nothing.
  ledger.record_request(request(engine0, memory(dram0, 0), own, 100));
  EXPECT_EQ(ledger.arrivals(memory(vram0, 0), 100).bytes,
            bytes({{Carriage::device_bounced, 50}, {Carriage::staged, 50}}));
}

TEST(Ledger, ABounceBelowTheTransfersOwnSourceIsNoStaging) {
  Ledger ledger;
  const Extent own = memory(vram0, 4096, true);
  ledger.record_request(request(engine0, memory(dram0, 0), own, 50));
  ledger.record_request(request(engine0, own, memory(vram0, 0), 50));
  EXPECT_EQ(ledger.arrivals(memory(vram0, 0), 50, memory(dram0, 0), 50).bytes,
            bytes({{Carriage::device_bounced, 50}}));
}

TEST(Ledger, FilesOfOneDriveAreApart) {
  Ledger ledger;
  ledger.record_request(request(drive0, memory(vram0, 0), file(7, 0), 10));
  EXPECT_EQ(ledger.arrivals(file(7, 0), 10).bytes.total(), 10u);
  EXPECT_EQ(ledger.arrivals(file(8, 0), 10).bytes.total(), 0u);
}

TEST(Ledger, RedirectionIsRemembered) {
  Ledger ledger;
  Request redirected = request(drive0, file(7, 0), memory(vram0, 0), 10);
  redirected.redirected = true;
  ledger.record_request(redirected);
  EXPECT_TRUE(ledger.arrivals(memory(vram0, 0), 10).redirected);
  EXPECT_FALSE(ledger.arrivals(memory(vram0, 10), 10).redirected);
}

TEST(Ledger, AdjoiningRequestsOfInterleavedFlowsAreMerged) {
  Ledger ledger;
  constexpr std::uint64_t piece = 4u << 20;
  for (std::uint64_t i = 0; i < 768; ++i) {
    ledger.record_request(request(drive0, file(7, i * piece), memory(vram0, i * piece), piece));
    ledger.record_request(request(drive0, file(8, i * piece), memory(vram1, i * piece), piece));
  }
  EXPECT_EQ(ledger.requests().size(), 2u);
  EXPECT_EQ(ledger.requests()[0].length_bytes, 768 * piece);
  EXPECT_EQ(ledger.arrivals(memory(vram0, 0), 768 * piece).bytes,
            bytes({{Carriage::direct, 768 * piece}}));
}

TEST(Ledger, RequestsThatDependOnEachOtherKeepTheirOrder) {
  Ledger ledger;
  // A slot of host memory is filled, drained, filled and drained: merging the fills would lie.
  for (std::uint64_t i = 0; i < 3; ++i) {
    ledger.record_request(request(drive0, file(7, i * 10), memory(dram0, 0), 10));
    ledger.record_request(request(engine0, memory(dram0, 0), memory(vram0, i * 10), 10));
  }
  EXPECT_EQ(ledger.requests().size(), 6u);
}

TEST(Ledger, NoRequestIsMergedAcrossOneItDependsOn) {
  Ledger ledger;
  ledger.record_request(request(drive0, file(7, 0), memory(vram0, 0), 10));
  ledger.record_request(request(engine0, memory(dram0, 0), memory(vram0, 10), 10));
  // Adjoins the first, but must stay behind the second, whose bytes it overwrites.
  ledger.record_request(request(drive0, file(7, 10), memory(vram0, 10), 10));
  EXPECT_EQ(ledger.requests().size(), 3u);
  // One that depends on nothing in between is merged.
  ledger.record_request(request(drive0, file(7, 20), memory(vram0, 20), 10));
  EXPECT_EQ(ledger.requests().size(), 3u);
}

TEST(Ledger, ClearingForgetsArrivalsButNotTotals) {
  Ledger ledger;
  ledger.record_request(request(engine0, memory(dram0, 0), memory(vram0, 0), 10));
  ledger.record_link("host_bridge:0/gpu:0", 10, 0);
  ledger.clear_requests();
  EXPECT_TRUE(ledger.requests().empty());
  EXPECT_EQ(ledger.arrivals(memory(vram0, 0), 10).bytes.total(), 0u);
  EXPECT_EQ(ledger.dram_bytes(), 10u);
  EXPECT_EQ(ledger.links().at("host_bridge:0/gpu:0").towards_device, 10u);
  EXPECT_EQ(ledger.flows().size(), 1u);
}

TEST(Ledger, AgreesWithAByteWiseModelOnRandomRequests) {
  constexpr std::uint64_t size = 256;
  constexpr std::uint64_t bounce = 1000;  // the GPU's own memory begins here
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SoftRandom random(seed);
    Ledger ledger;
    std::map<std::uint64_t, Carriage> user;  // by byte of vram0
    std::map<std::uint64_t, Carriage> own;
    for (int i = 0; i < 60; ++i) {
      const std::uint64_t target = random.below(size);
      const std::uint64_t length = 1 + random.below(size - target);
      const std::uint64_t source = random.below(size);
      switch (random.below(5)) {
        case 0:
          ledger.record_request(request(drive0, file(7, source), memory(vram0, target), length));
          for (std::uint64_t b = 0; b < length; ++b) user[target + b] = Carriage::direct;
          break;
        case 1:
          ledger.record_request(
              request(engine0, memory(dram0, source), memory(vram0, target), length));
          for (std::uint64_t b = 0; b < length; ++b) user[target + b] = Carriage::staged;
          break;
        case 2:
          ledger.record_request(
              request(drive0, file(7, source), memory(vram0, bounce + target, true), length));
          for (std::uint64_t b = 0; b < length; ++b) own[target + b] = Carriage::device_bounced;
          break;
        case 3:
          ledger.record_request(request(engine0, memory(dram0, source),
                                        memory(vram0, bounce + target, true), length));
          for (std::uint64_t b = 0; b < length; ++b) own[target + b] = Carriage::staged;
          break;
        default: {
          const std::uint64_t moved = std::min(length, size - source);
          ledger.record_request(
              request(engine0, memory(vram0, bounce + source, true), memory(vram0, target), moved));
          for (std::uint64_t b = 0; b < moved; ++b) {
            const auto known = own.find(source + b);
            user[target + b] = known == own.end() ? Carriage::device_bounced : known->second;
          }
        }
      }
    }
    for (std::uint64_t at = 0; at < size; at += 16) {
      CarriageBytes expected;
      for (std::uint64_t b = at; b < at + 16; ++b) {
        if (const auto known = user.find(b); known != user.end()) expected[known->second] += 1;
      }
      EXPECT_EQ(ledger.arrivals(memory(vram0, at), 16).bytes, expected) << "at " << at;
    }
  }
}

}  // namespace
}  // namespace nobounce::fabric
