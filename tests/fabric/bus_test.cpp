// The bus: routing by ACS, forwarding, IOMMU and sockets; windows that run out; what each operation
// counts.
#include "fabric/bus.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "bus_rig.hpp"

namespace nobounce::fabric {
namespace {

constexpr Initiator drive0{Initiator::Kind::drive, 0};
constexpr Initiator drive1{Initiator::Kind::drive, 1};
constexpr Initiator nic0{Initiator::Kind::nic, 0};
constexpr Initiator engine0{Initiator::Kind::copy_engine, 0};
constexpr Initiator engine1{Initiator::Kind::copy_engine, 1};
constexpr std::size_t length = 70000;

Ledger::LinkBytes link(const Bus& bus, const std::string& name) {
  const auto links = bus.ledger().links();
  const auto found = links.find(name);
  return found == links.end() ? Ledger::LinkBytes{} : found->second;
}

/// A load that the compiler may not leave out.
std::byte touch(const std::byte* address) {
  return *static_cast<const volatile std::byte*>(address);
}

struct RoutingCase {
  const char* name;
  BusMachineShape shape;
  std::uint32_t gpu;
  BusOutcome outcome;
  Link link;
  bool redirected;
  std::vector<const char*> crossed;  ///< links that must have carried the payload; all others none
};

class Routing : public ::testing::TestWithParam<RoutingCase> {};

TEST_P(Routing, DriveToGpu) {
  const RoutingCase& expected = GetParam();
  const auto bus = make_bus(bus_machine(expected.shape));
  const auto payload = random_payload(length, 5);
  const TestFile file(payload);
  const DevicePointer target = bus->vram_base(expected.gpu).plus(12345);
  const Result<BusAddress> window = bus->map_bar1(target, length);
  ASSERT_TRUE(window.ok());
  const Carried carried =
      bus->dma(drive0, End::of(file.medium(), FileOffset{0}), End::at(*window), length);
  EXPECT_EQ(carried.outcome, expected.outcome);
  EXPECT_EQ(carried.link, expected.link);
  EXPECT_EQ(carried.redirected, expected.redirected);
  const bool arrived = expected.outcome == BusOutcome::done;
  EXPECT_EQ(carried.bytes, arrived ? length : 0);
  const auto seen = inspect(*bus, End::of(target), length);
  EXPECT_EQ(seen, arrived ? payload : std::vector<std::byte>(length));
  EXPECT_EQ(bus->ledger().lost_bytes(), arrived ? 0 : length);
  EXPECT_EQ(bus->ledger().dram_bytes(), 0u);
  const Arrivals arrivals = bus->ledger().arrivals(bus->extent_of(End::of(target)), length);
  EXPECT_EQ(arrivals.bytes[Carriage::direct], arrived ? length : 0);
  EXPECT_EQ(arrivals.bytes.total(), arrived ? length : 0);
  EXPECT_EQ(arrivals.redirected, arrived && expected.redirected);
  std::uint64_t total = 0;
  for (const auto& [name, counted] : bus->ledger().links()) {
    total += counted.towards_device + counted.towards_root;
  }
  EXPECT_EQ(total, expected.crossed.size() * length);
  for (const char* name : expected.crossed) {
    const Ledger::LinkBytes counted = link(*bus, name);
    EXPECT_EQ(counted.towards_device + counted.towards_root, length) << name;
  }
}

constexpr AcsMode redirect = AcsMode::redirect;
constexpr PeerForwarding allowed = PeerForwarding::allowed;
constexpr PeerForwarding refused = PeerForwarding::refused;

INSTANTIATE_TEST_SUITE_P(
    Table, Routing,
    ::testing::Values(RoutingCase{"under_one_switch",
                                  {},
                                  0,
                                  BusOutcome::done,
                                  Link::pcie_switch,
                                  false,
                                  {"switch:0/drive:0", "switch:0/gpu:0"}},
                      RoutingCase{"source_validation_is_harmless",
                                  {false, AcsMode::source_validation},
                                  0,
                                  BusOutcome::done,
                                  Link::pcie_switch,
                                  false,
                                  {"switch:0/drive:0", "switch:0/gpu:0"}},
                      RoutingCase{"redirected_and_refused",
                                  {false, redirect, refused},
                                  0,
                                  BusOutcome::lost,
                                  Link::host_bridge,
                                  true,
                                  {"switch:0/drive:0", "host_bridge:0/switch:0"}},
                      RoutingCase{"unknown_forwarding_is_no_forwarding",
                                  {false, redirect, PeerForwarding::unknown},
                                  0,
                                  BusOutcome::lost,
                                  Link::host_bridge,
                                  true,
                                  {"switch:0/drive:0", "host_bridge:0/switch:0"}},
                      RoutingCase{"across_sockets_refused",
                                  {true, AcsMode::off, refused},
                                  1,
                                  BusOutcome::lost,
                                  Link::inter_socket,
                                  false,
                                  {"switch:0/drive:0", "host_bridge:0/switch:0"}},
                      RoutingCase{"across_sockets_forwarded",
                                  {true, AcsMode::off, allowed},
                                  1,
                                  BusOutcome::done,
                                  Link::inter_socket,
                                  false,
                                  {"switch:0/drive:0", "host_bridge:0/switch:0", "inter_socket:0-1",
                                   "host_bridge:1/gpu:1"}},
                      RoutingCase{"iommu_identity_changes_nothing",
                                  {false, AcsMode::off, refused, IommuMode::identity},
                                  0,
                                  BusOutcome::done,
                                  Link::pcie_switch,
                                  false,
                                  {"switch:0/drive:0", "switch:0/gpu:0"}},
                      RoutingCase{"iommu_translating_knows_no_peer",
                                  {false, AcsMode::off, allowed, IommuMode::translated},
                                  0,
                                  BusOutcome::lost,
                                  Link::host_bridge,
                                  true,
                                  {"switch:0/drive:0", "host_bridge:0/switch:0"}}),
    [](const auto& one) { return one.param.name; });

TEST(Bus, RedirectedAndForwardedCrossesTheUplinkTwice) {
  const auto bus = make_bus(bus_machine({false, redirect, allowed}));
  const TestFile file(random_payload(length, 5));
  const BusAddress window = *bus->map_bar1(bus->vram_base(0), length);
  const Carried carried =
      bus->dma(drive0, End::of(file.medium(), FileOffset{0}), End::at(window), length);
  EXPECT_TRUE(carried.ok());
  EXPECT_TRUE(carried.redirected);
  EXPECT_EQ(carried.link, Link::host_bridge);
  EXPECT_EQ(link(*bus, "host_bridge:0/switch:0").towards_root, length);
  EXPECT_EQ(link(*bus, "host_bridge:0/switch:0").towards_device, length);
  EXPECT_EQ(link(*bus, "switch:0/gpu:0").towards_device, length);
}

TEST(Bus, AcrossSocketsBothHostBridgesMustForward) {
  for (const std::size_t refusing : {0u, 1u}) {
    Machine machine = bus_machine({true, AcsMode::off, allowed});
    machine.host_bridges[refusing].peer_forwarding = refused;
    const auto bus = make_bus(machine);
    const TestFile file(random_payload(length, 5));
    const Result<BusAddress> window = bus->map_bar1(bus->vram_base(1), length);
    ASSERT_TRUE(window.ok());
    const Carried carried =
        bus->dma(drive0, End::of(file.medium(), FileOffset{0}), End::at(*window), length);
    EXPECT_EQ(carried.outcome, BusOutcome::lost) << "host_bridge:" << refusing << " was not asked";
  }
}

TEST(Bus, ATranslatingIommuForwardsWhatItWasTold) {
  const auto bus = make_bus(bus_machine({false, AcsMode::off, allowed, IommuMode::translated}));
  const auto payload = random_payload(length, 5);
  const TestFile file(payload);
  const BusAddress window = *bus->map_bar1(bus->vram_base(0), length);
  const End source = End::of(file.medium(), FileOffset{0});
  bus->map_iommu(window, length);
  EXPECT_TRUE(bus->dma(drive0, source, End::at(window), length).ok());
  EXPECT_EQ(inspect(*bus, End::of(bus->vram_base(0)), length), payload);
  EXPECT_EQ(bus->dma(drive0, source, End::at(window.plus(1)), length).outcome, BusOutcome::lost);
  bus->unmap_iommu(window);
  EXPECT_EQ(bus->dma(drive0, source, End::at(window), length).outcome, BusOutcome::lost);
}

TEST(Bus, GpuToFileIsReadThroughTheWindow) {
  const auto bus = make_bus(bus_machine());
  const auto payload = random_payload(length, 6);
  const TestFile file({});
  const DevicePointer source = bus->vram_base(0).plus(65536);
  ASSERT_TRUE(bus->plant(End::of(source), payload));
  const BusAddress window = *bus->map_bar1(source, length);
  const End target = End::of(file.medium(), FileOffset{0});
  const Carried carried = bus->dma(drive0, End::at(window), target, length);
  EXPECT_TRUE(carried.ok());
  EXPECT_EQ(file.content(), payload);
  EXPECT_EQ(bus->ledger().arrivals(bus->extent_of(target), length).bytes[Carriage::direct], length);
  EXPECT_EQ(link(*bus, "switch:0/gpu:0").towards_root, length);
  EXPECT_EQ(link(*bus, "switch:0/drive:0").towards_device, length);
}

TEST(Bus, ADriveBehindANicIsMovedByTheNic) {
  const auto bus = make_bus(bus_machine());
  const TestFile file(random_payload(length, 5));
  const BusAddress window = *bus->map_bar1(bus->vram_base(0), length);
  const End source = End::of(file.medium(1), FileOffset{0});
  EXPECT_TRUE(bus->dma(drive1, source, End::at(window), length).ok());
  EXPECT_TRUE(bus->dma(nic0, source, End::at(window), length).ok());
  EXPECT_EQ(link(*bus, "switch:0/nic:0").towards_root, 2 * length);
  for (const auto& [flow, bytes] : bus->ledger().flows()) EXPECT_EQ(flow.initiator, nic0);
}

TEST(Bus, DevicesNameOnlyWhatTheyCan) {
  const auto bus = make_bus(bus_machine());
  const TestFile file(random_payload(length, 5));
  const End medium = End::of(file.medium(), FileOffset{0});
  const End vram = End::of(bus->vram_base(0));
  const BusAddress window = *bus->map_bar1(bus->vram_base(0), 65536);
  struct Case {
    const char* name;
    Initiator initiator;
    End source;
    End target;
  };
  const Case cases[] = {
      {"a drive by device pointer", drive0, medium, vram},
      {"another drive's medium", drive1, medium, End::at(window)},
      {"a NIC that the drive is not behind", nic0, medium, End::at(window)},
      {"the CPU", {}, medium, End::at(window)},
      {"beyond the mapping", drive0, medium, End::at(window)},
      {"an address that nobody claims", drive0, medium, End::at(BusAddress{4096})},
      {"an engine of another GPU", engine1, vram, vram},
      {"an engine and a medium", engine0, medium, vram},
      {"a medium on no drive", drive0, End::of(file.medium(std::nullopt), FileOffset{0}),
       End::at(window)},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const Carried carried = bus->dma(one.initiator, one.source, one.target, length);
    EXPECT_EQ(carried.outcome, BusOutcome::bad_address);
    EXPECT_EQ(carried.bytes, 0u);
  }
  EXPECT_TRUE(bus->ledger().flows().empty());
  EXPECT_TRUE(bus->ledger().links().empty());
}

TEST(Bus, ZeroBytesAreDoneAndNotRecorded) {
  const auto bus = make_bus(bus_machine());
  EXPECT_TRUE(bus->dma(drive0, End{}, End{}, 0).ok());
  EXPECT_TRUE(bus->cpu_copy({}, {}, 0).ok());
  EXPECT_TRUE(bus->ledger().flows().empty());
}

TEST(Bus, AFaultLosesThePeerRequest) {
  bool strike = true;
  BusOptions options;
  options.dma_fault = [&] { return strike; };
  const auto bus = make_bus(bus_machine(), options);
  const TestFile file(random_payload(length, 5));
  const BusAddress window = *bus->map_bar1(bus->vram_base(0), length);
  const End source = End::of(file.medium(), FileOffset{0});
  EXPECT_EQ(bus->dma(drive0, source, End::at(window), length).outcome, BusOutcome::faulted);
  EXPECT_EQ(inspect(*bus, End::of(bus->vram_base(0)), length), std::vector<std::byte>(length));
  EXPECT_EQ(bus->ledger().lost_bytes(), length);
  strike = false;
  EXPECT_TRUE(bus->dma(drive0, source, End::at(window), length).ok());
}

TEST(Bus, TheEndOfAFileEndsARequest) {
  const auto bus = make_bus(bus_machine());
  const auto payload = random_payload(1000, 5);
  const TestFile file(payload);
  const BusAddress window = *bus->map_bar1(bus->vram_base(0), length);
  const Carried carried =
      bus->dma(drive0, End::of(file.medium(), FileOffset{900}), End::at(window), length);
  EXPECT_TRUE(carried.ok());
  EXPECT_EQ(carried.bytes, 100u);
  EXPECT_EQ(link(*bus, "switch:0/gpu:0").towards_device, 100u);
}

TEST(Bus, ABadDescriptorIsAnIoError) {
  const auto bus = make_bus(bus_machine());
  const BusAddress window = *bus->map_bar1(bus->vram_base(0), length);
  const Carried carried =
      bus->dma(drive0, End::of(Medium{0, -1, 1}, FileOffset{0}), End::at(window), length);
  EXPECT_EQ(carried.outcome, BusOutcome::io_error);
  EXPECT_EQ(carried.errno_value, EBADF);
  EXPECT_EQ(carried.bytes, 0u);
}

TEST(Bar1, WindowsRunOutAndComeBack) {
  const auto bus = make_bus(bus_machine({.bar1_bytes = 1u << 20}));  // 16 windows
  const DevicePointer base = bus->vram_base(0);
  const Result<BusAddress> first = bus->map_bar1(base.plus(100), 65536);  // covers two windows
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(bus->bar1_used_bytes(0), 2u * 65536);
  const Result<BusAddress> second = bus->map_bar1(base, 14 * 65536);
  ASSERT_TRUE(second.ok());
  const Result<BusAddress> third = bus->map_bar1(base, 1);
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().detail, "BAR1 exhausted");
  EXPECT_TRUE(bus->map_bar1(bus->vram_base(1), 1).ok()) << "the other GPU has its own";
  EXPECT_FALSE(bus->unmap_bar1(first->plus(1)));
  EXPECT_TRUE(bus->unmap_bar1(*first));
  EXPECT_FALSE(bus->unmap_bar1(*first));
  EXPECT_FALSE(bus->map_bar1(base, 3 * 65536).ok());
  EXPECT_TRUE(bus->map_bar1(base, 2 * 65536).ok());
  EXPECT_EQ(bus->bar1_used_bytes(0), 16u * 65536);
}

TEST(Bar1, AWindowShowsTheMemoryBehindIt) {
  const auto bus = make_bus(bus_machine());
  const auto payload = random_payload(200000, 9);
  const DevicePointer memory = bus->vram_base(1).plus(777777);
  ASSERT_TRUE(bus->plant(End::of(memory), payload));
  const BusAddress window = *bus->map_bar1(memory, payload.size());
  EXPECT_EQ(inspect(*bus, End::at(window), payload.size()), payload);
  std::vector<std::byte> beyond(payload.size() + 2 * 65536);
  EXPECT_FALSE(bus->inspect(End::at(window), beyond));
}

TEST(Bar1, MappingOutsideTheMemoryIsRefused) {
  const auto bus = make_bus(bus_machine());
  EXPECT_FALSE(bus->map_bar1(bus->vram_base(0).plus((1u << 30) - 10), 11).ok());
  EXPECT_FALSE(bus->map_bar1(bus->vram_base(0), 0).ok());
  EXPECT_FALSE(bus->map_bar1(DevicePointer{4096}, 10).ok());
  EXPECT_EQ(bus->bar1_used_bytes(0), 0u);
}

TEST(Dram, PinnedCopiesToTheGpuReadDramOnce) {
  const auto bus = make_bus(bus_machine());
  const auto payload = random_payload(length, 3);
  const DramBuffer buffer = *bus->allocate_dram(1, length, DramUse::user);
  std::memcpy(buffer.view, payload.data(), length);
  const End vram = End::of(bus->vram_base(0));
  const Carried carried = bus->dma(engine0, End::at(bus->address_of(buffer.view)), vram, length);
  EXPECT_TRUE(carried.ok());
  EXPECT_EQ(carried.link, Link::inter_socket) << "node 1 is on the other socket";
  EXPECT_EQ(inspect(*bus, vram, length), payload);
  EXPECT_EQ(bus->ledger().dram_read_bytes(1), length);
  EXPECT_EQ(bus->ledger().dram_bytes(), length);
  EXPECT_EQ(bus->ledger().cpu_touched_bytes(), 0u);
  EXPECT_EQ(link(*bus, "switch:0/gpu:0").towards_device, length);
  bus->free_dram(buffer);
  EXPECT_EQ(bus->dma(engine0, End::at(buffer.address), vram, length).outcome,
            BusOutcome::bad_address);
}

TEST(Dram, MemoryOfTheCallersOwnIsReachable) {
  const auto bus = make_bus(bus_machine());
  const auto payload = random_payload(length, 3);
  const End vram = End::of(bus->vram_base(0));
  EXPECT_TRUE(bus->dma(engine0, End::at(bus->address_of(payload.data())), vram, length).ok());
  std::vector<std::byte> back(length);
  EXPECT_TRUE(bus->dma(engine0, vram, End::at(bus->address_of(back.data())), length).ok());
  EXPECT_EQ(back, payload);
  EXPECT_EQ(bus->ledger().dram_read_bytes(0), length);
  EXPECT_EQ(bus->ledger().dram_written_bytes(0), length);
}

TEST(Dram, ANodeHasNoMoreThanItHas) {
  const auto bus = make_bus(bus_machine());  // 64 MiB a node
  const Result<DramBuffer> most = bus->allocate_dram(0, 60u << 20, DramUse::user);
  ASSERT_TRUE(most.ok());
  const Result<DramBuffer> more = bus->allocate_dram(0, 8u << 20, DramUse::user);
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().origin, ErrorOrigin::fabric);
  EXPECT_TRUE(bus->allocate_dram(1, 8u << 20, DramUse::user).ok());
  EXPECT_FALSE(bus->allocate_dram(2, 4096, DramUse::user).ok());
  bus->free_dram(*most);
  EXPECT_TRUE(bus->allocate_dram(0, 8u << 20, DramUse::user).ok());
}

