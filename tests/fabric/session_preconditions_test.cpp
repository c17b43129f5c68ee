// For every storage precondition a machine on which exactly that one is broken: preferred stages
// with its cause, required refuses with it, check says unmet with a remedy, and the bus ledger
// equals the receipt.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/soft_session.hpp"

namespace nobounce {
namespace {

using test::machine_with;
using test::random_bytes;
using test::SoftSession;
using test::TemporaryDirectory;
using test::write_file;

struct Broken {
  const char* name;
  Cause cause;
  std::vector<std::string> settings;  ///< on `workstation`
  bool writing = false;
  const char* machine = "workstation";
  bool mounted = false;  ///< the settings concern mount 1, which is made at the file's directory
};

void PrintTo(const Broken& broken, std::ostream* stream) {
  *stream << broken.name;
}

class StoragePreconditions : public ::testing::TestWithParam<Broken> {
 protected:
  /// The machine of the case; with `mounted`, its last mount is moved to the test's directory.
  [[nodiscard]] Machine machine(const TemporaryDirectory& directory) const {
    const Broken& broken = GetParam();
    Machine made =
        machine_with(broken.machine, broken.mounted ? std::vector<std::string>{} : broken.settings);
    if (!broken.mounted) return made;
    Mount mount = made.mounts.front();
    mount.point = directory.path().string();
    for (const std::string& setting : broken.settings) {
      const std::size_t equals = setting.find('=');
      const std::string key = setting.substr(0, equals);
      const std::string value = setting.substr(equals + 1);
      if (key == "type") mount.type = value;
      if (key == "options") mount.options = value;
      if (key == "direct_io") mount.direct_io = value == "true";
      if (key == "drive") mount.drive = value;
    }
    made.mounts.push_back(mount);
    return made;
  }
};

TEST_P(StoragePreconditions, StagesWithTheCauseRefusesWithItAndChecksUnmetWithARemedy) {
  const Broken& broken = GetParam();
  const TemporaryDirectory directory;
  const std::vector<std::byte> bytes = random_bytes(1000001, 77);
  const std::string path = directory.file("data");
  write_file(path, bytes);
  SoftSession soft(machine(directory));
  Result<Region> region = soft->allocate(0, bytes.size());
  ASSERT_TRUE(region.ok()) << to_string(region.error());
  soft.plant(region->place(), broken.writing ? bytes : std::vector<std::byte>(bytes.size()));

  Result<std::vector<Finding>> findings = soft->check_storage(path, 0, broken.writing);
  ASSERT_TRUE(findings.ok()) << to_string(findings.error());
  std::vector<Cause> unmet;
  for (const Finding& finding : *findings) {
    if (finding.state != FindingState::unmet) continue;
    unmet.push_back(finding.cause);
    EXPECT_FALSE(finding.remedy.empty()) << to_string(finding.cause);
    EXPECT_FALSE(finding.observed.empty()) << to_string(finding.cause);
    EXPECT_FALSE(finding.source.empty()) << to_string(finding.cause);
  }
  EXPECT_EQ(unmet, std::vector<Cause>{broken.cause})
      << (unmet.empty() ? "none" : to_string(unmet.front()));

  for (const Policy policy : {Policy::direct_required, Policy::direct_preferred}) {
    SCOPED_TRACE(to_string(policy));
    const std::string target = directory.file("target");
    Result<File> file =
        broken.writing
            ? soft->open_file(target, {.mode = FileMode::replace,
                                       .length_bytes = bytes.size(),
                                       .gaps = FileGaps::kept})  // what is refused is not written
            : soft->open_file(path);
    ASSERT_TRUE(file.ok()) << to_string(file.error());
    soft.begin_account();
    const Outcome outcome =
        broken.writing ? soft->transfer(region->place(), file->place(), {.policy = policy})
                       : soft->transfer(file->place(), region->place(), {.policy = policy});
    if (broken.writing) {
      ASSERT_TRUE(file->commit(false).ok());
    }
    const CarriageBytes truth =
        broken.writing ? soft.arrived_in_file(target, bytes.size()) : soft.arrived(region->place());
    EXPECT_TRUE(test::equals_ledger(outcome.receipt, truth));
    EXPECT_EQ(outcome.receipt.causes[0], broken.cause) << to_string(outcome.receipt.causes[0]);
    if (policy == Policy::direct_required) {
      ASSERT_FALSE(outcome.ok());
      EXPECT_EQ(outcome.error->origin, ErrorOrigin::policy);
      EXPECT_EQ(outcome.error->cause, broken.cause);
      EXPECT_EQ(truth.total(), 0u);
    } else {
      ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
      EXPECT_EQ(outcome.receipt.bytes[Carriage::staged], bytes.size());
      if (broken.writing) {
        EXPECT_EQ(test::read_file(target), bytes);
      } else {
        EXPECT_EQ(soft.look_at(region->place()), bytes);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, StoragePreconditions,
    ::testing::Values(
        Broken{"NvidiaFsAbsent", Cause::storage_nvidia_fs_absent, {"/modules/nvidia_fs=false"}},
        Broken{"CufileAbsent", Cause::storage_cufile_absent, {"/libcufile="}},
        Broken{"DriverNotRegistered",
               Cause::storage_driver_not_registered,
               {"/drives/0/nvidia_fs_registered=false"}},
        Broken{"UdevMissing", Cause::storage_udev_missing, {"/udev=false"}},
        Broken{"BlockDevice",
               Cause::storage_block_device_unsupported,
               {"/drives/0/driver=virtio_blk"}},
        Broken{"CompatForced",
               Cause::storage_compat_forced,
               {"/environment={\"CUFILE_FORCE_COMPAT_MODE\":\"true\"}"}},
        Broken{
            "GpuNotSupported", Cause::storage_gpu_not_supported, {"/gpus/0/gpudirect_rdma=false"}},
        Broken{"IntegratedGpu", Cause::machine_integrated_gpu, {"/gpus/0/mode=integrated"}},
        Broken{"Confidential", Cause::machine_confidential_computing, {"/confidential=true"}},
        Broken{"IommuTranslated", Cause::machine_iommu_translated, {"/kernel/iommu=translated"}},
        Broken{"AcsRedirect", Cause::machine_acs_redirect, {"/switches/0/acs=redirect"}},
        Broken{"AcsRedirectOfOnePort",
               Cause::machine_acs_redirect,
               {"/switches/0/ports/0/acs=redirect"}},
        Broken{"FileSystem",
               Cause::storage_filesystem_unsupported,
               {"type=btrfs"},
               false,
               "workstation",
               true},
        Broken{"MountOptions",
               Cause::storage_mount_options,
               {"options=rw,relatime"},
               false,
               "workstation",
               true},
        Broken{"DirectIo",
               Cause::storage_direct_io_refused,
               {"direct_io=false"},
               false,
               "workstation",
               true},
        Broken{"WritesOverNfs",
               Cause::storage_writes_unsupported,
               {"type=nfs", "options=rw,proto=rdma,vers=3", "drive=nfs0"},
               true,
               "nfs-rdma",
               true},
        Broken{"WritesWithoutTheModule",
               Cause::storage_nvidia_fs_absent,
               {"/modules/nvidia_fs=false"},
               true},
        Broken{"WritesBehindAcs", Cause::machine_acs_redirect, {"/switches/0/acs=redirect"}, true}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(StorageMounts, ReadsOverNfsWithRdmaAreDirect) {
  const TemporaryDirectory directory;
  const std::vector<std::byte> bytes = random_bytes(100000, 5);
  write_file(directory.file("data"), bytes);
  Machine machine = machine_with("nfs-rdma");
  for (Mount& mount : machine.mounts) {
    if (mount.type == "nfs") mount.point = directory.path().string();
  }
  SoftSession soft(machine);
  Result<File> file = soft->open_file(directory.file("data"));
  Result<Region> region = soft->allocate(0, bytes.size());
  ASSERT_TRUE(file.ok() && region.ok());
  soft.begin_account();
  const Outcome outcome =
      soft->transfer(file->place(), region->place(), {.policy = Policy::direct_required});
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_TRUE(test::equals_ledger(outcome.receipt, soft.arrived(region->place())));
  EXPECT_EQ(soft.look_at(region->place()), bytes);
}

TEST(StoragePath, RedirectedButForwardedIsDirectAndDegraded) {
  const TemporaryDirectory directory;
  const std::vector<std::byte> bytes = random_bytes(100000, 6);
  write_file(directory.file("data"), bytes);
  SoftSession soft(machine_with(
      "workstation", {"/switches/0/acs=redirect", "/host_bridges/0/peer_forwarding=allowed"}));
  Result<File> file = soft->open_file(directory.file("data"));
  Result<Region> region = soft->allocate(0, bytes.size());
  ASSERT_TRUE(file.ok() && region.ok());
  soft.begin_account();
  const Outcome outcome =
      soft->transfer(file->place(), region->place(), {.policy = Policy::direct_required});
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_TRUE(outcome.receipt.degraded);
  EXPECT_TRUE(test::has_cause(outcome.receipt, Cause::machine_acs_redirect));
  EXPECT_EQ(outcome.receipt.link, Link::host_bridge);
  EXPECT_TRUE(test::equals_ledger(outcome.receipt, soft.arrived(region->place())));
}

TEST(StoragePath, AcrossSocketsStagesWithTheCauseUnlessTheBridgesForward) {
  const TemporaryDirectory directory;
  const std::vector<std::byte> bytes = random_bytes(100000, 7);
  write_file(directory.file("data"), bytes);
  for (const bool forwarding : {false, true}) {
    SCOPED_TRACE(forwarding);
    Machine machine = machine_with("two-socket");
    for (HostBridge& bridge : machine.host_bridges) {
      bridge.peer_forwarding = forwarding ? PeerForwarding::allowed : PeerForwarding::refused;
    }
    SoftSession soft(machine);
    Result<File> file = soft->open_file(directory.file("data"));
    Result<Region> region = soft->allocate(1, bytes.size());
    ASSERT_TRUE(file.ok() && region.ok());
    soft.begin_account();
    const Outcome outcome = soft->transfer(file->place(), region->place());
    ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
    EXPECT_TRUE(test::has_cause(outcome.receipt, Cause::machine_cross_socket));
    EXPECT_EQ(outcome.receipt.bytes[Carriage::staged], forwarding ? 0u : bytes.size());
    EXPECT_EQ(outcome.receipt.degraded, forwarding);
    EXPECT_TRUE(test::equals_ledger(outcome.receipt, soft.arrived(region->place())));
    EXPECT_EQ(soft.look_at(region->place()), bytes);
  }
}

TEST(StorageConfiguration, OfSomebodyElseIsAFindingAndStrictRefuses) {
  const TemporaryDirectory directory;
  write_file(directory.file("data"), random_bytes(100000, 8));
  fabric::SoftOptions options;
  options.faults.cufile_opened_before = true;
  SoftSession soft(machine_with("workstation"), options);
  Result<File> file = soft->open_file(directory.file("data"));
  Result<Region> region = soft->allocate(0, 100000);
  ASSERT_TRUE(file.ok() && region.ok());
  const Outcome strict =
      soft->transfer(file->place(), region->place(), {.policy = Policy::direct_required});
  ASSERT_FALSE(strict.ok());
  EXPECT_EQ(strict.error->cause, Cause::storage_cufile_config_not_ours);
  EXPECT_EQ(strict.receipt.bytes.total(), 0u);
}

TEST(StoragePreference, StagedOnlyStagesWhereDirectWouldWorkAndNamesThePolicy) {
  const TemporaryDirectory directory;
  const std::vector<std::byte> bytes = random_bytes(300000, 9);
  write_file(directory.file("data"), bytes);
  SoftSession soft(machine_with("workstation"));
  Result<File> file = soft->open_file(directory.file("data"));
  Result<Region> region = soft->allocate(0, bytes.size());
  ASSERT_TRUE(file.ok() && region.ok());
  soft.begin_account();
  const Outcome outcome =
      soft->transfer(file->place(), region->place(), {.policy = Policy::staged_only});
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_EQ(outcome.receipt.bytes[Carriage::staged], bytes.size());
  EXPECT_EQ(outcome.receipt.causes[0], Cause::policy_staged_only);
  EXPECT_TRUE(test::equals_ledger(outcome.receipt, soft.arrived(region->place())));
}

}  // namespace
}  // namespace nobounce
