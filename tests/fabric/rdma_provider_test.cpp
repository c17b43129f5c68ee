// The RDMA provider on software machines: bytes by the bus's account, ways of registering, choice
// of adapters, and what ends a connection.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include <nobounce/software_machine.hpp>
#include "rdma_rig.hpp"
#include "support/around_host.hpp"
#include "system/faulty_host.hpp"
#include "system/stray_copies.hpp"

namespace nobounce::fabric {
namespace {

using provider::RdmaAccess;
using provider::RdmaExport;

constexpr std::uint64_t length = 8u << 20;

std::size_t open_descriptors() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    count += entry.path().empty() ? 0 : 1;
  }
  return count;
}

Machine with(void (*change)(Machine&)) {
  Machine machine = two_adapters();
  machine.modules.nvidia_peermem = true;
  change(machine);
  return machine;
}

TEST(RdmaProvider, WritesGpuToGpuDirectlyWithoutTouchingHostMemory) {
  RdmaRig rig;
  const GpuMemory source = rig.allocate(0, length);
  const GpuMemory target = rig.allocate(1, length);
  const Status joined = rig.join();
  ASSERT_TRUE(joined.ok()) << to_string(joined.error());
  const RemoteMemory remote = rig.offer(target, RdmaAccess::read_write);
  rig.near->prepare(1, rig.view(source));
  const std::vector<std::byte> bytes = pattern(length);
  rig.plant(source, bytes);
  rig.host->bus().ledger().clear_requests();
  const std::uint64_t dram_before = rig.host->ledger().dram_bytes();
  const core::Completion done = rig.move(source, remote);
  ASSERT_FALSE(done.error.has_value()) << to_string(*done.error);
  EXPECT_EQ(done.bytes[Carriage::direct], length);
  EXPECT_EQ(done.bytes.total(), length);
  EXPECT_EQ(done.link, Link::pcie_switch);
  EXPECT_EQ(done.pinned_bytes, 0u);
  EXPECT_EQ(rig.host->ledger().dram_bytes(), dram_before);
  EXPECT_EQ(rig.arrived(target)[Carriage::direct], length);
  EXPECT_EQ(rig.inspect(target), bytes);
}

TEST(RdmaProvider, ReadsThePeersMemoryDirectly) {
  RdmaRig rig;
  const GpuMemory here = rig.allocate(0, length);
  const GpuMemory there = rig.allocate(1, length);
  ASSERT_TRUE(rig.join().ok());
  const RemoteMemory remote = rig.offer(there, RdmaAccess::read);
  rig.near->prepare(1, rig.view(here));
  rig.plant(there, pattern(length, 3));
  const core::Completion done = rig.move(remote, here);
  ASSERT_FALSE(done.error.has_value()) << to_string(*done.error);
  EXPECT_EQ(rig.inspect(here), pattern(length, 3));
}

TEST(RdmaProvider, MovesNothingAndOddPiecesExactly) {
  RdmaRig rig;
  const GpuMemory source = rig.allocate(0, length);
  const GpuMemory target = rig.allocate(1, length);
  ASSERT_TRUE(rig.join().ok());
  const RemoteMemory remote = rig.offer(target, RdmaAccess::read_write);
  rig.near->prepare(1, rig.view(source));
  const std::vector<std::byte> before(length, std::byte{0x33});
  rig.plant(target, before);
  const std::vector<std::byte> bytes = pattern(length, 2);
  rig.plant(source, bytes);
  EXPECT_FALSE(rig.move(part_of(source, 5, 0), part_of(remote, 9, 0)).error.has_value());
  EXPECT_EQ(rig.inspect(target), before);
  const std::uint64_t odd = (3u << 20) + 4321;
  const core::Completion done = rig.move(part_of(source, 777, odd), part_of(remote, 4095, odd));
  ASSERT_FALSE(done.error.has_value());
  std::vector<std::byte> expected = before;
  std::copy_n(bytes.begin() + 777, odd, expected.begin() + 4095);
  EXPECT_EQ(rig.inspect(target), expected);
}

TEST(RdmaProvider, MovesMoreThanFourGibibytes) {
  RdmaRig rig;
  const std::uint64_t huge = (4ull << 30) + (3u << 20) + 17;
  const GpuMemory source = rig.allocate(0, huge);
  const GpuMemory target = rig.allocate(1, huge);
  ASSERT_TRUE(rig.join().ok());
  const RemoteMemory remote = rig.offer(target, RdmaAccess::read_write);
  rig.near->prepare(1, rig.view(source));
  // The ends of it, and both sides of the border; the middle stays sparse zeros.
  const std::uint64_t border = 4ull << 30;
  for (const std::uint64_t at : {std::uint64_t{0}, border - 4096, huge - 8192}) {
    rig.plant(part_of(source, at, 8192), pattern(8192, at + 1));
  }
  const core::Completion done = rig.move(part_of(source, border - 4096, 4096 + (3u << 20) + 17),
                                         part_of(remote, border - 4096, 4096 + (3u << 20) + 17));
  ASSERT_FALSE(done.error.has_value()) << to_string(*done.error);
  EXPECT_EQ(rig.inspect(part_of(target, border - 4096, 8192)), pattern(8192, border - 4096 + 1));
  EXPECT_EQ(rig.inspect(part_of(target, huge - 8192, 8192)), pattern(8192, huge - 8192 + 1));
}