TEST(Dram, BounceMemoryIsForTheBusAlone) {
  BusOptions options;
  options.trap_cpu_touches = true;
  const auto bus = make_bus(bus_machine(), options);
  const auto payload = random_payload(length, 3);
  const DramBuffer buffer = *bus->allocate_dram(0, length, DramUse::bounce);
  EXPECT_TRUE(bus->cpu_copy(buffer.address, bus->address_of(payload.data()), length).ok());
  EXPECT_EQ(bus->address_of(buffer.view + 10), buffer.address.plus(10));
  EXPECT_EQ(bus->cpu_touches(), 0u);
  // A touch of the view is counted, once a page, and finds the bytes.
  EXPECT_EQ(touch(buffer.view + 5), payload[5]);
  EXPECT_EQ(touch(buffer.view + 6), payload[6]);
  EXPECT_EQ(bus->cpu_touches(), 1u);
  EXPECT_EQ(touch(buffer.view + 5000), payload[5000]);
  EXPECT_EQ(bus->cpu_touches(), 2u);
  // The next request closes the pages again.
  EXPECT_TRUE(bus->cpu_copy(buffer.address, bus->address_of(payload.data()), length).ok());
  EXPECT_EQ(touch(buffer.view + 5), payload[5]);
  EXPECT_EQ(bus->cpu_touches(), 3u);
}

