// Our NVMe driver on the software machine's controller: the common cases, and what only a machine
// with faults and a ledger can show.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "fabric/bus.hpp"
#include "fabric/soft_host.hpp"
#include "provider/nvme/prp.hpp"
#include "support/nvme_cases.hpp"
#include "support/soft_session.hpp"
#include "system/faulty_host.hpp"

namespace nobounce::fabric {
namespace {

using provider::nvme::Controller;
using provider::nvme::ControllerOptions;
using support::Bytes;
using support::Opcode;
using support::pattern;

constexpr std::uint64_t window_bytes = 8u << 20;
constexpr std::uint32_t spare = 1;  ///< the drive of machine spare-drive that may be owned

SoftOptions seeded(std::uint64_t seed, const SoftFaults& faults = {}) {
  SoftOptions options;
  options.deterministic = true;
  options.seed = seed;
  options.faults = faults;
  return options;
}

/// The spare drive of a software machine, and GPU 0 as its peer.
class SoftRig final : public support::NvmeRig {
 public:
  explicit SoftRig(const SoftOptions& options = seeded(1),
                   const Machine& machine = test::machine_with("spare-drive")) {
    auto made = SoftHost::create(machine, options);
    if (!made.ok()) throw std::runtime_error(to_string(made.error()));
    host_ = std::move(*made);
    auto cuda = host_->cuda();
    system::cuda::CUcontext context = nullptr;
    (void)(*cuda)->init(0);
    (void)(*cuda)->device_primary_ctx_retain(&context, 0);
    (void)(*cuda)->ctx_push_current(context);
    (void)(*cuda)->mem_alloc(&memory_, window_bytes);
    medium_ = host_->raw_medium(spare);
    const Bytes bytes = pattern(0, 4u << 20);
    if (!medium_.has_value() || ::pwrite(medium_->descriptor, bytes.data(), bytes.size(), 0) !=
                                    static_cast<ssize_t>(bytes.size())) {
      throw std::runtime_error("the medium cannot be written");
    }
    auto opened = (*host_->pci())->open(machine.drives[spare].bdf);
    if (!opened.ok()) throw std::runtime_error(to_string(opened.error()));
    drive_ = std::move(*opened);
    const Result<Iova> iova = drive_->map_gpu(GpuMemory{0, DevicePointer{memory_}, window_bytes});
    if (!iova.ok()) throw std::runtime_error(to_string(iova.error()));
    peer_ = *iova;
  }

  system::Host& host() override { return *host_; }
  system::PciFunction& drive() override { return *drive_; }
  Iova peer() override { return peer_; }
  std::uint64_t peer_bytes() override { return window_bytes; }
  Bytes look_at_peer(std::uint64_t offset, std::size_t length) override {
    Bytes bytes(length);
    EXPECT_TRUE(soft().bus().inspect(End::of(DevicePointer{memory_ + offset}), bytes));
    return bytes;
  }
  void fill_peer(std::uint64_t offset, const Bytes& bytes) override {
    EXPECT_TRUE(soft().bus().plant(End::of(DevicePointer{memory_ + offset}), bytes));
  }
  std::optional<system::DmaBuffer> peer_queue(std::uint64_t, std::uint64_t) override {
    return std::nullopt;  // no CPU dereferences GPU memory here: kernels own queues that lie in it
  }
  std::optional<Bytes> look_at_medium(std::uint64_t offset, std::size_t length) override {
    Bytes bytes(length);
    EXPECT_EQ(::pread(medium_->descriptor, bytes.data(), length, static_cast<off_t>(offset)),
              static_cast<ssize_t>(length));
    return bytes;
  }

  SoftHost& soft() { return *host_; }
  [[nodiscard]] CarriageBytes arrived(std::uint64_t offset, std::uint64_t length) {
    const Extent extent = soft().bus().extent_of(End::of(DevicePointer{memory_ + offset}));
    return soft().ledger().arrivals(extent, length).bytes;
  }

