// Proofs end to end on software machines: honest machines get the verdict they
// deserve, and each lie below the session is told by a counter, by the data, or
// leaves the verdict unknown.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "evidence/witness.hpp"
#include "proof/ordered_row.hpp"
#include "proof/prove.hpp"
#include "support/around_host.hpp"
#include "support/planted.hpp"
#include "support/soft_session.hpp"

namespace nobounce {
namespace {

using proof::ProveOptions;
using proof::Subject;
using test::machine_with;
using test::TemporaryDirectory;

constexpr std::uint64_t kibibyte = 1024;

ProveOptions small_options() {
  ProveOptions options;
  options.volumes_bytes = {512 * kibibyte, 1024 * kibibyte, 2048 * kibibyte};
  return options;
}

Subject copy_of(std::uint32_t source, std::uint32_t target) {
  Subject subject;
  subject.member = Member::p2p;
  subject.source_gpu = source;
  subject.target_gpu = target;
  return subject;
}

Subject storage_of(const TemporaryDirectory& directory, bool writing) {
  Subject subject;
  subject.member = Member::storage;
  subject.writing = writing;
  subject.path = directory.file("scratch");
  subject.medium = "drive:nvme0n1";
  return subject;
}

bool names(const ProofRow& row, Cause cause) {
  return std::find(row.causes.begin(), row.causes.end(), cause) != row.causes.end();
}

std::string told(const ProofRow& row) {
  std::string text = std::string(to_string(row.verdict)) + " (" +
                     std::string(to_string(row.known)) + "), " + test::show(row.runtime.bytes);
  for (const Cause cause : row.causes) text += " " + std::string(to_string(cause));
  for (const std::string& sentence : row.contradictions) text += "\n  contradiction: " + sentence;
  for (const std::string& sentence : row.missing) text += "\n  missing: " + sentence;
  return text;
}

/// One row on a host, in a session of its own.
ProofRow proved(system::Host& host, const Subject& subject,
                const ProveOptions& options = small_options()) {
  const auto counted = system::CountedHost::wrap(host);
  Result<Session> session = Session::open(*counted, test::SoftSession::quiet());
  if (!session.ok()) throw std::runtime_error(to_string(session.error()));
  evidence::Witnesses witnesses(host, counted.get());
  return proof::prove_row(*session, *counted, witnesses, subject, options);
}

std::unique_ptr<fabric::SoftHost> host_of(const Machine& machine,
                                          const fabric::SoftOptions& options = {}) {
  Result<std::unique_ptr<fabric::SoftHost>> host = fabric::SoftHost::create(machine, options);
  if (!host.ok()) throw std::runtime_error(to_string(host.error()));
  return std::move(*host);
}

class HonestRows : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] Subject subject() const {
    const std::string name = GetParam();
    return name == "Copy" ? copy_of(0, 1) : storage_of(directory_, name == "Write");
  }
  TemporaryDirectory directory_;
};

TEST_P(HonestRows, AreDirectAndWitnessedBesideAControlThatCostsTwoBytesPerByte) {
  const auto host = host_of(machine_with("workstation"));
  const ProofRow row = proved(*host, subject());
  EXPECT_EQ(row.verdict, Verdict::direct) << told(row);
  EXPECT_EQ(row.known, Known::witnessed);
  EXPECT_EQ(row.link, Link::pcie_switch);
  EXPECT_EQ(row.physical.state, PhysicalState::separated);
  ASSERT_TRUE(row.physical.host_dram_bytes && row.physical.control_host_dram_bytes);
  EXPECT_LT(row.physical.host_dram_bytes->per_byte, 0.1);
  EXPECT_NEAR(row.physical.control_host_dram_bytes->per_byte, 2, 0.1);
  EXPECT_FALSE(row.physical.cpu_ns.has_value()) << "CPU time of a software machine means nothing";
  EXPECT_EQ(row.runtime.data_verified, std::optional<bool>(true));
  EXPECT_EQ(row.runtime.bytes[Carriage::staged], 0U);
  EXPECT_EQ(row.runtime.control_bytes[Carriage::staged], row.runtime.control_bytes.total());
  EXPECT_TRUE(row.contradictions.empty() && row.missing.empty()) << told(row);
  EXPECT_TRUE(row.causes.empty()) << told(row);
  EXPECT_TRUE(row.benefit.model);
}