TEST(DramDeathTest, WithoutTheTrapATouchOfBounceMemoryDies) {
  const auto bus = make_bus(bus_machine());
  const DramBuffer buffer = *bus->allocate_dram(0, length, DramUse::bounce);
  EXPECT_DEATH((void)touch(buffer.view + 5), "");
}

TEST(DramDeathTest, TheTrapLeavesOtherFaultsAlone) {
  EXPECT_DEATH(
      {
        BusOptions options;
        options.trap_cpu_touches = true;
        const auto bus = make_bus(bus_machine(), options);
        volatile std::byte* nowhere = reinterpret_cast<std::byte*>(bus->vram_base(0).value);
        *nowhere = std::byte{1};
      },
      "");
}

TEST(FileIo, EachWayCountsWhatItTouches) {
  struct Case {
    const char* name;
    std::optional<std::uint32_t> drive;
    FileIo io;
    bool reading;
    std::uint64_t dram_read, dram_written, cpu, link;  // in payloads
    Carriage carriage;
  };
  const Case cases[] = {
      {"buffered read", 0, FileIo::buffered, true, 1, 2, 1, 1, Carriage::staged},
      {"buffered write", 0, FileIo::buffered, false, 2, 1, 1, 1, Carriage::staged},
      {"direct read", 0, FileIo::direct, true, 0, 1, 0, 1, Carriage::direct},
      {"direct write", 0, FileIo::direct, false, 1, 0, 0, 1, Carriage::staged},
      {"read from no drive", std::nullopt, FileIo::buffered, true, 1, 1, 1, 0, Carriage::staged},
      {"write to no drive", std::nullopt, FileIo::direct, false, 1, 1, 1, 0, Carriage::staged},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const auto bus = make_bus(bus_machine());
    const auto payload = random_payload(length, 4);
    const TestFile file(one.reading ? payload : std::vector<std::byte>{});
    const Medium medium = file.medium(one.drive);
    std::vector<std::byte> memory = one.reading ? std::vector<std::byte>(length) : payload;
    const BusAddress address = bus->address_of(memory.data());
    const Carried carried = one.reading
                                ? bus->read_file(medium, FileOffset{0}, address, length, one.io)
                                : bus->write_file(medium, FileOffset{0}, address, length, one.io);
    EXPECT_TRUE(carried.ok());
    EXPECT_EQ(carried.bytes, length);
    EXPECT_EQ(one.reading ? memory : file.content(), payload);
    EXPECT_EQ(bus->ledger().dram_read_bytes(0), one.dram_read * length);
    EXPECT_EQ(bus->ledger().dram_written_bytes(0), one.dram_written * length);
    EXPECT_EQ(bus->ledger().cpu_touched_bytes(), one.cpu * length);
    const Ledger::LinkBytes port = link(*bus, "switch:0/drive:0");
    EXPECT_EQ(port.towards_device + port.towards_root, one.link * length);
    const Extent target =
        bus->extent_of(one.reading ? End::at(address) : End::of(medium, FileOffset{0}));
    EXPECT_EQ(bus->ledger().arrivals(target, length).bytes[one.carriage], length);
  }
}