TEST(RdmaProvider, MovesHostMemoryToo) {
  RdmaRig rig;
  const HostMemory source = rig.allocate_host(length);
  const GpuMemory target = rig.allocate(1, length);
  ASSERT_TRUE(rig.join().ok());
  const RemoteMemory remote = rig.offer(target, RdmaAccess::read_write);
  rig.near->prepare(1, rig.view(source, AllocationKind::host_pinned));
  rig.plant(source, pattern(length, 4));
  const core::Completion done = rig.move(source, remote);
  ASSERT_FALSE(done.error.has_value()) << to_string(*done.error);
  EXPECT_EQ(rig.inspect(target), pattern(length, 4));
}

TEST(RdmaProvider, EquallyNearAdaptersShareTheWork) {
  RdmaRig rig;
  const GpuMemory source = rig.allocate(0, length);
  const GpuMemory target = rig.allocate(1, length);
  ASSERT_TRUE(rig.join().ok());
  EXPECT_EQ(rig.near->adapters(1), (std::vector<std::uint32_t>{0, 1}));
  const RemoteMemory remote = rig.offer(target, RdmaAccess::read_write);
  EXPECT_EQ(rig.last_offer.keys.size(), 2u);
  rig.near->prepare(1, rig.view(source));
  const auto before = rig.host->ledger().links();
  ASSERT_FALSE(rig.move(source, remote).error.has_value());
  const auto after = rig.host->ledger().links();
  for (const char* port : {"switch:0/nic:0", "switch:0/nic:1"}) {
    const auto found = before.find(port);
    const std::uint64_t base = found == before.end() ? 0 : found->second.towards_device;
    EXPECT_GE(after.at(port).towards_device - base, length / 4) << port;
  }
}

TEST(RdmaProvider, GivesBackAllItTook) {
  const std::size_t descriptors = open_descriptors();
  {
    RdmaRig rig;
    const GpuMemory source = rig.allocate(0, length);
    const GpuMemory target = rig.allocate(1, length);
    ASSERT_TRUE(rig.join().ok());
    const RemoteMemory remote = rig.offer(target, RdmaAccess::read_write);
    rig.near->prepare(1, rig.view(source));
    ASSERT_FALSE(rig.move(source, remote).error.has_value());
    EXPECT_GT(rig.host->bus().bar1_used_bytes(0), 0u);
    rig.near->close_connection(1);
    rig.far->close_connection(1);
    EXPECT_EQ(rig.host->bus().bar1_used_bytes(0), 0u);
    EXPECT_EQ(rig.host->bus().bar1_used_bytes(1), 0u);
  }
  EXPECT_EQ(open_descriptors(), descriptors);
}

// --- ways of registering ---

struct Way {
  std::string name;
  void (*change)(Machine&);
  bool direct = true;
  std::vector<Cause> causes;  ///< where it is not
  std::string said;           ///< in the finding of the way that was taken
};

class RdmaWays : public testing::TestWithParam<Way> {};