 private:
  std::unique_ptr<SoftHost> host_;
  system::cuda::CUdeviceptr memory_ = 0;
  std::optional<Medium> medium_;
  std::unique_ptr<system::PciFunction> drive_;
  Iova peer_;
};

#define NOBOUNCE_TEST(name, run) \
  TEST(SoftNvme, name) {         \
    SoftRig rig;                 \
    support::run(rig);           \
  }
NOBOUNCE_NVME_CASES(NOBOUNCE_TEST)
#undef NOBOUNCE_TEST

TEST(SoftNvme, LosesDataInSilence) {
  SoftRig rig;
  support::loses_data_in_silence_where_nobody_answers(rig, Iova{std::uint64_t{1} << 45});
}

TEST(SoftNvme, IsDirectAndCrossesNoHostMemory) {
  SoftRig rig;
  const auto drive = support::opened(rig);
  ASSERT_NE(drive, nullptr);
  rig.soft().bus().ledger().clear_requests();
  const std::uint64_t before = rig.soft().ledger().dram_bytes();
  NOBOUNCE_EXPECT_OK(drive->transfer(Opcode::read, 0, 8192, rig.peer()));
  EXPECT_EQ(rig.arrived(0, 4u << 20)[Carriage::direct], 4u << 20);
  // Commands, lists and completions: a few bytes for each half mebibyte.
  EXPECT_LT(rig.soft().ledger().dram_bytes() - before, 64u << 10);
}

TEST(SoftNvme, NeedsTheIommuToKnowTheWindow) {
  SoftRig rig(seeded(1),
              test::machine_with("spare-drive", {"/kernel/iommu=translated",
                                                 "/host_bridges/0/peer_forwarding=allowed"}));
  const auto drive = support::opened(rig);
  ASSERT_NE(drive, nullptr);
  NOBOUNCE_EXPECT_OK(drive->transfer(Opcode::read, 0, 8, rig.peer()));
  EXPECT_TRUE(rig.look_at_peer(0, 4096) == pattern(0, 4096));
  rig.fill_peer(0, Bytes(4096, std::byte{0xee}));
  rig.drive().unmap(rig.peer());
  NOBOUNCE_EXPECT_OK(drive->transfer(Opcode::read, 0, 8, rig.peer()));  // as real drives answer
  EXPECT_TRUE(rig.look_at_peer(0, 4096) == Bytes(4096, std::byte{0xee}));
  const Status written = drive->transfer(Opcode::write, 0, 8, rig.peer());
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code, support::code::data_transfer_error);
}

TEST(SoftNvme, LosesPeerDataBehindARedirectThatNobodyForwards) {
  SoftRig rig(seeded(1), test::machine_with("spare-drive", {"/switches/0/acs=redirect"}));
  const auto drive = support::opened(rig);
  ASSERT_NE(drive, nullptr);
  rig.fill_peer(0, Bytes(4096, std::byte{0xee}));
  NOBOUNCE_EXPECT_OK(drive->transfer(Opcode::read, 0, 8, rig.peer()));
  EXPECT_TRUE(rig.look_at_peer(0, 4096) == Bytes(4096, std::byte{0xee}));
  EXPECT_EQ(rig.arrived(0, 4096).total(), 0u);
}

TEST(SoftNvme, KeepsItsOwnRegistersOutOfReach) {
  SoftRig rig;
  const auto drive = support::opened(rig);
  ASSERT_NE(drive, nullptr);
  const Iova own{rig.soft().bus().registers_of(spare).value};
  const auto done = drive->execute(support::command_of(*drive, Opcode::read, 0, 8, own));
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->code(), support::code::data_transfer_error);
}

/// Commands that are under way at once complete in any order, and each byte lands where its own
/// command said.
TEST(SoftNvme, CompletesInAnyOrderWhateverTheSeed) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SoftFaults faults;
    faults.nvme_reorder = 0.8;
    faults.nvme_delay = 0.5;
    SoftRig rig(seeded(seed, faults));
    ControllerOptions options;
    options.queue_entries = 8;
    const auto drive = support::opened(rig, options);
    ASSERT_NE(drive, nullptr);
    std::vector<std::uint16_t> order;
    std::uint32_t next = 0;
    const std::uint32_t commands = 40;
    rig.fill_peer(0, Bytes(commands * 4096, std::byte{0xee}));
    std::uint32_t done = 0;
    const auto finished = [&] {
      while (next < commands && drive->io().has_room()) {
        EXPECT_TRUE(drive
                        ->submit(Opcode::read, next * 8, 8,
                                 support::plus(rig.peer(), next * std::uint64_t{4096}))
                        .ok());
        ++next;
      }
      drive->io().ring();
      for (;;) {
        const auto polled = drive->io().poll();
        if (polled.kind != provider::nvme::QueuePair::Polled::Kind::completion) break;
        EXPECT_EQ(polled.completion.code(), support::code::success);
        ++done;
      }
      return done == commands;
    };
    ASSERT_TRUE(rig.host().workers().wait(finished, rig.host().clock().now_ns() + 1'000'000'000));
    EXPECT_TRUE(rig.look_at_peer(0, commands * 4096) == pattern(0, commands * 4096)) << seed;
  }
}

struct Fault {
  const char* name;
  void (*plant)(SoftFaults&);
  Cause cause;
  std::int64_t code;
};

class SoftNvmeFaults : public ::testing::TestWithParam<Fault> {};