TEST(FileIo, WritingFromTheTransfersOwnMemoryIsDirect) {
  const auto bus = make_bus(bus_machine());
  const auto payload = random_payload(length, 4);
  const TestFile file({});
  const End own = End::at(bus->address_of(payload.data()));
  const End target = End::of(file.medium(), FileOffset{0});
  EXPECT_TRUE(
      bus->write_file(file.medium(), FileOffset{0}, own.address, length, FileIo::direct).ok());
  const Arrivals arrivals =
      bus->ledger().arrivals(bus->extent_of(target), length, bus->extent_of(own), length);
  EXPECT_EQ(arrivals.bytes[Carriage::direct], length);
}

TEST(Peers, TakeNvlinkWhereThereIsOne) {
  const auto bus = make_bus(bus_machine({.acs = redirect, .nvlinks = 4}));
  const auto payload = random_payload(length, 8);
  ASSERT_TRUE(bus->plant(End::of(bus->vram_base(1)), payload));
  const Carried carried =
      bus->dma(engine0, End::of(bus->vram_base(1)), End::of(bus->vram_base(0)), length);
  EXPECT_TRUE(carried.ok());
  EXPECT_EQ(carried.link, Link::nvlink);
  EXPECT_EQ(inspect(*bus, End::of(bus->vram_base(0)), length), payload);
  EXPECT_EQ(link(*bus, "nvlink:0-1").towards_root, length) << "from the higher number down";
  EXPECT_EQ(bus->ledger().links().size(), 1u);
}