TEST_P(RdmaWays, AreTriedInTheirOrderAndEachFailureIsSaid) {
  RdmaRig rig(with(GetParam().change));
  const GpuMemory memory = rig.allocate(1, length);
  ASSERT_TRUE(rig.join().ok());
  auto offered =
      rig.far->export_region(1, 3, rig.view(memory), RdmaAccess::read, Policy::direct_preferred);
  ASSERT_TRUE(offered.ok());
  EXPECT_EQ(!offered->keys.empty(), GetParam().direct);
  EXPECT_EQ(offered->causes, GetParam().causes);
  bool said = GetParam().said.empty();
  for (const Finding& finding : rig.far->findings(1)) {
    said = said || (finding.state == FindingState::met &&
                    finding.observed.find(GetParam().said) != std::string::npos);
    EXPECT_EQ(finding.remedy.empty(), finding.state == FindingState::met);
    EXPECT_FALSE(finding.source.empty());
  }
  EXPECT_TRUE(said);
  const auto refused =
      rig.far->export_region(1, 4, rig.view(memory), RdmaAccess::read, Policy::direct_required);
  EXPECT_EQ(refused.ok(), GetParam().direct);
  if (!refused.ok()) {
    EXPECT_EQ(refused.error().origin, ErrorOrigin::policy);
    EXPECT_EQ(refused.error().cause, GetParam().causes.front());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, RdmaWays,
    testing::Values(Way{"DmaBufFirst", [](Machine&) {}, true, {}, "registered by dma-buf"},
                    Way{"PeermemWhereThereIsNoDmaBuf",
                        [](Machine& machine) { machine.kernel.dmabuf = false; },
                        true,
                        {},
                        "registered by nvidia_peermem"},
                    Way{"Neither",
                        [](Machine& machine) {
                          machine.kernel.dmabuf = false;
                          machine.modules.nvidia_peermem = false;
                        },
                        false,
                        {Cause::rdma_dmabuf_not_supported, Cause::rdma_peermem_not_loaded},
                        ""},
                    Way{"WindowTooSmall",
                        [](Machine& machine) { machine.gpus[1].bar1_bytes = 4u << 20; },
                        false,
                        {Cause::machine_bar1_too_small},
                        ""},
                    Way{"RedirectedAndRefused",
                        [](Machine& machine) {
                          machine.switches[0].acs = AcsMode::redirect;
                          machine.host_bridges[0].peer_forwarding = PeerForwarding::refused;
                        },
                        false,
                        {Cause::rdma_probe_failed},
                        ""},
                    Way{"RedirectedAndForwarded",
                        [](Machine& machine) {
                          machine.switches[0].acs = AcsMode::redirect;
                          machine.host_bridges[0].peer_forwarding = PeerForwarding::allowed;
                        },
                        true,
                        {},
                        "registered by dma-buf"}),
    [](const auto& each) { return each.param.name; });

TEST(RdmaProvider, ProbesAPairOnce) {
  RdmaRig rig;
  const GpuMemory memory = rig.allocate(1, length);
  ASSERT_TRUE(rig.join().ok());
  (void)rig.offer(memory, RdmaAccess::read, 1);
  const auto flows = [&] {
    std::uint64_t bytes = 0;
    for (const auto& [flow, moved] : rig.host->ledger().flows()) {
      if (flow.initiator.kind == Initiator::Kind::nic) bytes += moved;
    }
    return bytes;
  };
  const std::uint64_t once = flows();
  EXPECT_EQ(once, 2u * 2 * 2 * 4096) << "two adapters, a write and a read, out of memory and in";
  (void)rig.offer(memory, RdmaAccess::read, 2);
  EXPECT_EQ(flows(), once);
}

TEST(RdmaProvider, WhatWasRehearsedIsNotProbedWhenAPeerAsks) {
  RdmaRig rig;
  const GpuMemory memory = rig.allocate(1, length);
  const auto nics_moved = [&] {
    std::uint64_t bytes = 0;
    for (const auto& [flow, moved] : rig.host->ledger().flows()) {
      if (flow.initiator.kind == Initiator::Kind::nic) bytes += moved;
    }
    return bytes;
  };
  rig.far->rehearse({.near = rig.gpu(1)});
  const std::uint64_t once = nics_moved();
  EXPECT_GT(once, 0u);
  ASSERT_TRUE(rig.join().ok());
  (void)rig.offer(memory, RdmaAccess::read, 1);
  EXPECT_EQ(rig.last_offer.keys.size(), 2u);
  EXPECT_EQ(nics_moved(), once);
}

/// A GPU whose copies do not end, as long as it is told so; it counts what is given back.
class HangingCuda : public support::AroundCuda {
 public:
  using AroundCuda::AroundCuda;
  bool hangs = true;
  int freed = 0;
  CUresult event_query(CUevent event) override {
    return hangs ? cuda::error_not_ready : AroundCuda::event_query(event);
  }
  CUresult stream_query(CUstream stream) override {
    return hangs ? cuda::error_not_ready : AroundCuda::stream_query(stream);
  }
  CUresult mem_free(CUdeviceptr pointer) override {
    ++freed;
    return AroundCuda::mem_free(pointer);
  }
};

TEST(RdmaProvider, AProbeWhoseCopyHangsKeepsItsMemoryUntilItHasLanded) {
  const Machine machine = RdmaRig::completed(two_adapters());
  auto soft = SoftHost::create(machine, {.deterministic = true});
  ASSERT_TRUE(soft.ok());
  support::AroundHost around(**soft);
  HangingCuda table(**around.cuda());
  around.cuda_table = &table;
  support::CountingMemory memory((*soft)->memory());
  around.memory_part = &memory;
  auto contexts = system::CudaContexts::open(around, machine);
  ASSERT_TRUE(contexts.ok());
  const auto provider = provider::make_rdma_provider(around, contexts->get(), machine);
  provider->rehearse({.near = RdmaRig::gpu(0)});
  EXPECT_EQ(table.freed, 0) << "a copy may still write it";
  EXPECT_GT(memory.held_bytes(), 0u);
  EXPECT_FALSE((*contexts)->strays().all_landed());
  table.hangs = false;
  EXPECT_TRUE((*contexts)->strays().all_landed());
  (*contexts)->strays().clear();
  EXPECT_GT(table.freed, 0);
  EXPECT_EQ(memory.held_bytes(), 0u);
}

/// A GPU that gives out no memory of the size of a probe, as long as it is told to.
class FullCuda : public support::AroundCuda {
 public:
  using AroundCuda::AroundCuda;
  int answer = cuda::error_out_of_memory;
  int refused = 0;
  CUresult mem_alloc(CUdeviceptr* pointer, std::size_t length_bytes) override {
    if (answer == cuda::success || length_bytes != 4096)
      return AroundCuda::mem_alloc(pointer, length_bytes);
    ++refused;
    return answer;
  }
};

TEST(RdmaProvider, AProbeThatCouldNotBeTriedIsTriedAgainLaterAndSaysSo) {
  for (const auto& [answer, cause] :
       {std::pair{cuda::error_out_of_memory, Cause::memory_gpu_out_of_memory},
        std::pair{cuda::error_unknown, Cause::evidence_capability_only}}) {
    SCOPED_TRACE(answer);
    const Machine machine = RdmaRig::completed(with([](Machine&) {}));
    auto soft = SoftHost::create(machine, {.deterministic = true});
    ASSERT_TRUE(soft.ok());
    support::AroundHost around(**soft);
    FullCuda table(**around.cuda());
    table.answer = answer;
    around.cuda_table = &table;
    auto contexts = system::CudaContexts::open(around, machine);
    ASSERT_TRUE(contexts.ok());
    cuda::CUdeviceptr pointer = 0;
    {
      const system::ContextGuard guard((*contexts)->table(), *(*contexts)->context(0));
      ASSERT_EQ((*contexts)->table().mem_alloc(&pointer, 2u << 20), cuda::success);
    }
    const GpuMemory served{0, DevicePointer{pointer}, 1u << 20};
    const auto near = provider::make_rdma_provider(around, contexts->get(), machine);
    const auto far = provider::make_rdma_provider(around, contexts->get(), machine);
    const provider::RdmaConnectionOptions one_lane{.near = RdmaRig::gpu(0), .lanes_max = 1};
    const auto ours = near->open_connection(1, one_lane);
    const auto theirs = far->open_connection(1, one_lane);
    ASSERT_TRUE(ours.ok() && theirs.ok());
    ASSERT_TRUE(far->establish(1, *ours).ok() && near->establish(1, *theirs).ok());
    const auto offer = [&] {
      return far
          ->export_region(1, 1, {served, AllocationKind::device}, RdmaAccess::read,
                          Policy::direct_preferred)
          .value();
    };
    EXPECT_EQ(offer().causes, std::vector<Cause>{cause});
    const int tried = table.refused;
    EXPECT_EQ(tried, 2) << "by dma-buf and by nvidia_peermem";
    const std::vector<Finding> said = far->findings(1);
    ASSERT_FALSE(said.empty());
    for (const Finding& finding : said) {
      if (finding.state != FindingState::unmet) continue;
      EXPECT_NE(finding.observed.find("nor will be for the next 10 s"), std::string::npos)
          << finding.observed;
    }
    for (int again = 0; again < 3; ++again) EXPECT_EQ(offer().causes, std::vector<Cause>{cause});
    EXPECT_EQ(table.refused, tried) << "nobody waits for it each time";
    EXPECT_EQ(far->findings(1), said) << "each is said once";
    // Ten seconds later, to the nanosecond, for the later of the two.
    const std::uint64_t later_ns = around.clock().now_ns() + 10'000'000'000;
    (void)around.workers().wait([] { return false; }, later_ns);
    table.answer = cuda::success;
    EXPECT_FALSE(offer().keys.empty());
  }
}

TEST(RdmaProvider, OtherMemoryBehindAnAddressIsRegisteredAnew) {
  RdmaRig rig;
  GpuMemory source = rig.allocate(0, length);
  const GpuMemory target = rig.allocate(1, length);
  ASSERT_TRUE(rig.join().ok());
  const RemoteMemory remote = rig.offer(target, RdmaAccess::read_write);
  rig.near->prepare(1, rig.view(source));
  ASSERT_FALSE(rig.move(source, remote).error.has_value());
  const DevicePointer before = source.address;
  rig.release(source);
  source = rig.allocate(0, length);
  ASSERT_EQ(source.address, before) << "the test needs the same address again";
  rig.near->prepare(1, rig.view(source));
  rig.plant(source, pattern(length, 6));
  const core::Completion done = rig.move(source, remote);
  ASSERT_FALSE(done.error.has_value()) << to_string(*done.error);
  EXPECT_EQ(rig.inspect(target), pattern(length, 6));
}

TEST(RdmaProvider, HostMemoryThatMayGoIsRegisteredForEachTransferAlone) {
  SoftOptions options{.deterministic = true};
  options.faults.memlock_bytes = 3 * length;  // two lanes: one such memory at a time
  RdmaRig rig(two_adapters(), options);
  const GpuMemory target = rig.allocate(1, length);
  ASSERT_TRUE(rig.join().ok());
  const RemoteMemory remote = rig.offer(target, RdmaAccess::read_write);
  for (const unsigned round : {1u, 2u, 3u}) {
    const HostMemory source = rig.allocate_host(length);
    rig.plant(source, pattern(length, round));
    rig.near->prepare(1, rig.view(source, AllocationKind::host_pageable), false);
    // Twice: the second one needs no preparation.
    for (int again = 0; again < 2; ++again) {
      const core::Completion done = rig.move(source, remote);
      ASSERT_FALSE(done.error.has_value()) << to_string(*done.error);
      EXPECT_EQ(done.bytes[Carriage::direct], length);
      EXPECT_EQ(rig.inspect(target), pattern(length, round));
    }
  }
}

TEST(RdmaProvider, ManyPiecesOfHostMemoryThatMayGoAreNotAllRemembered) {
  RdmaRig rig;
  const std::uint64_t piece = 4096;
  const HostMemory source = rig.allocate_host(300 * piece);
  const GpuMemory target = rig.allocate(1, piece);
  ASSERT_TRUE(rig.join().ok());
  const RemoteMemory remote = rig.offer(target, RdmaAccess::read_write);
  rig.plant(source, pattern(300 * piece, 5));
  for (std::uint64_t i = 0; i < 300; ++i) {
    const HostMemory part{source.address + i * piece, piece};
    rig.near->prepare(1, rig.view(part, AllocationKind::host_pageable), false);
  }
  const HostMemory first{source.address, piece};
  const core::Completion done = rig.move(first, remote);
  ASSERT_FALSE(done.error.has_value()) << to_string(*done.error);
  EXPECT_EQ(rig.inspect(target), rig.inspect(first));
}

TEST(RdmaProvider, MemoryWithinOtherMemoryDoesNotHideIt) {
  RdmaRig rig;
  const GpuMemory source = rig.allocate(0, length);
  const GpuMemory target = rig.allocate(1, length);
  ASSERT_TRUE(rig.join().ok());
  const RemoteMemory remote = rig.offer(target, RdmaAccess::read_write);
  rig.near->prepare(1, rig.view(part_of(source, length / 4, 4096)));
  rig.near->prepare(1, rig.view(source));
  rig.plant(source, pattern(length, 8));
  const std::uint64_t half = length / 2;
  const core::Completion done = rig.move(part_of(source, half, half), part_of(remote, half, half));
  ASSERT_FALSE(done.error.has_value()) << to_string(*done.error);
  EXPECT_EQ(rig.inspect(part_of(target, half, half)), rig.inspect(part_of(source, half, half)));
}

TEST(RdmaProvider, AKeyThatAnAdapterDoesNotTakeBackOpensNothingAnyMore) {
  SoftOptions options{.deterministic = true};
  options.faults.registrations_stuck = true;
  RdmaRig rig(two_adapters(), options);
  const GpuMemory source = rig.allocate(0, length);
  const GpuMemory target = rig.allocate(1, length);
  ASSERT_TRUE(rig.join().ok());
  const RemoteMemory remote = rig.offer(target, RdmaAccess::read_write);
  rig.near->prepare(1, rig.view(source));
  rig.plant(target, std::vector<std::byte>(length, std::byte{0x44}));
  const Status revoked = rig.far->revoke(1, 7);
  ASSERT_FALSE(revoked.ok());
  EXPECT_EQ(revoked.error().code, EBUSY);
  EXPECT_TRUE(rig.far->lost(1).has_value());
  const core::Completion done = rig.move(source, remote);
  ASSERT_TRUE(done.error.has_value());
  EXPECT_EQ(done.bytes.total(), 0u);
  EXPECT_EQ(rig.inspect(target), std::vector<std::byte>(length, std::byte{0x44}));
  EXPECT_FALSE(
      rig.far->export_region(1, 9, rig.view(target), RdmaAccess::read, Policy::direct_preferred)
          .ok())
      << "nothing is offered on it any more";
}

/// A GPU that sees what adapters wrote after a flush only, which fails.
class UnflushedCuda : public support::AroundCuda {
 public:
  using AroundCuda::AroundCuda;
  bool fails = false;
  int flushed = 0;
  CUresult device_get_attribute(int* value, int attribute, CUdevice device) override {
    if (attribute != cuda::attribute_gpu_direct_rdma_writes_ordering)
      return AroundCuda::device_get_attribute(value, attribute, device);
    *value = 0;
    return cuda::success;
  }
  CUresult flush_gpu_direct_rdma_writes(int target, int scope) override {
    ++flushed;
    return fails ? cuda::error_unknown : AroundCuda::flush_gpu_direct_rdma_writes(target, scope);
  }
};

TEST(RdmaProvider, BytesThatTheGpuMayNotSeeAreNotCalledArrived) {
  const Machine machine = RdmaRig::completed(two_adapters());
  auto soft = SoftHost::create(machine, {.deterministic = true});
  ASSERT_TRUE(soft.ok());
  support::AroundHost around(**soft);
  UnflushedCuda table(**around.cuda());
  around.cuda_table = &table;
  auto contexts = system::CudaContexts::open(around, machine);
  ASSERT_TRUE(contexts.ok());
  const auto context = (*contexts)->context(0);
  const system::ContextGuard guard((*contexts)->table(), *context);
  cuda::CUdeviceptr pointer = 0;
  ASSERT_EQ((*contexts)->table().mem_alloc(&pointer, 2u << 20), cuda::success);
  const GpuMemory target{0, DevicePointer{pointer}, 1u << 20};
  const GpuMemory served{0, DevicePointer{pointer + (1u << 20)}, 1u << 20};
  const auto near = provider::make_rdma_provider(around, contexts->get(), machine);
  const auto far = provider::make_rdma_provider(around, contexts->get(), machine);
  const provider::RdmaConnectionOptions options{.near = RdmaRig::gpu(0), .silence_ns = 100'000'000};
  const auto ours = near->open_connection(1, options);
  const auto theirs = far->open_connection(1, options);
  ASSERT_TRUE(ours.ok() && theirs.ok());
  ASSERT_TRUE(far->establish(1, *ours).ok() && near->establish(1, *theirs).ok());
  const auto offered = far->export_region(1, 1, {served, AllocationKind::device},
                                          RdmaAccess::read_write, Policy::direct_preferred);
  ASSERT_TRUE(offered.ok());
  ASSERT_TRUE(near->import_region(1, *offered).ok());
  near->prepare(1, {target, AllocationKind::device});
  for (const bool fails : {false, true}) {
    table.fails = fails;
    table.flushed = 0;
    core::Operation operation;
    operation.id = 1;
    operation.segment.source = RemoteMemory{1, 0, 1, 1u << 20};
    operation.segment.target = target;
    operation.segment.length_bytes = 1u << 20;
    near->submit(std::span(&operation, 1));
    core::Completion completion;
    ASSERT_TRUE(around.workers().wait(
        [&] { return near->poll(around.clock().now_ns(), std::span(&completion, 1)) == 1; },
        (*soft)->clock().now_ns() + rdma_patience_ns));
    EXPECT_EQ(table.flushed, 1);
    EXPECT_EQ(completion.error.has_value(), fails);
    EXPECT_EQ(completion.bytes.total(), fails ? 0u : 1u << 20);
    EXPECT_EQ(far->make_visible(served).ok(), !fails);
    if (fails && completion.error.has_value()) {
      EXPECT_EQ(completion.cause, Cause::rdma_completion_error) << to_string(*completion.error);
    }
  }
}

TEST(RdmaProvider, LimitsOfLockedMemoryAreSaid) {
  SoftOptions options{.deterministic = true};
  options.faults.memlock_bytes = 1u << 20;
  RdmaRig rig(two_adapters(), options);
  const HostMemory memory = rig.allocate_host(length);
  ASSERT_TRUE(rig.join().ok());
  auto offered = rig.far->export_region(1, 3, rig.view(memory, AllocationKind::host_pinned),
                                        RdmaAccess::read, Policy::direct_preferred);
  ASSERT_TRUE(offered.ok());
  EXPECT_TRUE(offered->keys.empty());
  EXPECT_EQ(offered->causes, std::vector<Cause>{Cause::rdma_memlock_limit});
}

// --- choosing adapters ---

TEST(RdmaAdapters, AreChosenByDistanceAndJudgedWhenNamed) {
  RdmaRig rig(*software_machine_description("dgx"));
  ASSERT_TRUE(rig.near->open_connection(1, {.near = rig.gpu(5)}).ok());
  EXPECT_EQ(rig.near->adapters(1), std::vector<std::uint32_t>{5});
  ASSERT_FALSE(rig.near->findings(1).empty());
  for (const Finding& finding : rig.near->findings(1)) {
    EXPECT_EQ(finding.state, FindingState::met) << finding.observed;
  }
  ASSERT_TRUE(rig.near->open_connection(2, {.near = rig.gpu(5), .adapters = {"mlx5_0"}}).ok());
  EXPECT_EQ(rig.near->adapters(2), std::vector<std::uint32_t>{0}) << "a name is honoured";
  std::vector<Cause> causes;
  for (const Finding& finding : rig.near->findings(2)) {
    if (finding.state != FindingState::unmet) continue;
    causes.push_back(finding.cause);
    if (finding.cause == Cause::rdma_wrong_nic) {
      EXPECT_EQ(finding.remedy, "use nic:mlx5_5");
    }
  }
  EXPECT_EQ(causes, (std::vector<Cause>{Cause::rdma_wrong_nic, Cause::machine_cross_socket}));
  const auto unknown = rig.near->open_connection(3, {.adapters = {"mlx5_77"}});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().cause, Cause::rdma_no_rdma_device);
}