/// Every fault has its own error, nothing of the failed command arrives later, and once the fault
/// is gone the drive works again.
TEST_P(SoftNvmeFaults, AreToldAndSurvived) {
  SoftRig rig;
  ControllerOptions options;
  options.command_timeout_ns = 100'000'000;
  const auto drive = support::opened(rig, options);
  ASSERT_NE(drive, nullptr);
  GetParam().plant(rig.soft().faults());
  const Status moved = drive->transfer(Opcode::read, 0, 8, rig.peer());
  ASSERT_FALSE(moved.ok());
  EXPECT_EQ(moved.error().cause, GetParam().cause) << to_string(moved.error());
  EXPECT_EQ(moved.error().code, GetParam().code) << to_string(moved.error());
  rig.soft().faults() = {};
  rig.fill_peer(0, Bytes(4096, std::byte{0xee}));
  NOBOUNCE_EXPECT_OK(drive->transfer(Opcode::read, 8, 8, support::plus(rig.peer(), 8192)));
  EXPECT_TRUE(rig.look_at_peer(8192, 4096) == pattern(4096, 4096));
  EXPECT_TRUE(rig.look_at_peer(0, 4096) == Bytes(4096, std::byte{0xee}));
}

INSTANTIATE_TEST_SUITE_P(
    Each, SoftNvmeFaults,
    ::testing::Values(
        Fault{"MediumError", [](SoftFaults& f) { f.read_error = 1; }, Cause::nvme_command_failed,
              support::code::unrecovered_read_error},
        Fault{"TransferError", [](SoftFaults& f) { f.nvme_transfer_error = 1; },
              Cause::nvme_command_failed, support::code::data_transfer_error},
        Fault{"DmaFault", [](SoftFaults& f) { f.dma_fault = 1; }, Cause::nvme_command_failed,
              support::code::data_transfer_error},
        Fault{"LostCompletion", [](SoftFaults& f) { f.nvme_lost_completion = 1; },
              Cause::nvme_timeout, 0},
        Fault{"Stuck", [](SoftFaults& f) { f.nvme_delay = 1; }, Cause::nvme_timeout, 0},
        Fault{"Fatal", [](SoftFaults& f) { f.nvme_fatal = 1; }, Cause::nvme_controller_fatal, 0},
        Fault{"WrongId", [](SoftFaults& f) { f.nvme_wrong_id = 1; }, Cause::nvme_controller_fatal,
              0}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(SoftNvme, IsNotWaitedForWithoutEnd) {
  SoftFaults faults;
  faults.nvme_never_ready = true;
  SoftRig rig(seeded(1, faults));
  const auto drive = Controller::open(rig.host(), rig.drive());
  ASSERT_FALSE(drive.ok());
  EXPECT_EQ(drive.error().cause, Cause::nvme_timeout);
}

TEST(SoftNvme, HasOneOwnerAtATimeAndNoneWhereADriverHasIt) {
  SoftRig rig;
  auto& pci = **rig.host().pci();
  const auto again = pci.open(rig.drive().bdf());
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, EBUSY);
  const auto bound = pci.open(rig.soft().machine().drives[0].bdf);
  ASSERT_FALSE(bound.ok());
  EXPECT_EQ(bound.error().cause, Cause::nvme_not_vfio);
  const std::string bdf = rig.soft().machine().drives[0].bdf;
  EXPECT_NE(
      bound.error().remedy.find("echo " + bdf + " | sudo tee /sys/bus/pci/drivers/nvme/unbind"),
      std::string::npos)
      << bound.error().remedy;
  EXPECT_FALSE(pci.open("0000:ff:00.0").ok());
}

/// Every seam call of taking a drive, moving and giving it back fails once: an error, and nothing
/// that leaks or hangs.
TEST(SoftNvme, SurvivesTheFailureOfAnyCall) {
  const Machine machine = test::machine_with("spare-drive");
  std::uint64_t calls = 0;
  for (std::uint64_t n = 0; n <= calls; ++n) {  // at first none, to count them
    auto host = SoftHost::create(machine, seeded(n));
    ASSERT_TRUE(host.ok());
    system::FaultPlan plan;
    plan.fail_call = n;
    plan.only = "pci.";
    const auto faulty = system::FaultyHost::wrap(**host, plan);
    bool failed = false;
    {
      auto function = (*faulty->pci())->open(machine.drives[spare].bdf);
      failed = !function.ok();
      if (function.ok()) {
        const auto drive = Controller::open(*faulty, **function);
        failed = !drive.ok();
        if (drive.ok()) {
          Result<system::DmaBuffer> buffer = (*function)->allocate_dma(4096);
          failed = !buffer.ok() || !(*drive)->transfer(Opcode::read, 0, 8, buffer->iova).ok() ||
                   !(*drive)->restart().ok();
        }
      }
    }
    EXPECT_EQ(failed, n != 0) << faulty->failed_call();
    calls = std::max(calls, faulty->calls());
    // Whatever failed, the drive is free for the next.
    EXPECT_TRUE((*(*host)->pci())->open(machine.drives[spare].bdf).ok()) << faulty->failed_call();
  }
  EXPECT_GE(calls, 6u);
}

}  // namespace
}  // namespace nobounce::fabric
