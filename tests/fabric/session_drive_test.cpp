// Raw drives in a session: who may have one, and what moves between it and memory.
#include <unistd.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "fabric/soft_random.hpp"
#include "support/soft_session.hpp"

namespace nobounce::test {
namespace {

constexpr std::uint32_t spare = 1;

std::string spare_bdf() {
  return machine_with("spare-drive").drives[spare].bdf;
}

fabric::SoftOptions seeded(std::uint64_t seed) {
  fabric::SoftOptions options;
  options.deterministic = true;
  options.seed = seed;
  return options;
}

/// A session that has taken the spare drive, with random bytes on it.
class DriveSession {
 public:
  explicit DriveSession(const Machine& machine = machine_with("spare-drive"),
                        const fabric::SoftOptions& options = seeded(1))
      : soft_(machine, options), content_(random_bytes(4u << 20, options.seed)) {
    medium_ = *soft_.host().raw_medium(spare);
    if (::pwrite(medium_.descriptor, content_.data(), content_.size(), 0) !=
        static_cast<ssize_t>(content_.size()))
      throw std::runtime_error("the medium cannot be written");
    Result<OwnedDrive> drive = soft_->take_drive(spare_bdf(), {.take = true});
    if (!drive.ok()) throw std::runtime_error(to_string(drive.error()));
    drive_.emplace(std::move(*drive));
  }
  [[nodiscard]] SoftSession& soft() { return soft_; }
  [[nodiscard]] Session& session() { return *soft_; }
  [[nodiscard]] OwnedDrive& drive() { return *drive_; }
  void give_back() { drive_.reset(); }
  [[nodiscard]] std::vector<std::byte> content(std::uint64_t offset, std::size_t length) const {
    const auto begin = content_.begin() + static_cast<std::ptrdiff_t>(offset);
    return {begin, begin + static_cast<std::ptrdiff_t>(length)};
  }
  [[nodiscard]] std::vector<std::byte> on_medium(std::uint64_t offset, std::size_t length) const {
    std::vector<std::byte> bytes(length);
    EXPECT_EQ(::pread(medium_.descriptor, bytes.data(), length, static_cast<off_t>(offset)),
              static_cast<ssize_t>(length));
    return bytes;
  }
  /// What the bus carried onto the drive since begin_account.
  [[nodiscard]] CarriageBytes arrived_on_drive(std::uint64_t offset, std::uint64_t length) {
    const fabric::Extent extent =
        soft_.host().bus().extent_of(fabric::End::of(medium_, FileOffset{offset}));
    return soft_.host().ledger().arrivals(extent, length).bytes;
  }