TEST(RdmaAdapters, AMachineWithoutAnySaysSo) {
  Machine machine = two_adapters();
  machine.nics.clear();
  RdmaRig rig(machine);
  const auto opened = rig.near->open_connection(1, {});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().cause, Cause::rdma_no_rdma_device);
}

// --- refusals and ends ---

struct Ended : RdmaRig, testing::Test {
  Ended() {
    source = allocate(0, length);
    target = allocate(1, length);
    EXPECT_TRUE(join().ok());
    remote = offer(target, RdmaAccess::read_write);
    near->prepare(1, view(source));
  }
  /// More than is ever under way at once.
  core::OperationId start_large(std::uint64_t deadline_ns = 0) {
    const GpuMemory large_source = allocate(0, large);
    near->prepare(1, view(large_source));
    core::Operation operation;
    operation.id = next_id++;
    operation.deadline_ns = deadline_ns;
    operation.segment.source = large_source;
    operation.segment.target = offer(allocate(1, large), RdmaAccess::read_write, 20);
    operation.segment.length_bytes = large;
    near->submit(std::span(&operation, 1));
    return operation.id;
  }
  static constexpr std::uint64_t large = 128u << 20;
  GpuMemory source;
  GpuMemory target;
  RemoteMemory remote;
};

TEST_F(Ended, WhatIsNotAllowedIsRefusedBeforeAByteMoves) {
  const GpuMemory other = allocate(1, length);
  const RemoteMemory read_only = offer(other, RdmaAccess::read, 8);
  plant(other, std::vector<std::byte>(length, std::byte{0x55}));
  core::Completion done = move(source, read_only);
  ASSERT_TRUE(done.error.has_value());
  EXPECT_EQ(done.error->cause, Cause::remote_access_denied);
  RemoteMemory beyond = remote;
  beyond.address = 1;
  done = move(source, beyond);
  ASSERT_TRUE(done.error.has_value());
  EXPECT_EQ(done.error->cause, Cause::remote_out_of_bounds);
  RemoteMemory unknown = remote;
  unknown.key = 99;
  done = move(source, unknown);
  ASSERT_TRUE(done.error.has_value());
  EXPECT_EQ(done.error->cause, Cause::remote_revoked);
  RemoteMemory elsewhere = remote;
  elsewhere.peer = 5;
  done = move(source, elsewhere);
  ASSERT_TRUE(done.error.has_value());
  EXPECT_EQ(done.error->cause, Cause::remote_peer_lost);
  const GpuMemory unprepared = allocate(0, length);
  done = move(unprepared, remote);
  ASSERT_TRUE(done.error.has_value());
  EXPECT_EQ(done.error->cause, Cause::rdma_registration_failed);
  EXPECT_EQ(done.bytes.total(), 0u);
  EXPECT_EQ(inspect(other), std::vector<std::byte>(length, std::byte{0x55}));
  EXPECT_FALSE(move(source, remote).error.has_value()) << "the connection goes on";
}

