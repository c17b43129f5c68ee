// GPU to GPU: direct where the pair can, refused or staged with the cause where it cannot, equal to
// the bus's account.
#include <gtest/gtest.h>

#include "support/around_host.hpp"
#include "support/soft_session.hpp"

namespace nobounce {
namespace {

using test::machine_with;
using test::random_bytes;
using test::SoftSession;

struct PeerCase {
  const char* name;
  const char* machine;
  std::vector<std::string> settings;
  bool direct = false;
  Cause cause = Cause::none;  ///< in the receipt
  bool degraded = false;
  Link link = Link::none;  ///< of a direct copy
};

void PrintTo(const PeerCase& tested, std::ostream* stream) {
  *stream << tested.name;
}

class PeerPairs : public ::testing::TestWithParam<PeerCase> {};

TEST_P(PeerPairs, CopyAsTheirPathAllowsAndSaySo) {
  const PeerCase& row = GetParam();
  const std::vector<std::byte> bytes = random_bytes(3000001, 5);
  SoftSession soft(machine_with(row.machine, row.settings));
  Result<Region> source = soft->allocate(0, bytes.size());
  Result<Region> target = soft->allocate(1, bytes.size());
  ASSERT_TRUE(source.ok() && target.ok());
  soft.plant(source->place(), bytes);
  soft.begin_account();
  const Outcome outcome = soft->transfer(source->place(), target->place());
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  const Receipt& receipt = outcome.receipt;
  EXPECT_EQ(receipt.member, Member::p2p);
  EXPECT_EQ(receipt.bytes[row.direct ? Carriage::direct : Carriage::staged], bytes.size())
      << test::show(receipt.bytes) << to_string(receipt.causes[0]);
  EXPECT_EQ(receipt.degraded, row.degraded);
  if (row.cause != Cause::none) {
    EXPECT_TRUE(test::has_cause(receipt, row.cause)) << to_string(receipt.causes[0]);
  } else {
    EXPECT_EQ(receipt.cause_count, 0) << to_string(receipt.causes[0]);
  }
  if (row.direct) {
    EXPECT_EQ(receipt.link, row.link) << to_string(receipt.link);
  }
  EXPECT_TRUE(test::equals_ledger(receipt, soft.arrived(target->place())));
  EXPECT_EQ(soft.look_at(target->place()), bytes);
}

TEST_P(PeerPairs, AreRefusedUntouchedWhenDirectIsRequiredAndImpossible) {
  const PeerCase& row = GetParam();
  const std::vector<std::byte> bytes = random_bytes(100001, 6);
  const std::vector<std::byte> old = random_bytes(100001, 7);
  SoftSession soft(machine_with(row.machine, row.settings));
  Result<Region> source = soft->allocate(0, bytes.size());
  Result<Region> target = soft->allocate(1, bytes.size());
  ASSERT_TRUE(source.ok() && target.ok());
  soft.plant(source->place(), bytes);
  soft.plant(target->place(), old);
  const Outcome outcome =
      soft->transfer(source->place(), target->place(), {.policy = Policy::direct_required});
  EXPECT_EQ(outcome.ok(), row.direct);
  EXPECT_EQ(soft.look_at(target->place()), row.direct ? bytes : old);
  if (!row.direct) {
    EXPECT_EQ(outcome.receipt.state, TransferState::refused);
    EXPECT_TRUE(test::has_cause(outcome.receipt, row.cause));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, PeerPairs,
    ::testing::Values(
        PeerCase{"OneSwitch", "workstation", {}, true, Cause::none, false, Link::pcie_switch},
        PeerCase{"NvLink", "dgx", {}, true, Cause::none, false, Link::nvlink},
        PeerCase{"AcsRedirectRefused",
                 "workstation",
                 {"/switches/0/acs=redirect"},
                 false,
                 Cause::machine_acs_redirect},
        PeerCase{"AcsRedirectForwarded",
                 "workstation",
                 {"/switches/0/acs=redirect", "/host_bridges/0/peer_forwarding=allowed"},
                 true,
                 Cause::machine_acs_redirect,
                 true,
                 Link::host_bridge},
        PeerCase{"Product",
                 "workstation",
                 {"/gpus/0/peer_status=gns"},
                 false,
                 Cause::p2p_product_not_supported},
        PeerCase{"Chipset",
                 "workstation",
                 {"/gpus/1/peer_status=cns"},
                 false,
                 Cause::p2p_chipset_not_supported},
        PeerCase{"Setting",
                 "workstation",
                 {"/gpus/1/peer_status=dr"},
                 false,
                 Cause::p2p_disabled_by_setting},
        PeerCase{"Mig", "workstation", {"/gpus/1/mode=mig"}, false, Cause::p2p_mig_enabled},
        PeerCase{"MigOnNvLink", "dgx", {"/gpus/0/mode=mig"}, false, Cause::p2p_mig_enabled},
        PeerCase{"VgpuOverPcie", "workstation", {"/gpus/0/mode=vgpu"}, false, Cause::p2p_vgpu},
        PeerCase{"VgpuOverNvLink",
                 "dgx",
                 {"/gpus/0/mode=vgpu", "/gpus/1/mode=vgpu"},
                 true,
                 Cause::none,
                 false,
                 Link::nvlink},
        PeerCase{"Integrated",
                 "workstation",
                 {"/gpus/0/mode=integrated"},
                 false,
                 Cause::machine_integrated_gpu},
        PeerCase{"Confidential",
                 "workstation",
                 {"/confidential=true"},
                 false,
                 Cause::machine_confidential_computing},
        PeerCase{"ConfidentialOverNvLink",
                 "dgx",
                 {"/confidential=true"},
                 true,
                 Cause::none,
                 false,
                 Link::nvlink},
        PeerCase{"NvLinkIgnoresAcs",
                 "dgx",
                 {"/switches/0/acs=redirect"},
                 true,
                 Cause::none,
                 false,
                 Link::nvlink}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(PeerPairs, InAGuestStageWithTheProductOrChipsetCause) {
  SoftSession soft(machine_with("cloud-guest"));
  Result<Region> source = soft->allocate(0, 100000);
  Result<Region> target = soft->allocate(1, 100000);
  ASSERT_TRUE(source.ok() && target.ok());
  const Outcome outcome = soft->transfer(source->place(), target->place());
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_EQ(outcome.receipt.bytes[Carriage::staged], 100000u);
  EXPECT_TRUE(test::has_cause(outcome.receipt, Cause::p2p_product_not_supported) ||
              test::has_cause(outcome.receipt, Cause::p2p_chipset_not_supported));
}

TEST(PeerPairs, AreMappedForKernelsOrNot) {
  SoftSession soft(machine_with("workstation"));
  Result<Region> region = soft->allocate(0, 4096);
  ASSERT_TRUE(region.ok());
  Result<DevicePointer> mapped = soft->map_peer(*region, 1);
  ASSERT_TRUE(mapped.ok()) << to_string(mapped.error());
  EXPECT_FALSE(soft->map_peer(*region, 9).ok());
  SoftSession refusing(machine_with("workstation", {"/gpus/0/peer_status=gns"}));
  Result<Region> lonely = refusing->allocate(0, 4096);
  ASSERT_TRUE(lonely.ok());
  EXPECT_FALSE(refusing->map_peer(*lonely, 1).ok());
}

/// Answers every peer copy with success and makes none.
class IdleCuda : public support::AroundCuda {
 public:
  using AroundCuda::AroundCuda;
  system::cuda::CUresult memcpy_peer_async(system::cuda::CUdeviceptr, system::cuda::CUcontext,
                                           system::cuda::CUdeviceptr, system::cuda::CUcontext,
                                           std::size_t, system::cuda::CUstream) override {
    return system::cuda::success;
  }
  system::cuda::CUresult memcpy_dtod_async(system::cuda::CUdeviceptr, system::cuda::CUdeviceptr,
                                           std::size_t, system::cuda::CUstream) override {
    return system::cuda::success;
  }
};

TEST(PeerProbe, FindsAPathThatLosesEverythingInSilence) {
  const std::vector<std::byte> bytes = random_bytes(100001, 8);
  auto soft = fabric::SoftHost::create(machine_with("workstation"), {.deterministic = true});
  ASSERT_TRUE(soft.ok());
  support::AroundHost host(**soft);
  IdleCuda cuda(*host.cuda().value());
  host.cuda_table = &cuda;
  Result<Session> session = Session::open(host, SoftSession::quiet());
  ASSERT_TRUE(session.ok());
  Result<Region> source = session->allocate(0, bytes.size());
  Result<Region> target = session->allocate(1, bytes.size());
  ASSERT_TRUE(source.ok() && target.ok());
  const auto end = [](const Region& region) {
    return fabric::End::of(std::get<GpuMemory>(region.place()).address);
  };
  ASSERT_TRUE((*soft)->bus().plant(end(*source), bytes));
  const Outcome refused =
      session->transfer(source->place(), target->place(), {.policy = Policy::direct_required});
  EXPECT_EQ(refused.receipt.state, TransferState::refused);
  const Outcome outcome = session->transfer(source->place(), target->place());
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_EQ(outcome.receipt.bytes[Carriage::staged], bytes.size());
  EXPECT_TRUE(test::has_cause(outcome.receipt, Cause::p2p_wrong_data));
  std::vector<std::byte> arrived(bytes.size());
  ASSERT_TRUE((*soft)->bus().inspect(end(*target), arrived));
  EXPECT_EQ(arrived, bytes);
}

}  // namespace
}  // namespace nobounce