 private:
  SoftSession soft_;
  std::vector<std::byte> content_;
  fabric::Medium medium_;
  std::optional<OwnedDrive> drive_;
};

TEST(TakeDrive, IsRefusedWhereTheDriveIsInUse) {
  SoftSession soft(machine_with("spare-drive"));
  const Result<OwnedDrive> drive = soft->take_drive(soft->machine().drives[0].bdf, {.take = true});
  ASSERT_FALSE(drive.ok());
  EXPECT_EQ(drive.error().cause, Cause::nvme_in_use);
  EXPECT_NE(drive.error().detail.find("/dev/nvme0n1 is mounted on /"), std::string::npos)
      << drive.error().detail;
}

TEST(TakeDrive, NamesTheCommandsWhereAnotherDriverHasIt) {
  Machine machine = machine_with("spare-drive");
  machine.drives[spare].driver = "nvme";
  machine.drives[spare].name = "nvme1n1";
  SoftSession soft(machine);
  const Result<OwnedDrive> drive = soft->take_drive(spare_bdf(), {.take = true});
  ASSERT_FALSE(drive.ok());
  EXPECT_EQ(drive.error().cause, Cause::nvme_not_vfio);
  EXPECT_EQ(drive.error().remedy,
            "sudo modprobe vfio-pci && echo vfio-pci | sudo tee /sys/bus/pci/devices/" +
                spare_bdf() + "/driver_override && echo " + spare_bdf() +
                " | sudo tee /sys/bus/pci/drivers/nvme/unbind && echo " + spare_bdf() +
                " | sudo tee /sys/bus/pci/drivers_probe");
}

TEST(TakeDrive, NeedsTheCallersWordAndAnNvmeController) {
  SoftSession soft(machine_with("spare-drive"));
  const Result<OwnedDrive> unasked = soft->take_drive(spare_bdf(), {});
  ASSERT_FALSE(unasked.ok());
  EXPECT_EQ(unasked.error().cause, Cause::nvme_take_needed);
  EXPECT_FALSE(soft->take_drive(soft->machine().gpus[0].bdf, {.take = true}).ok());
  EXPECT_FALSE(soft->take_drive("0000:ff:1f.0", {.take = true}).ok());
}

TEST(TakeDrive, HasOneOwnerAndIsFreeAgainAfterwards) {
  DriveSession own;
  EXPECT_EQ(own.drive().bdf(), spare_bdf());
  EXPECT_EQ(own.drive().block_bytes(), 512u);
  EXPECT_EQ(own.drive().length_bytes(), fabric::SoftHost::raw_medium_bytes);
  EXPECT_FALSE(own.session().take_drive(spare_bdf(), {.take = true}).ok());
  own.give_back();
  EXPECT_TRUE(own.session().take_drive(spare_bdf(), {.take = true}).ok());
}

TEST(DriveTransfer, IntoAGpuIsDirect) {
  DriveSession own;
  Result<Region> region = own.session().allocate(0, 4u << 20);
  ASSERT_TRUE(region.ok());
  own.soft().begin_account();
  const Outcome outcome = own.session().transfer(own.drive().place(0, 4u << 20), region->place(),
                                                 {.policy = Policy::direct_required});
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_EQ(outcome.receipt.state, TransferState::done);
  EXPECT_EQ(outcome.receipt.member, Member::storage);
  EXPECT_EQ(outcome.receipt.link, Link::pcie_switch);
  EXPECT_EQ(own.session().name_of(outcome.receipt.source), "drive:" + spare_bdf());
  EXPECT_TRUE(equals_ledger(outcome.receipt, own.soft().arrived(region->place())));
  EXPECT_EQ(outcome.receipt.bytes[Carriage::direct], 4u << 20);
  EXPECT_TRUE(own.soft().look_at(region->place()) == own.content(0, 4u << 20));
}

TEST(DriveTransfer, FromAGpuIsDirectAndTouchesNothingElse) {
  DriveSession own;
  Result<Region> region = own.session().allocate(1, 1u << 20);
  ASSERT_TRUE(region.ok());
  const std::vector<std::byte> bytes = random_bytes(1u << 20, 7);
  own.soft().plant(region->place(), bytes);
  own.soft().begin_account();
  const Outcome outcome = own.session().transfer(region->place(512, (1u << 20) - 512),
                                                 own.drive().place(8192, (1u << 20) - 512), {});
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_EQ(outcome.receipt.bytes[Carriage::direct], (1u << 20) - 512);
  EXPECT_EQ(own.arrived_on_drive(8192, (1u << 20) - 512)[Carriage::direct], (1u << 20) - 512);
  EXPECT_TRUE(own.on_medium(8192, (1u << 20) - 512) ==
              std::vector<std::byte>(bytes.begin() + 512, bytes.end()));
  EXPECT_TRUE(own.on_medium(0, 8192) == own.content(0, 8192));
  EXPECT_TRUE(own.on_medium(8192 + (1u << 20) - 512, 4096) ==
              own.content(8192 + (1u << 20) - 512, 4096));
}

TEST(DriveTransfer, MovesHostMemoryBothWays) {
  DriveSession own;
  Result<Region> region = own.session().allocate_host(1u << 20);
  ASSERT_TRUE(region.ok());
  Outcome outcome = own.session().transfer(own.drive().place(4096, 1u << 20), region->place(), {});
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_EQ(outcome.receipt.bytes[Carriage::direct], 1u << 20);
  EXPECT_TRUE(std::vector<std::byte>(region->host_address(), region->host_address() + (1u << 20)) ==
              own.content(4096, 1u << 20));
  outcome = own.session().transfer(region->place(), own.drive().place(2u << 20, 1u << 20), {});
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_TRUE(own.on_medium(2u << 20, 1u << 20) == own.content(4096, 1u << 20));
  EXPECT_EQ(*own.session().checksum(own.drive().place(4096, 1u << 20)),
            *own.session().checksum(own.drive().place(2u << 20, 1u << 20)));
}

struct Refusal {
  const char* name;
  std::vector<std::string> settings;
  Policy policy;
  std::uint64_t offset;
  Cause cause;
};

class DriveRefusals : public ::testing::TestWithParam<Refusal> {};

/// There is no way round: a raw drive has no file to stage from, so what is not direct is refused.
TEST_P(DriveRefusals, SayWhyAndMoveNothing) {
  DriveSession own(machine_with("spare-drive", GetParam().settings));
  Result<Region> region = own.session().allocate(0, 1u << 20);
  ASSERT_TRUE(region.ok());
  own.soft().begin_account();
  const Outcome outcome =
      own.session().transfer(own.drive().place(GetParam().offset, 64u << 10),
                             region->place(0, 64u << 10), {.policy = GetParam().policy});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.receipt.state, TransferState::refused);
  EXPECT_TRUE(has_cause(outcome.receipt, GetParam().cause)) << to_string(*outcome.error);
  EXPECT_EQ(own.soft().arrived(region->place()).total(), 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Each, DriveRefusals,
    ::testing::Values(Refusal{"Redirected",
                              {"/switches/0/acs=redirect"},
                              Policy::direct_preferred,
                              0,
                              Cause::machine_acs_redirect},
                      Refusal{"NoWindow",
                              {"/gpus/0/bar1_bytes=65536"},
                              Policy::direct_required,
                              0,
                              Cause::nvme_peer_unmapped},
                      Refusal{"Unpinnable",
                              {"/gpus/0/gpudirect_rdma=false"},
                              Policy::direct_preferred,
                              0,
                              Cause::nvme_peer_unmapped},
                      Refusal{
                          "Unaligned", {}, Policy::direct_preferred, 100, Cause::nvme_unaligned},
                      Refusal{"StagedOnly", {}, Policy::staged_only, 0, Cause::policy_staged_only}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(DriveTransfer, IsNotBelievedWhereSuccessBringsNoData) {
  fabric::SoftOptions options = seeded(1);
  options.faults.mutant = fabric::Mutant::bus_write_dropped;
  DriveSession own(machine_with("spare-drive"), options);
  Result<Region> region = own.session().allocate(0, 1u << 20);
  ASSERT_TRUE(region.ok());
  const Outcome outcome =
      own.session().transfer(own.drive().place(0, 64u << 10), region->place(0, 64u << 10), {});
  ASSERT_FALSE(outcome.ok());
  EXPECT_TRUE(has_cause(outcome.receipt, Cause::nvme_data_lost)) << to_string(*outcome.error);
  EXPECT_EQ(outcome.receipt.bytes.total(), 0u);
}

TEST(DriveTransfer, EndsWithTheDrivesErrorAndCountsWhatArrived) {
  DriveSession own;
  Result<Region> region = own.session().allocate(0, 4u << 20);
  ASSERT_TRUE(region.ok());
  ASSERT_TRUE(own.session().transfer(own.drive().place(0, 4096), region->place(0, 4096), {}).ok());
  own.soft().host().faults().nvme_transfer_error = 0.4;
  own.soft().begin_account();
  const Outcome outcome =
      own.session().transfer(own.drive().place(0, 4u << 20), region->place(), {});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.receipt.state, TransferState::failed);
  EXPECT_EQ(outcome.error->cause, Cause::nvme_command_failed);
  EXPECT_EQ(outcome.error->origin, ErrorOrigin::nvme);
  EXPECT_TRUE(claims_no_more(outcome.receipt, own.soft().arrived(region->place())));
  own.soft().host().faults().nvme_transfer_error = 0;
  EXPECT_TRUE(own.session().transfer(own.drive().place(0, 4u << 20), region->place(), {}).ok());
  EXPECT_TRUE(own.soft().look_at(region->place()) == own.content(0, 4u << 20));
}

TEST(DriveTransfer, IsCancelledAtItsDeadlineAndLeavesTheDriveUsable) {
  DriveSession own;
  Result<Region> region = own.session().allocate(0, 4u << 20);
  ASSERT_TRUE(region.ok());
  ASSERT_TRUE(own.session().transfer(own.drive().place(0, 4096), region->place(0, 4096), {}).ok());
  own.soft().host().faults().nvme_lost_completion = 1;
  const Outcome outcome = own.session().transfer(own.drive().place(0, 4u << 20), region->place(),
                                                 {.deadline_ns = 1'000'000});
  ASSERT_FALSE(outcome.ok());
  EXPECT_NE(outcome.receipt.state, TransferState::done);
  own.soft().host().faults().nvme_lost_completion = 0;
  EXPECT_TRUE(own.session().transfer(own.drive().place(0, 4u << 20), region->place(), {}).ok());
  EXPECT_TRUE(own.soft().look_at(region->place()) == own.content(0, 4u << 20));
}

/// Many transfers at once under faults: receipts claim no more than the bus did, what is called
/// done is whole, and nothing hangs.
TEST(DriveTransfer, NeverClaimsMoreThanTheBusDidWhateverTheSeed) {
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    fabric::SoftOptions options = seeded(seed);
    options.faults.nvme_reorder = 0.5;
    options.faults.nvme_delay = 0.3;
    DriveSession own(machine_with("spare-drive"), options);
    fabric::SoftRandom random(seed);
    Result<Region> region = own.session().allocate(random.below(2) == 0 ? 0 : 1, 4u << 20);
    ASSERT_TRUE(region.ok());
    ASSERT_TRUE(
        own.session().transfer(own.drive().place(0, 4096), region->place(0, 4096), {}).ok());
    own.soft().host().faults().nvme_transfer_error = seed % 3 == 0 ? 0.1 : 0;
    own.soft().host().faults().nvme_lost_completion = seed % 5 == 0 ? 0.05 : 0;
    own.soft().begin_account();
    std::vector<TransferRequest> requests;
    for (int i = 0; i < 8; ++i) {
      const std::uint64_t at = static_cast<std::uint64_t>(i) * (512u << 10);
      const std::uint64_t length = 512 * (1 + random.below(900));
      requests.push_back({own.drive().place(at, length), region->place(at, length), {}});
    }
    Result<Batch> batch = own.session().start_batch(requests);
    ASSERT_TRUE(batch.ok());
    ASSERT_TRUE(batch->wait());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Receipt& receipt = batch->outcome(i)->receipt;
      EXPECT_TRUE(claims_no_more(receipt, own.soft().arrived(requests[i].target))) << seed;
      if (!batch->outcome(i)->ok()) continue;
      const auto at = std::get<BlockRange>(requests[i].source).offset.value;
      EXPECT_TRUE(own.soft().look_at(requests[i].target) ==
                  own.content(at, length_bytes(requests[i].source)))
          << seed;
    }
  }
}

}  // namespace
}  // namespace nobounce::test