TEST(Peers, OverPcieFollowTheSameRulesAsAnyDevice) {
  for (const bool acs : {false, true}) {
    const auto bus = make_bus(bus_machine({.acs = acs ? redirect : AcsMode::off}));
    const auto payload = random_payload(length, 8);
    ASSERT_TRUE(bus->plant(End::of(bus->vram_base(0)), payload));
    const Carried carried =
        bus->dma(engine0, End::of(bus->vram_base(0)), End::of(bus->vram_base(1)), length);
    EXPECT_EQ(carried.outcome, acs ? BusOutcome::lost : BusOutcome::done);
    EXPECT_EQ(inspect(*bus, End::of(bus->vram_base(1)), length) == payload, !acs);
  }
}

TEST(Vram, DiscardedMemoryReadsAsZeros) {
  const auto bus = make_bus(bus_machine());
  const DevicePointer at = bus->vram_base(0).plus(2u << 20);
  EXPECT_TRUE(bus->fill_vram(at, 0xab, 2u << 20).ok());
  EXPECT_EQ(inspect(*bus, End::of(at), 1)[0], std::byte{0xab});
  bus->discard_vram(at, 2u << 20);
  EXPECT_EQ(inspect(*bus, End::of(at), 1)[0], std::byte{0});
  EXPECT_EQ(bus->fill_vram(bus->vram_base(0).plus(1u << 30), 1, 1).outcome,
            BusOutcome::bad_address);
}