TEST_P(HonestRows, ListEveryWitnessWithAValueOrTheCauseWhyItHasNone) {
  const auto host = host_of(machine_with("workstation"));
  const ProofRow row = proved(*host, subject());
  const bool copy = row.member == Member::p2p;
  ASSERT_EQ(row.physical.witnesses.size(), evidence::witness_count);
  for (const WitnessSlope& witness : row.physical.witnesses) {
    const bool read = witness.transfer.has_value() && witness.control.has_value();
    EXPECT_EQ(read, witness.unreadable == Cause::none) << witness.witness;
    EXPECT_EQ(read, witness.detail.empty()) << witness.witness << ": " << witness.detail;
  }
  const auto expect = [&](const char* name, double transfer, double control) {
    const WitnessSlope* witness = row.physical.of(name);
    ASSERT_TRUE(witness->transfer && witness->control) << name;
    EXPECT_NEAR(witness->transfer->per_byte, transfer, 0.01) << name;
    EXPECT_NEAR(witness->control->per_byte, control, 0.01) << name;
  };
  expect("host_dram", 0, 2);
  expect("host_copies", 0, 2);
  expect("gpu_pcie", copy ? 2 : 1, copy ? 2 : 1);
  if (copy) {
    EXPECT_EQ(row.physical.of("drive")->unreadable, Cause::evidence_drive_counters_unreadable);
  } else {
    expect("drive", 1, 1);
    EXPECT_GT(row.physical.of("cufile")->transfer->per_byte, 0);
    EXPECT_EQ(row.physical.of("cufile")->control->per_byte, 0);
    EXPECT_GT(row.physical.of("nvidia_fs")->transfer->per_byte, 0);
  }
}

TEST_P(HonestRows, LeaveNothingBehind) {
  const auto host = host_of(machine_with("workstation"));
  (void)proved(*host, subject());
  EXPECT_TRUE(directory_.names().empty());
}