TEST_F(Ended, AnExportThatWasRevokedIsOutOfReach) {
  plant(target, std::vector<std::byte>(length, std::byte{0x44}));
  ASSERT_TRUE(far->revoke(1, 7).ok());
  const core::Completion done = move(source, remote);
  ASSERT_TRUE(done.error.has_value());
  EXPECT_EQ(done.error->cause, Cause::rdma_remote_access_error);
  EXPECT_EQ(done.error->origin, ErrorOrigin::verbs);
  EXPECT_EQ(done.bytes.total(), 0u);
  EXPECT_EQ(inspect(target), std::vector<std::byte>(length, std::byte{0x44}));
  ASSERT_TRUE(near->lost(1).has_value());
}

TEST_F(Ended, APeerThatFallsSilentIsLostWithinItsTime) {
  far->close_connection(1);
  const std::uint64_t before_ns = host->clock().now_ns();
  const core::Completion done = move(source, remote);
  ASSERT_TRUE(done.error.has_value());
  EXPECT_EQ(done.error->cause, Cause::rdma_retry_exceeded);
  EXPECT_LT(done.bytes.total(), length);
  EXPECT_LE(host->clock().now_ns() - before_ns, 1'000'000'000u);
  EXPECT_TRUE(near->lost(1).has_value());
  EXPECT_TRUE(move(source, remote).error.has_value()) << "and stays lost";
  near->close_connection(1);
  ASSERT_TRUE(join(2).ok()) << "memory is usable on a new connection";
  remote = offer(target, RdmaAccess::read_write, 9, 2);
  near->prepare(2, view(source));
  EXPECT_FALSE(move(source, remote).error.has_value());
}

TEST_F(Ended, ADeadlineThatHasPassedStopsWhatIsLeft) {
  const core::Completion done = await(start_large(host->clock().now_ns() + 1));
  ASSERT_TRUE(done.error.has_value());
  EXPECT_EQ(done.error->cause, Cause::session_deadline_passed);
  EXPECT_LT(done.bytes.total(), large);
  EXPECT_FALSE(move(source, remote).error.has_value());
}

TEST_F(Ended, ACancelledOperationEndsWhenItsRequestsHave) {
  const core::OperationId id = start_large();
  near->cancel(id);
  const core::Completion done = await(id);
  ASSERT_TRUE(done.error.has_value());
  EXPECT_EQ(done.error->cause, Cause::session_cancelled);
  EXPECT_LT(done.bytes.total(), large);
}

TEST_F(Ended, ClosingWithWorkUnderWayEndsItAsClosed) {
  (void)start_large();
  EXPECT_TRUE(near->close(host->clock().now_ns() + rdma_patience_ns));
  core::Completion completion;
  ASSERT_EQ(near->poll(host->clock().now_ns(), std::span(&completion, 1)), 1u);
  ASSERT_TRUE(completion.error.has_value());
  EXPECT_EQ(completion.error->cause, Cause::session_closed);
}

TEST_F(Ended, AKeyOfOneConnectionIsOfNoUseOnAnother) {
  ASSERT_TRUE(join(2).ok());
  RdmaExport stolen = last_offer;
  stolen.id = 12;
  ASSERT_TRUE(near->import_region(2, stolen).ok()) << "nothing tells a stolen key from another";
  near->prepare(2, view(source));
  plant(target, std::vector<std::byte>(length, std::byte{0x66}));
  const core::Completion done = move(source, RemoteMemory{2, 0, 12, length});
  ASSERT_TRUE(done.error.has_value());
  EXPECT_EQ(done.error->cause, Cause::rdma_remote_access_error);
  EXPECT_EQ(inspect(target), std::vector<std::byte>(length, std::byte{0x66}));
  EXPECT_FALSE(move(source, remote).error.has_value()) << "the first connection goes on";
}

TEST_F(Ended, OffersThatContradictThemselvesAreRefused) {
  RdmaExport bad = last_offer;
  bad.id = 13;
  bad.keys.pop_back();
  EXPECT_FALSE(near->import_region(1, bad).ok()) << "a lane without key";
  bad = last_offer;
  bad.keys[0].length_bytes += 1;
  EXPECT_FALSE(near->import_region(1, bad).ok()) << "lengths that differ";
  bad = last_offer;
  for (wire::RemoteKey& key : bad.keys) key.address = ~std::uint64_t{0} - 5;
  EXPECT_FALSE(near->import_region(1, bad).ok()) << "addresses that wrap";
}

// --- every call fails once ---

TEST(RdmaProvider, SurvivesTheFailureOfAnyCallOfVerbs) {
  const Machine machine = RdmaRig::completed(two_adapters());
  std::uint64_t failed = 0;
  for (std::uint64_t nth = 1; nth < 400; ++nth) {
    auto soft = SoftHost::create(machine, {.deterministic = true});
    ASSERT_TRUE(soft.ok());
    SoftHost& inner = **soft;
    const auto faulty = system::FaultyHost::wrap(inner, {.fail_call = nth, .only = "verbs."});
    auto contexts = system::CudaContexts::open(*faulty, machine);
    ASSERT_TRUE(contexts.ok());
    {
      const auto context = (*contexts)->context(0);
      const system::ContextGuard guard((*contexts)->table(), *context);
      cuda::CUdeviceptr pointer = 0;
      ASSERT_EQ((*contexts)->table().mem_alloc(&pointer, 2u << 20), cuda::success);
      const GpuMemory memory{0, DevicePointer{pointer}, 2u << 20};
      const GpuMemory source{0, DevicePointer{pointer}, 1u << 20};
      const auto near = provider::make_rdma_provider(*faulty, contexts->get(), machine);
      const auto far = provider::make_rdma_provider(*faulty, contexts->get(), machine);
      const provider::RdmaConnectionOptions options{.near = RdmaRig::gpu(0),
                                                    .silence_ns = 100'000'000};
      const auto ours = near->open_connection(1, options);
      const auto theirs = far->open_connection(1, options);
      if (ours.ok() && theirs.ok() && far->establish(1, *ours).ok() &&
          near->establish(1, *theirs).ok()) {
        const auto offered = far->export_region(1, 1, {memory, AllocationKind::device},
                                                RdmaAccess::read_write, Policy::direct_preferred);
        if (offered.ok() && near->import_region(1, *offered).ok()) {
          near->prepare(1, {source, AllocationKind::device});
          core::Operation operation;
          operation.id = 1;
          operation.segment.source = source;
          operation.segment.target = RemoteMemory{1, 1u << 20, 1, 1u << 20};
          operation.segment.length_bytes = 1u << 20;
          inner.bus().plant(End::of(source.address), pattern(1u << 20, nth));
          near->submit(std::span(&operation, 1));
          core::Completion completion;
          ASSERT_TRUE(faulty->workers().wait(
              [&] { return near->poll(inner.clock().now_ns(), std::span(&completion, 1)) == 1; },
              inner.clock().now_ns() + rdma_patience_ns))
              << "call " << nth << " (" << faulty->failed_call() << ") hangs";
          if (!completion.error.has_value()) {
            std::vector<std::byte> seen(1u << 20);
            inner.bus().inspect(End::of(DevicePointer{pointer + (1u << 20)}), seen);
            EXPECT_EQ(seen, pattern(1u << 20, nth))
                << "call " << nth << " (" << faulty->failed_call() << ") lies";
          }
        }
      }
    }
    EXPECT_EQ(inner.bus().bar1_used_bytes(0), 0u)
        << "call " << nth << " (" << faulty->failed_call() << ") leaks";
    if (faulty->failed_call().empty()) break;
    failed = nth;
  }
  EXPECT_GT(failed, 60u);
  EXPECT_LT(failed, 399u) << "the last call was not reached";
}

}  // namespace
}  // namespace nobounce::fabric