TEST(Vram, AFillOfTheDriversOwnMemoryIsNoBounce) {
  const auto bus = make_bus(bus_machine());
  const DevicePointer own = bus->vram_base(0);
  bus->mark_internal(own, length, true);
  EXPECT_TRUE(bus->fill_vram(own, 1, length).ok());
  const Arrivals arrivals = bus->ledger().arrivals(bus->extent_of(End::of(own)), length);
  EXPECT_EQ(arrivals.bytes[Carriage::direct], length);
}

TEST(Vram, EightGpusOfEightyGibibytesFit) {
  Machine machine = bus_machine();
  machine.gpus.assign(8, machine.gpus[0]);
  for (Gpu& gpu : machine.gpus) {
    gpu.memory_bytes = std::uint64_t{80} << 30;
    gpu.bdf.clear();
    gpu.uuid.clear();
  }
  machine.switches[0].ports.clear();
  core::complete_machine(machine);
  const auto bus = make_bus(machine);
  for (std::uint32_t gpu = 0; gpu < 8; ++gpu) {
    const DevicePointer last = bus->vram_base(gpu).plus((std::uint64_t{80} << 30) - 1);
    EXPECT_TRUE(bus->fill_vram(last, static_cast<std::uint8_t>(gpu + 1), 1).ok());
    EXPECT_EQ(bus->gpu_of(last), gpu);
  }
}

TEST(Bus, MachinesThatCannotBeAreRefused) {
  Machine machine = bus_machine();
  machine.gpus[0].memory_bytes = std::uint64_t{5} << 40;
  const auto bus = Bus::create(machine);
  ASSERT_FALSE(bus.ok());
  EXPECT_EQ(bus.error().origin, ErrorOrigin::fabric);
}

}  // namespace
}  // namespace nobounce::fabric