INSTANTIATE_TEST_SUITE_P(Each, HonestRows, ::testing::Values("Copy", "Read", "Write"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(ProofOfPairs, RedirectedAndForwardedIsDegraded) {
  const auto host = host_of(machine_with(
      "workstation", {"/switches/0/acs=redirect", "/host_bridges/0/peer_forwarding=allowed"}));
  const ProofRow row = proved(*host, copy_of(0, 1));
  EXPECT_EQ(row.verdict, Verdict::degraded) << told(row);
  EXPECT_EQ(row.known, Known::witnessed);
  EXPECT_TRUE(names(row, Cause::machine_acs_redirect)) << told(row);
  EXPECT_LT(row.physical.host_dram_bytes->per_byte, 0.1);
}

TEST(ProofOfPairs, RedirectedAndLostIsStagedWithThatCause) {
  const auto host = host_of(machine_with("workstation", {"/switches/0/acs=redirect"}));
  const ProofRow row = proved(*host, copy_of(0, 1));
  EXPECT_EQ(row.verdict, Verdict::staged) << told(row);
  EXPECT_TRUE(names(row, Cause::machine_acs_redirect)) << told(row);
}

TEST(ProofOfPairs, OverNvlinkNamesItsLink) {
  const auto host = host_of(machine_with("dgx"));
  const ProofRow row = proved(*host, copy_of(0, 5));
  EXPECT_EQ(row.verdict, Verdict::direct) << told(row);
  EXPECT_EQ(row.link, Link::nvlink);
  ASSERT_TRUE(row.benefit.speedup_max.has_value());
  EXPECT_GT(*row.benefit.speedup_max, 1);
}

TEST(ProofOfPairs, InACloudGuestIsStagedWithTheDriversReason) {
  const auto host = host_of(machine_with("cloud-guest"));
  const ProofRow row = proved(*host, copy_of(0, 1));
  EXPECT_EQ(row.verdict, Verdict::staged) << told(row);
  EXPECT_TRUE(names(row, Cause::p2p_chipset_not_supported)) << told(row);
  EXPECT_EQ(row.facts.state, FindingState::unmet);
  EXPECT_EQ(row.physical.state, PhysicalState::unreadable);
  EXPECT_EQ(row.physical.unreadable, Cause::evidence_dram_counters_absent);
}

TEST(ProofOfStorage, WithoutTheModuleIsStagedAndForcedIsMeasured) {
  const TemporaryDirectory directory;
  const auto host = host_of(machine_with("workstation", {"/modules/nvidia_fs=false"}));
  const ProofRow stopped = proved(*host, storage_of(directory, false));
  EXPECT_EQ(stopped.verdict, Verdict::staged) << told(stopped);
  EXPECT_TRUE(names(stopped, Cause::storage_nvidia_fs_absent)) << told(stopped);
  EXPECT_TRUE(stopped.physical.volumes_bytes.empty());
  ProveOptions options = small_options();
  options.force = true;
  const ProofRow forced = proved(*host, storage_of(directory, false), options);
  EXPECT_EQ(forced.verdict, Verdict::staged) << told(forced);
  EXPECT_EQ(forced.known, Known::witnessed);
  EXPECT_NEAR(forced.physical.host_dram_bytes->per_byte, 2, 0.1);
}

TEST(ProofOfStorage, ThatFailsBeforeItBeginsIsUnknownAndSaysWhy) {
  const TemporaryDirectory directory;
  const auto host = host_of(machine_with("workstation"));
  Subject subject = storage_of(directory, true);
  subject.path = directory.file("nowhere/scratch");
  const ProofRow row = proved(*host, subject);
  EXPECT_EQ(row.verdict, Verdict::unknown);
  ASSERT_EQ(row.missing.size(), 1U);
  EXPECT_NE(row.missing[0].find("nowhere"), std::string::npos) << row.missing[0];
}

// --- what only a live machine is asked ---

/// A software machine that says it is none, so that clocks and CPU time count.
class LiveLooking : public support::AroundHost {
 public:
  using AroundHost::AroundHost;
  HostKind kind() const override { return HostKind::live; }
};

TEST_P(HonestRows, AreMeasuredWhereTimeMeansSomething) {
  const auto host = host_of(machine_with("workstation"));
  LiveLooking live(*host);
  const ProofRow row = proved(live, subject());
  EXPECT_EQ(row.verdict, Verdict::direct) << told(row);
  EXPECT_FALSE(row.benefit.model);
  EXPECT_TRUE(row.benefit.speedup_max.has_value()) << row.benefit.bottleneck;
  EXPECT_TRUE(row.physical.cpu_ns.has_value());
  const WitnessSlope* pcie = row.physical.of("gpu_pcie");
  if (pcie->transfer.has_value()) {  // a slow test machine may leave gaps
    EXPECT_NE(pcie->detail.find("plain pinned copy"), std::string::npos) << pcie->detail;
  } else {
    EXPECT_EQ(pcie->unreadable, Cause::evidence_gpu_counters_gap);
  }
}

TEST(ProofOfStorage, ThatIsRefusedIsToldWhatDirectWouldWin) {
  const TemporaryDirectory directory;
  const auto host = host_of(machine_with("workstation", {"/modules/nvidia_fs=false"}));
  LiveLooking live(*host);
  const ProofRow row = proved(live, storage_of(directory, false));
  EXPECT_EQ(row.verdict, Verdict::staged) << told(row);
  EXPECT_FALSE(row.benefit.model);
  EXPECT_TRUE(row.benefit.speedup_max.has_value()) << row.benefit.bottleneck;
}

// --- lies ---

/// Memory controllers that stand still, or may not be read.
class FalseCounters : public system::Counters {
 public:
  explicit FalseCounters(bool refused) : refused_(refused) {}
  Result<std::uint64_t> cpu_time_ns() override { return std::uint64_t{1}; }
  Result<double> perf_event(std::string_view pmu, std::string_view) override {
    if (refused_) return os_error(EACCES, "open a perf event of " + std::string(pmu));
    return 4711.0;
  }

 private:
  bool refused_;
};

class CounterHost : public support::AroundHost {
 public:
  CounterHost(system::Host& inner, bool refused) : AroundHost(inner), counters_(refused) {}
  system::Counters& counters() override { return counters_; }

 private:
  FalseCounters counters_;
};

TEST_P(HonestRows, AreUnknownWhereTheCountersStandStill) {
  const auto host = host_of(machine_with("workstation"));
  CounterHost stuck(*host, false);
  const ProofRow row = proved(stuck, subject());
  EXPECT_EQ(row.verdict, Verdict::unknown) << told(row);
  EXPECT_NE(row.known, Known::witnessed);
  EXPECT_EQ(row.physical.state, PhysicalState::inconclusive);
  ASSERT_EQ(row.missing.size(), 1U);
  EXPECT_NE(row.missing[0].find("the counters stand still"), std::string::npos) << row.missing[0];
}

TEST_P(HonestRows, AreUnknownWhereTheCountersMayNotBeRead) {
  const auto host = host_of(machine_with("workstation"));
  CounterHost refused(*host, true);
  const ProofRow row = proved(refused, subject());
  EXPECT_EQ(row.verdict, Verdict::unknown) << told(row);
  EXPECT_NE(row.known, Known::witnessed);
  EXPECT_EQ(row.physical.state, PhysicalState::unreadable);
  EXPECT_TRUE(names(row, Cause::evidence_dram_counters_refused)) << told(row);
  EXPECT_FALSE(row.physical.host_dram_bytes.has_value());
}

/// Says that peer access is enabled and does nothing, so that the driver stages
/// in silence.
class SilentlyStagingCuda : public support::AroundCuda {
 public:
  using AroundCuda::AroundCuda;
  system::cuda::CUresult ctx_enable_peer_access(system::cuda::CUcontext, unsigned) override {
    return system::cuda::success;
  }
};

/// And says of every pointer that kernels have it.
class LyingCuda final : public SilentlyStagingCuda {
 public:
  using SilentlyStagingCuda::SilentlyStagingCuda;
  system::cuda::CUresult pointer_get_attribute(void* answer, int attribute,
                                               system::cuda::CUdeviceptr pointer) override {
    if (attribute == system::cuda::pointer_device_pointer) {
      std::memcpy(answer, &pointer, sizeof pointer);
      return system::cuda::success;
    }
    return SilentlyStagingCuda::pointer_get_attribute(answer, attribute, pointer);
  }
  system::cuda::CUresult pointer_get_attributes(unsigned count, int* attributes, void** answers,
                                                system::cuda::CUdeviceptr pointer) override {
    const auto code =
        SilentlyStagingCuda::pointer_get_attributes(count, attributes, answers, pointer);
    for (unsigned i = 0; i < count; ++i) {
      if (attributes[i] == system::cuda::pointer_device_pointer)
        std::memcpy(answers[i], &pointer, sizeof pointer);
    }
    return code;
  }
};

/// Loses the end of every large peer copy. A probe is small.
class ForgetfulCuda : public support::AroundCuda {
 public:
  using AroundCuda::AroundCuda;
  system::cuda::CUresult memcpy_peer_async(system::cuda::CUdeviceptr target,
                                           system::cuda::CUcontext target_context,
                                           system::cuda::CUdeviceptr source,
                                           system::cuda::CUcontext source_context,
                                           std::size_t bytes,
                                           system::cuda::CUstream stream) override {
    return AroundCuda::memcpy_peer_async(target, target_context, source, source_context,
                                         kept(bytes), stream);
  }
  system::cuda::CUresult memcpy_dtod_async(system::cuda::CUdeviceptr target,
                                           system::cuda::CUdeviceptr source, std::size_t bytes,
                                           system::cuda::CUstream stream) override {
    return AroundCuda::memcpy_dtod_async(target, source, kept(bytes), stream);
  }

 private:
  static std::size_t kept(std::size_t bytes) { return bytes > 64 * kibibyte ? bytes - 1 : bytes; }
};

TEST(ProofOfLies, ACopyThatStagesInSilenceIsStagedAndAContradiction) {
  const auto host = host_of(machine_with("workstation"));
  support::AroundHost around(*host);
  LyingCuda cuda(*host->cuda().value());
  around.cuda_table = &cuda;
  const ProofRow row = proved(around, copy_of(0, 1));
  EXPECT_EQ(row.runtime.bytes[Carriage::direct], row.runtime.bytes.total()) << "no lie was told";
  EXPECT_EQ(row.verdict, Verdict::staged) << told(row);
  EXPECT_EQ(row.known, Known::witnessed);
  EXPECT_EQ(row.contradictions.size(), 1U);
  EXPECT_TRUE(names(row, Cause::evidence_contradiction));
  EXPECT_NEAR(row.physical.host_dram_bytes->per_byte, 2, 0.1);
}

TEST(ProofOfLies, ACopyWithoutTheAccessThatWasGrantedIsNotClaimedAndSeenToBeStaged) {
  const auto host = host_of(machine_with("workstation"));
  support::AroundHost around(*host);
  SilentlyStagingCuda cuda(*host->cuda().value());
  around.cuda_table = &cuda;
  const ProofRow row = proved(around, copy_of(0, 1));
  EXPECT_EQ(row.runtime.bytes[Carriage::direct], 0U) << told(row);
  EXPECT_EQ(row.verdict, Verdict::staged) << told(row);
  EXPECT_EQ(row.known, Known::witnessed);
  EXPECT_EQ(row.contradictions.size(), 0U) << told(row);
  EXPECT_TRUE(names(row, Cause::p2p_peer_access_not_enabled)) << told(row);
}

TEST(ProofOfLies, ACopyThatLosesBytesIsBroken) {
  const auto host = host_of(machine_with("workstation"));
  support::AroundHost around(*host);
  ForgetfulCuda cuda(*host->cuda().value());
  around.cuda_table = &cuda;
  const ProofRow row = proved(around, copy_of(0, 1));
  EXPECT_EQ(row.verdict, Verdict::broken) << told(row);
  EXPECT_EQ(row.runtime.data_verified, std::optional<bool>(false));
  EXPECT_TRUE(names(row, Cause::p2p_wrong_data)) << told(row);
  EXPECT_EQ(row.contradictions.size(), 1U);
}

TEST_P(HonestRows, WhoseMoverStagesAndClaimsDirectAreStagedAndAContradiction) {
  const test::Planting lie(test::ProviderMutant::provider_goes_by_host);
  const auto host = host_of(machine_with("workstation"));
  const ProofRow row = proved(*host, subject());
  EXPECT_EQ(row.runtime.bytes[Carriage::direct], row.runtime.bytes.total()) << "no lie was told";
  EXPECT_EQ(row.runtime.data_verified, std::optional<bool>(true)) << "but for the data, which came";
  EXPECT_EQ(row.verdict, Verdict::staged) << told(row);
  EXPECT_EQ(row.known, Known::witnessed);
  EXPECT_FALSE(row.contradictions.empty());
  EXPECT_TRUE(names(row, Cause::evidence_contradiction)) << told(row);
}

TEST_P(HonestRows, WhoseControlSaysThatItDidNotStageAreUnknown) {
  const test::Planting lie(test::ProviderMutant::provider_stages_and_claims_direct);
  const auto host = host_of(machine_with("workstation"));
  const ProofRow row = proved(*host, subject());
  EXPECT_EQ(row.runtime.control_bytes[Carriage::staged], 0U) << "no lie was told";
  EXPECT_EQ(row.verdict, Verdict::unknown) << told(row);
  EXPECT_NE(row.known, Known::witnessed);
  ASSERT_FALSE(row.missing.empty());
  EXPECT_NE(row.missing[0].find("a control that stages"), std::string::npos) << row.missing[0];
}

/// Memory controllers of a machine that somebody else keeps busy, now more and
/// now less.
class NoisyCounters : public system::Counters {
 public:
  explicit NoisyCounters(system::Counters& inner) : inner_(inner) {}
  Result<std::uint64_t> cpu_time_ns() override { return inner_.cpu_time_ns(); }
  Result<double> perf_event(std::string_view pmu, std::string_view event) override {
    Result<double> counted = inner_.perf_event(pmu, event);
    if (!counted.ok()) return counted;
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    others_mebibytes_ += static_cast<double>(state_ >> 40) / static_cast<double>(1U << 24) * 40;
    return *counted + others_mebibytes_;
  }

 private:
  system::Counters& inner_;
  std::uint64_t state_ = 1;
  double others_mebibytes_ = 0;
};

class NoisyHost : public support::AroundHost {
 public:
  explicit NoisyHost(system::Host& inner) : AroundHost(inner), counters_(inner.counters()) {}
  system::Counters& counters() override { return counters_; }

 private:
  NoisyCounters counters_;
};

TEST_P(HonestRows, AreUnknownWhereTheWitnessCannotSeparateThem) {
  const auto host = host_of(machine_with("workstation"));
  NoisyHost noisy(*host);
  const ProofRow row = proved(noisy, subject());
  EXPECT_EQ(row.verdict, Verdict::unknown) << told(row);
  EXPECT_NE(row.known, Known::witnessed);
  EXPECT_EQ(row.physical.state, PhysicalState::inconclusive);
  EXPECT_FALSE(row.missing.empty());
}

/// Answers large requests as whole and carries all but their last page.
class ForgetfulCufile : public support::AroundCufile {
 public:
  using AroundCufile::AroundCufile;
  ssize_t read(system::cufile::CUfileHandle_t handle, void* base, std::size_t size,
               off_t file_offset, off_t base_offset) override {
    const std::size_t kept = size > 64 * kibibyte ? size - 4096 : size;
    const ssize_t moved = AroundCufile::read(handle, base, kept, file_offset, base_offset);
    return moved == static_cast<ssize_t>(kept) ? static_cast<ssize_t>(size) : moved;
  }
  ssize_t write(system::cufile::CUfileHandle_t handle, const void* base, std::size_t size,
                off_t file_offset, off_t base_offset) override {
    const std::size_t kept = size > 64 * kibibyte ? size - 4096 : size;
    const ssize_t moved = AroundCufile::write(handle, base, kept, file_offset, base_offset);
    return moved == static_cast<ssize_t>(kept) ? static_cast<ssize_t>(size) : moved;
  }
};

TEST(ProofOfLies, AFileThatArrivesInPartIsBroken) {
  for (const bool writing : {false, true}) {
    const TemporaryDirectory directory;
    const auto host = host_of(machine_with("workstation"));
    support::AroundHost around(*host);
    ForgetfulCufile cufile(*host->cufile().value());
    around.cufile_table = &cufile;
    const ProofRow row = proved(around, storage_of(directory, writing));
    EXPECT_EQ(row.verdict, Verdict::broken) << told(row);
    EXPECT_EQ(row.runtime.data_verified, std::optional<bool>(false));
    EXPECT_TRUE(names(row, Cause::storage_p2p_lost)) << told(row);
    EXPECT_EQ(row.contradictions.size(), 1U);
  }
}

struct LibraryLie {
  const char* name;
  fabric::SoftFaults faults;
};

class LyingLibraries : public ::testing::TestWithParam<LibraryLie> {};

TEST_P(LyingLibraries, AreNeverCalledDirect) {
  const TemporaryDirectory directory;
  fabric::SoftOptions options;
  options.faults = GetParam().faults;
  for (const bool writing : {false, true}) {
    const auto host = host_of(machine_with("workstation"), options);
    const ProofRow row = proved(*host, storage_of(directory, writing));
    EXPECT_EQ(row.verdict, Verdict::staged) << told(row);
    EXPECT_FALSE(row.causes.empty()) << told(row);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, LyingLibraries,
    ::testing::Values(LibraryLie{"StagesInSilence", {.compat_in_silence = true}},
                      LibraryLie{"StagesWithStuckStatistics",
                                 {.compat_in_silence = true, .statistics_stuck = true}},
                      LibraryLie{"StagesWithoutStatistics",
                                 {.compat_in_silence = true, .statistics_missing = true}},
                      LibraryLie{"StagesAndCountsItAsDirect",
                                 {.compat_in_silence = true,
                                  .mutant = fabric::Mutant::cufile_staged_counted_direct}},
                      LibraryLie{"LosesItsPeerRequests", {.dma_fault = 1}}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(ProofOfLies, StatisticsThatStandStillAreMadeUpForByTheMemoryControllers) {
  const TemporaryDirectory directory;
  fabric::SoftOptions options;
  options.faults.statistics_stuck = true;
  const auto host = host_of(machine_with("workstation"), options);
  const ProofRow row = proved(*host, storage_of(directory, false));
  EXPECT_EQ(row.runtime.bytes[Carriage::direct], 0U) << "nobody but the memory controllers knows";
  EXPECT_EQ(row.verdict, Verdict::direct) << told(row);
  EXPECT_EQ(row.known, Known::witnessed);
}

// --- which pairs ---

TEST(ProofSubjects, AreBestPartnersAndOnePairPerLevelUnlessAllAreWanted) {
  const TemporaryDirectory directory;
  test::SoftSession soft(machine_with("dgx"));
  const std::string scratch = directory.path().string();
  const auto count = [&](bool all, Member member) {
    const auto subjects = proof::choose_subjects(*soft, soft.host(), scratch, all);
    return std::count_if(subjects.begin(), subjects.end(),
                         [&](const Subject& subject) { return subject.member == member; });
  };
  EXPECT_EQ(count(false, Member::p2p), 8);
  EXPECT_EQ(count(true, Member::p2p), 56);
  EXPECT_EQ(count(true, Member::storage), 16);
  EXPECT_LT(count(false, Member::storage), 16);
  EXPECT_GE(count(false, Member::storage), 4);
  EXPECT_EQ(count(true, Member::rdma), 16) << "each GPU and its adapter, both directions";
  EXPECT_EQ(count(false, Member::rdma), 2) << "all of them are equally near";
  for (const Subject& subject : proof::choose_subjects(*soft, soft.host(), "", false))
    EXPECT_NE(subject.member, Member::storage);
}

/// Orders as a stream does, with a CPU proxy that posts; `untold`: nobody knows how the bytes went.
class ByProxy final : public proof::OrderedRun {
 public:
  ByProxy(Session& session, bool untold) : session_(session), untold_(untold) {}
  Issuer issuer() const override { return Issuer::stream; }
  std::vector<Finding> findings() override { return {}; }
  Result<proof::OrderedResult> run(const Place& source, const Place& target,
                                   std::uint64_t) override {
    proof::OrderedResult result{.outcome = session_.transfer(source, target)};
    Receipt& receipt = result.outcome.receipt;
    receipt.issuer = Issuer::stream;
    receipt.poster = Poster::cpu_proxy;
    if (untold_) {
      const std::uint64_t all = receipt.bytes.total();
      receipt.bytes = {};
      receipt.bytes[Carriage::unattributed] = all;
    }
    return result;
  }

 private:
  Session& session_;
  bool untold_;
};

TEST(OrderedRows, AreDegradedByAProxyOnlyWhereTheyAreKnownToBeDirect) {
  const TemporaryDirectory directory;
  for (const auto expected : {Verdict::degraded, Verdict::staged, Verdict::unknown}) {
    const bool untold = expected == Verdict::unknown;
    // A guest has no counters of its memory controllers that could tell instead.
    Machine machine = machine_with(untold ? "cloud-guest" : "workstation");
    if (expected == Verdict::staged) machine.modules.nvidia_fs = false;
    const auto host = host_of(machine);
    const auto counted = system::CountedHost::wrap(*host);
    Result<Session> session = Session::open(*counted, test::SoftSession::quiet());
    ASSERT_TRUE(session.ok());
    evidence::Witnesses witnesses(*host, counted.get());
    ByProxy run(*session, untold);
    const ProofRow row = proof::prove_ordered_row(
        *session, *counted, witnesses, storage_of(directory, false), small_options(), run);
    EXPECT_EQ(row.verdict, expected) << told(row);
    EXPECT_EQ(names(row, Cause::async_cpu_proxy), !untold) << told(row);
    EXPECT_EQ(row.missing.empty(), !untold) << told(row);
  }
}

}  // namespace
}  // namespace nobounce
