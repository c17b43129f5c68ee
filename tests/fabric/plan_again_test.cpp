// A plan that is used again rests on what is read anew for every transfer: whatever changes between
// two transfers of the same kind, the next receipt says what the bus did.
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "support/around_host.hpp"
#include "support/gpu_kinds.hpp"
#include "system/counted_host.hpp"

namespace nobounce {
namespace {

using test::GpuKinds;
using test::machine_with;
using test::random_bytes;
using test::SoftSession;
using test::TemporaryDirectory;
using test::write_file;
namespace cuda = system::cuda;

constexpr std::uint64_t length = 300001;
constexpr int enough = 4;  // transfers after which a plan is surely used again

/// A driver that a test may make refuse, or fail once.
class MoodyCuda : public support::AroundCuda {
 public:
  using AroundCuda::AroundCuda;
  bool refuses_access = false;
  int enabled = 0;  ///< how often access was asked for
  bool refuses_mappings = false;
  int failing_copies = 0;
  std::function<void()> before_copy;  ///< once, when all questions before it were asked
  std::function<void()> after_copy;
  CUresult sync_code = cuda::success;  ///< of the next cuStreamSynchronize, which tells it once
  CUresult stream_synchronize(CUstream stream) override {
    const CUresult code = AroundCuda::stream_synchronize(stream);
    const CUresult told = std::exchange(sync_code, cuda::success);
    return told != cuda::success ? told : code;
  }
  CUresult ctx_enable_peer_access(CUcontext peer, unsigned flags) override {
    ++enabled;
    if (refuses_access) return cuda::error_peer_access_unsupported;
    return AroundCuda::ctx_enable_peer_access(peer, flags);
  }
  CUresult mem_set_access(CUdeviceptr pointer, std::size_t bytes,
                          const CUmemAccessDesc* descriptions, std::size_t count) override {
    if (refuses_mappings) return cuda::error_not_permitted;
    return AroundCuda::mem_set_access(pointer, bytes, descriptions, count);
  }
  CUresult memcpy_dtod_async(CUdeviceptr target, CUdeviceptr source, std::size_t bytes,
                             CUstream stream) override {
    if (failing_copies > 0 && failing_copies-- > 0) return cuda::error_illegal_address;
    if (before_copy) std::exchange(before_copy, nullptr)();
    const CUresult code = AroundCuda::memcpy_dtod_async(target, source, bytes, stream);
    if (after_copy) after_copy();
    return code;
  }
  CUresult memcpy_peer_async(CUdeviceptr target, CUcontext target_context, CUdeviceptr source,
                             CUcontext source_context, std::size_t bytes,
                             CUstream stream) override {
    if (before_copy) std::exchange(before_copy, nullptr)();
    return AroundCuda::memcpy_peer_async(target, target_context, source, source_context, bytes,
                                         stream);
  }
};

/// Two GPUs, memory of one kind on the second, and a driver with moods.
class PlanAgain : public ::testing::Test {
 protected:
  PlanAgain() {
    auto made = fabric::SoftHost::create(machine_with("workstation"), {});
    if (!made.ok()) throw std::runtime_error(to_string(made.error()));
    soft_ = std::move(*made);
    kinds_.emplace(*soft_);
    cuda_.emplace(**soft_->cuda());
    around_.emplace(*soft_);
    around_->cuda_table = &*cuda_;
    counted_ = system::CountedHost::wrap(*around_);
    Result<Session> opened = Session::open(*counted_, SoftSession::quiet());
    if (!opened.ok()) throw std::runtime_error(to_string(opened.error()));
    session_.emplace(std::move(*opened));
    Result<Region> first = session_->allocate(0, length);
    if (!first.ok()) throw std::runtime_error(to_string(first.error()));
    source_.emplace(std::move(*first));
    kinds_->plant(std::get<GpuMemory>(source_->place()).address, bytes_);
  }

  /// One transfer, whose receipt must equal what the bus carried, and whose bytes must be there.
  Outcome move(const Region& target, Policy policy = Policy::direct_preferred) {
    const DevicePointer at = std::get<GpuMemory>(target.place()).address;
    kinds_->plant(at, old_);
    soft_->bus().ledger().clear_requests();
    const Outcome outcome =
        session_->transfer(source_->place(), target.place(), {.policy = policy});
    EXPECT_TRUE(test::equals_ledger(outcome.receipt, kinds_->arrived(at, length)));
    EXPECT_EQ(kinds_->look_at(at, length), outcome.ok() ? bytes_ : old_);
    return outcome;
  }
  void warm(const Region& target, Policy policy = Policy::direct_preferred) {
    for (int i = 0; i < enough; ++i) {
      const Outcome outcome = move(target, policy);
      ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
      ASSERT_EQ(outcome.receipt.bytes[Carriage::direct], length);
    }
  }
  std::uint64_t calls_of(const Region& target) {
    const std::uint64_t before = counted_->counts().calls;
    EXPECT_TRUE(session_->transfer(source_->place(), target.place()).ok());
    return counted_->counts().calls - before;
  }
  Region adopted(AllocationKind kind) {
    memory_ = kinds_->allocate(kind, 1, length);
    Result<Region> region = session_->adopt(memory_, length);
    EXPECT_TRUE(region.ok()) << to_string(region.error());
    return std::move(*region);
  }

  std::unique_ptr<fabric::SoftHost> soft_;
  std::optional<GpuKinds> kinds_;
  std::optional<MoodyCuda> cuda_;
  std::optional<support::AroundHost> around_;
  std::unique_ptr<system::CountedHost> counted_;
  std::optional<Session> session_;
  std::optional<Region> source_;
  DevicePointer memory_;
  std::vector<std::byte> bytes_ = random_bytes(length, 31);
  std::vector<std::byte> old_ = random_bytes(length, 32);
};

TEST_F(PlanAgain, ARepeatedCopyAsksTheDriverLittle) {
  Region target = *session_->allocate(1, length);
  const std::uint64_t first = calls_of(target);
  for (int i = 0; i < enough; ++i) (void)calls_of(target);
  std::uint64_t least = first;
  for (int i = 0; i < 16; ++i) least = std::min(least, calls_of(target));
  // Access both ways and both memories are asked for; the copy, and one look at least.
  EXPECT_GE(least, 5u);
  EXPECT_LE(least, 18u);
  EXPECT_GT(first, 3 * least);
}

TEST_F(PlanAgain, TheRouteIsTheOneThatPlanningAnewGives) {
  Region target = *session_->allocate(1, length);
  warm(target);
  Result<Transfer> transfer = session_->start(source_->place(), target.place());
  ASSERT_TRUE(transfer.ok());
  ASSERT_TRUE(transfer->wait().has_value());
  Result<Route> anew = session_->plan(source_->place(), target.place(), Policy::direct_preferred);
  ASSERT_TRUE(anew.ok());
  const Route& used = transfer->route();
  EXPECT_EQ(used.member, anew->member);
  EXPECT_EQ(used.link, anew->link);
  EXPECT_EQ(used.causes, anew->causes);
  ASSERT_EQ(used.segments.size(), 1u);
  EXPECT_EQ(used.segments[0].length_bytes, length);
  ASSERT_EQ(used.candidates.size(), anew->candidates.size());
  for (std::size_t i = 0; i < used.candidates.size(); ++i) {
    EXPECT_EQ(used.candidates[i].assessment.findings, anew->candidates[i].assessment.findings);
  }
}

TEST_F(PlanAgain, AccessThatSomebodyDisabledIsGotAgain) {
  Region target = *session_->allocate(1, length);
  warm(target);
  for (const auto& [owner, gpu] : {std::pair{1u, 0u}, std::pair{0u, 1u}}) {
    kinds_->disable(AllocationKind::device, {}, 0, owner, gpu);
    const Outcome outcome = move(target, Policy::direct_required);
    ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
    EXPECT_EQ(outcome.receipt.bytes[Carriage::direct], length);
  }
}

/// Between plain memory the question is whether access is there, and it is enabled only where not.
TEST_F(PlanAgain, AccessThatIsThereIsNotEnabledOnceMore) {
  Region target = *session_->allocate(1, length);
  warm(target);
  cuda_->enabled = 0;
  for (int i = 0; i < enough; ++i) EXPECT_EQ(move(target).receipt.bytes[Carriage::direct], length);
  EXPECT_EQ(cuda_->enabled, 0);
  kinds_->disable(AllocationKind::device, {}, 0, 1, 0);
  EXPECT_EQ(move(target).receipt.bytes[Carriage::direct], length);
  EXPECT_GT(cuda_->enabled, 0);
}

TEST_F(PlanAgain, AccessThatIsRefusedNowIsStagedOrRefusedWithItsCause) {
  Region target = *session_->allocate(1, length);
  warm(target);
  warm(target, Policy::direct_required);
  kinds_->disable(AllocationKind::device, {}, 0, 1, 0);
  kinds_->disable(AllocationKind::device, {}, 0, 0, 1);
  cuda_->refuses_access = true;
  for (int i = 0; i < enough; ++i) {
    const Outcome strict = move(target, Policy::direct_required);
    ASSERT_FALSE(strict.ok());
    EXPECT_EQ(strict.error->cause, Cause::p2p_peer_access_not_enabled);
    const Outcome staged = move(target);
    ASSERT_TRUE(staged.ok()) << to_string(*staged.error);
    EXPECT_EQ(staged.receipt.bytes[Carriage::staged], length);
    EXPECT_TRUE(test::has_cause(staged.receipt, Cause::p2p_peer_access_not_enabled));
  }
}

TEST_F(PlanAgain, ASmallCopyToo) {
  constexpr std::uint64_t small = 4096;
  Region target = *session_->allocate(1, small);
  const DevicePointer at = std::get<GpuMemory>(target.place()).address;
  const auto moved = [&](Policy policy) {
    soft_->bus().ledger().clear_requests();
    const Outcome outcome =
        session_->transfer(source_->place(0, small), target.place(), {.policy = policy});
    EXPECT_TRUE(test::equals_ledger(outcome.receipt, kinds_->arrived(at, small)));
    return outcome;
  };
  for (const Policy policy : {Policy::direct_preferred, Policy::direct_required}) {
    for (int i = 0; i < enough; ++i)
      EXPECT_EQ(moved(policy).receipt.bytes[Carriage::direct], small);
    kinds_->disable(AllocationKind::device, {}, 0, 1, 0);
    EXPECT_EQ(moved(policy).receipt.bytes[Carriage::direct], small);
  }
  kinds_->disable(AllocationKind::device, {}, 0, 0, 1);
  for (const Policy policy : {Policy::direct_preferred, Policy::direct_required}) {
    kinds_->disable(AllocationKind::device, {}, 0, 1, 0);
    EXPECT_EQ(moved(policy).receipt.bytes[Carriage::direct], small) << "with both ways off";
  }
  kinds_->disable(AllocationKind::device, {}, 0, 1, 0);
  cuda_->refuses_access = true;
  for (int i = 0; i < enough; ++i) {
    const Outcome outcome = moved(Policy::direct_preferred);
    EXPECT_EQ(outcome.receipt.bytes[Carriage::staged], small);
    EXPECT_TRUE(test::has_cause(outcome.receipt, Cause::p2p_peer_access_not_enabled));
  }
}

/// The driver stages such a copy in silence, whatever was confirmed a moment before.
TEST_F(PlanAgain, AccessThatIsTakenAwayBetweenQuestionAndCopyMakesNoStagedCopyDirect) {
  for (const AllocationKind kind : {AllocationKind::device, AllocationKind::vmm,
                                    AllocationKind::pool, AllocationKind::ipc_import}) {
    const Region known = adopted(kind);
    warm(known);
    for (const bool planned_before : {true, false}) {
      // Of memory that was never looked at before nothing is confirmed, and access is asked for.
      const Region fresh = adopted(kind);
      const Region& target = planned_before ? known : fresh;
      const DevicePointer at = std::get<GpuMemory>(target.place()).address;
      for (const Policy policy : {Policy::direct_preferred, Policy::direct_required}) {
        const std::string name = std::string(to_string(kind)) + " " +
                                 std::string(to_string(policy)) +
                                 (planned_before ? " again" : " at first");
        const auto move_while = [&](bool taken_away) {
          soft_->bus().ledger().clear_requests();
          if (taken_away)
            cuda_->before_copy = [&] {
              kinds_->disable(AllocationKind::device, {}, 0, 1, 0);
              kinds_->disable(AllocationKind::device, {}, 0, 0, 1);
              if (kind == AllocationKind::vmm || kind == AllocationKind::pool)
                kinds_->disable(kind, at, length, 1, 0);
            };
          return session_->transfer(source_->place(), target.place(), {.policy = policy});
        };
        const Outcome outcome = move_while(true);
        EXPECT_EQ(kinds_->arrived(at, length)[Carriage::staged], length) << name;
        EXPECT_EQ(outcome.receipt.bytes[Carriage::direct], 0u) << name;
        EXPECT_EQ(outcome.receipt.bytes[Carriage::unattributed], length) << name;
        EXPECT_EQ(outcome.ok(), policy == Policy::direct_preferred) << name;
        EXPECT_TRUE(test::has_cause(outcome.receipt, Cause::p2p_peer_access_not_enabled)) << name;
        const Outcome next = move_while(false);
        EXPECT_TRUE(next.ok()) << name;
        EXPECT_EQ(next.receipt.bytes[Carriage::direct], length) << name;
      }
    }
  }
}

/// One way is enough for a direct copy, whoever takes the other one away.
TEST_F(PlanAgain, AccessThatIsTakenAwayOneWayOnlyLeavesTheCopyDirect) {
  const Region target = adopted(AllocationKind::device);
  warm(target);
  for (const auto& [owner, gpu] : {std::pair{1u, 0u}, std::pair{0u, 1u}}) {
    cuda_->before_copy = [&, owner = owner, gpu = gpu] {
      kinds_->disable(AllocationKind::device, {}, 0, owner, gpu);
    };
    EXPECT_EQ(move(target).receipt.bytes[Carriage::direct], length);
  }
}

/// Another session gets access back while the copy is under way: that tells nothing about it.
TEST_F(PlanAgain, AccessThatAnotherSessionRegainsMeanwhileMakesNoStagedCopyDirect) {
  constexpr std::uint64_t small = 4096;
  Region target = *session_->allocate(1, small);
  const DevicePointer at = std::get<GpuMemory>(target.place()).address;
  for (int i = 0; i < enough; ++i)
    ASSERT_TRUE(session_->transfer(source_->place(0, small), target.place()).ok());
  kinds_->disable(AllocationKind::device, {}, 0, 1, 0);
  kinds_->disable(AllocationKind::device, {}, 0, 0, 1);
  cuda_->after_copy = [&] {
    for (const auto& [owner, gpu] : {std::pair{1u, 0u}, std::pair{0u, 1u}}) {
      const system::ContextGuard guard(kinds_->api(), kinds_->context(gpu));
      (void)kinds_->api().ctx_enable_peer_access(kinds_->context(owner), 0);
    }
  };
  soft_->bus().ledger().clear_requests();
  const Outcome outcome = session_->transfer(source_->place(0, small), target.place());
  EXPECT_TRUE(test::equals_ledger(outcome.receipt, kinds_->arrived(at, small)));
}

/// What the driver says once and never again is still an error.
TEST_F(PlanAgain, AnErrorToldToWhoWaitsIsNotForgotten) {
  Region target = *session_->allocate(1, length);
  warm(target, Policy::direct_required);
  cuda_->sync_code = cuda::error_illegal_address;
  const Outcome outcome =
      session_->transfer(source_->place(), target.place(), {.policy = Policy::direct_required});
  ASSERT_EQ(cuda_->sync_code, cuda::success) << "it was told";
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error->code, cuda::error_illegal_address);
  EXPECT_EQ(outcome.receipt.bytes.total(), 0u);
}

/// Only the importer's GPU reaches an import: then the copy rests on the other way, too.
TEST_F(PlanAgain, AccessOfAnImportThatSomebodyDisabledIsGotAgainBothWays) {
  Region target = adopted(AllocationKind::ipc_import);
  warm(target);
  for (const auto& [owner, gpu] : {std::pair{1u, 0u}, std::pair{0u, 1u}}) {
    kinds_->disable(AllocationKind::device, {}, 0, owner, gpu);
    const Outcome outcome = move(target, Policy::direct_required);
    ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
    EXPECT_EQ(outcome.receipt.bytes[Carriage::direct], length);
  }
}

/// From an import in a context of its own GPU the source's reach decides, which is only asked
/// about.
TEST_F(PlanAgain, AnImportThatIsReadRestsOnItsOwnGpusReach) {
  Region import = adopted(AllocationKind::ipc_import);
  const auto read = [&] {
    const Outcome outcome = session_->transfer(import.place(), source_->place());
    EXPECT_TRUE(outcome.ok());
    return outcome.receipt.bytes;
  };
  for (int i = 0; i < enough; ++i) (void)read();
  cuda_->refuses_access = true;
  EXPECT_EQ(read()[Carriage::direct], length) << "access is not enabled anew";
  kinds_->disable(AllocationKind::device, {}, 0, 1, 0);
  EXPECT_EQ(read()[Carriage::direct], length) << "the other way is not needed";
  kinds_->disable(AllocationKind::device, {}, 0, 0, 1);
  EXPECT_EQ(read()[Carriage::staged], length);
}

TEST_F(PlanAgain, AMappingWhoseAccessWasTakenAwayIsGrantedAgain) {
  Region target = adopted(AllocationKind::vmm);
  warm(target);
  kinds_->disable(AllocationKind::vmm, memory_, length, 1, 0);
  const Outcome outcome = move(target, Policy::direct_required);
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_EQ(outcome.receipt.bytes[Carriage::direct], length);
}

TEST_F(PlanAgain, AMappingThatIsRefusedNowIsStagedWithItsCause) {
  Region target = adopted(AllocationKind::vmm);
  warm(target);
  kinds_->disable(AllocationKind::vmm, memory_, length, 1, 0);
  cuda_->refuses_mappings = true;
  for (int i = 0; i < enough; ++i) {
    const Outcome outcome = move(target);
    ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
    EXPECT_EQ(outcome.receipt.bytes[Carriage::staged], length);
    EXPECT_TRUE(test::has_cause(outcome.receipt, Cause::memory_kind_vmm));
  }
}

TEST_F(PlanAgain, APoolWhoseAccessWasTakenAwayIsGrantedAgain) {
  Region target = adopted(AllocationKind::pool);
  warm(target);
  kinds_->disable(AllocationKind::pool, memory_, length, 1, 0);
  const Outcome outcome = move(target, Policy::direct_required);
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_EQ(outcome.receipt.bytes[Carriage::direct], length);
}

TEST_F(PlanAgain, OtherMemoryAtTheSameAddressIsLookedAtAnew) {
  Region target = adopted(AllocationKind::device);
  warm(target);
  {
    const system::ContextGuard guard(kinds_->api(), kinds_->context(1));
    ASSERT_EQ(kinds_->api().mem_free(memory_.value), cuda::success);
  }
  // A pool's memory, which access between contexts does not cover, where cuMemAlloc's was.
  ASSERT_EQ(kinds_->allocate(AllocationKind::pool, 1, length).value, memory_.value);
  const Outcome outcome = move(target, Policy::direct_required);
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_EQ(outcome.receipt.bytes[Carriage::direct], length);
}

TEST_F(PlanAgain, ACopyThatFailedOnceIsNotTriedDirectlyAgain) {
  Region target = *session_->allocate(1, length);
  warm(target);
  cuda_->failing_copies = 1;
  for (int i = 0; i < enough; ++i) {
    const Outcome outcome = move(target);
    ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
    EXPECT_EQ(outcome.receipt.bytes[Carriage::staged], length);
    EXPECT_GT(outcome.receipt.cause_count, 0);
  }
  EXPECT_EQ(cuda_->failing_copies, 0);
}

TEST_F(PlanAgain, APolicyGetsNobodyElsesPlan) {
  Region target = *session_->allocate(1, length);
  for (int i = 0; i < enough; ++i) {
    const Outcome staged = move(target, Policy::staged_only);
    ASSERT_TRUE(staged.ok());
    EXPECT_EQ(staged.receipt.bytes[Carriage::staged], length);
    EXPECT_TRUE(test::has_cause(staged.receipt, Cause::policy_staged_only));
    const Outcome direct = move(target, Policy::direct_required);
    ASSERT_TRUE(direct.ok()) << to_string(*direct.error);
    EXPECT_EQ(direct.receipt.bytes[Carriage::direct], length);
    EXPECT_EQ(direct.receipt.cause_count, 0);
  }
}

TEST_F(PlanAgain, ARegionThatIsGoneIsAnErrorAlthoughItsKindIsKnown) {
  Region kept = *session_->allocate(1, length);
  std::optional<Region> gone(*session_->allocate(1, length));
  warm(*gone);
  const Place place = gone->place();
  gone.reset();
  const Outcome outcome = session_->transfer(source_->place(), place);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error->origin, ErrorOrigin::input);
  warm(kept);
}

TEST_F(PlanAgain, HostMemoryThatIsPinnedNoMoreIsStagedWithItsCause) {
  std::vector<std::byte> host = bytes_;
  Region target = *session_->allocate(1, length);
  const DevicePointer at = std::get<GpuMemory>(target.place()).address;
  const HostMemory place{host.data(), host.size()};
  const system::ContextGuard guard(kinds_->api(), kinds_->context(1));
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(kinds_->api().mem_host_register(host.data(), host.size(), 0), cuda::success);
    for (int i = 0; i < enough; ++i) {
      const Outcome pinned = session_->transfer(place, target.place());
      ASSERT_TRUE(pinned.ok()) << to_string(*pinned.error);
      EXPECT_EQ(pinned.receipt.bytes[Carriage::direct], length);
    }
    ASSERT_EQ(kinds_->api().mem_host_unregister(host.data()), cuda::success);
    for (int i = 0; i < enough; ++i) {
      const Outcome pageable = session_->transfer(place, target.place());
      ASSERT_TRUE(pageable.ok()) << to_string(*pageable.error);
      EXPECT_EQ(pageable.receipt.bytes[Carriage::staged], length);
      EXPECT_TRUE(test::has_cause(pageable.receipt, Cause::memory_kind_pageable));
    }
    EXPECT_EQ(kinds_->look_at(at, length), bytes_);
  }
}

class StoragePlanAgain : public ::testing::Test {
 protected:
  Outcome move(SoftSession& soft, const File& file, const Region& region,
               std::uint64_t offset = 0) {
    soft.begin_account();
    const std::uint64_t bytes = file.length_bytes() - offset;
    const Place target = region.place(0, bytes);
    const Outcome outcome = soft->transfer(file.place(offset, bytes), target);
    EXPECT_TRUE(outcome.ok()) << to_string(*outcome.error);
    EXPECT_TRUE(test::equals_ledger(outcome.receipt, soft.arrived(target)));
    return outcome;
  }
  TemporaryDirectory directory_;
};

TEST_F(StoragePlanAgain, ARangeThatWrapsLiesOutsideOfItsFile) {
  SoftSession soft(machine_with("workstation"), {});
  write_file(directory_.file("data"), random_bytes(8192, 34));
  Result<File> file = soft->open_file(directory_.file("data"));
  Result<Region> region = soft->allocate(0, 8192);
  ASSERT_TRUE(file.ok() && region.ok());
  auto range = std::get<FileRange>(file->place(0, 8192));
  range.offset = FileOffset{~std::uint64_t{0} - 4095};
  const Outcome outcome = soft->transfer(range, region->place());
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error->cause, Cause::file_shorter_than_expected);
}

TEST_F(StoragePlanAgain, AModuleThatVanishesEndsDirectReads) {
  fabric::SoftOptions options;
  options.faults.module_unloaded_after_requests = 6;
  SoftSession soft(machine_with("workstation"), options);
  write_file(directory_.file("data"), random_bytes(1u << 20, 33));
  Result<File> file = soft->open_file(directory_.file("data"));
  Result<Region> region = soft->allocate(0, 1u << 20);
  ASSERT_TRUE(file.ok() && region.ok());
  bool direct = false;
  bool staged = false;
  for (int i = 0; i < 12; ++i) {
    const Outcome outcome = move(soft, *file, *region);
    direct = direct || outcome.receipt.bytes[Carriage::direct] > 0;
    staged = outcome.receipt.bytes[Carriage::staged] == file->length_bytes();
    EXPECT_EQ(staged, test::has_cause(outcome.receipt, Cause::storage_module_vanished));
  }
  EXPECT_TRUE(direct);
  EXPECT_TRUE(staged);
}

TEST_F(StoragePlanAgain, EveryTransferIsCutByItsOwnOffset) {
  SoftSession soft(machine_with("workstation"));
  write_file(directory_.file("data"), random_bytes(1u << 20, 34));
  Result<File> file = soft->open_file(directory_.file("data"));
  Result<Region> region = soft->allocate(0, 1u << 20);
  ASSERT_TRUE(file.ok() && region.ok());
  for (int i = 0; i < enough; ++i) {
    const Outcome aligned = move(soft, *file, *region);
    EXPECT_EQ(aligned.receipt.bytes[Carriage::direct], 1u << 20);
    EXPECT_FALSE(test::has_cause(aligned.receipt, Cause::storage_unaligned));
    const Outcome unaligned = move(soft, *file, *region, 100);
    EXPECT_EQ(unaligned.receipt.bytes[Carriage::device_bounced], (1u << 20) - 100);
    EXPECT_TRUE(test::has_cause(unaligned.receipt, Cause::storage_unaligned));
  }
}

TEST_F(StoragePlanAgain, AnotherFileWithTheSameNumberIsPlannedAnew) {
  SoftSession soft(machine_with("workstation"));
  write_file(directory_.file("long"), random_bytes(1u << 20, 35));
  write_file(directory_.file("short"), random_bytes(8192, 36));
  Result<Region> region = soft->allocate(0, 1u << 20);
  ASSERT_TRUE(region.ok());
  Place old;
  {
    Result<File> file = soft->open_file(directory_.file("long"));
    ASSERT_TRUE(file.ok());
    for (int i = 0; i < enough; ++i) (void)move(soft, *file, *region);
    old = file->place();
  }
  EXPECT_FALSE(soft->transfer(old, region->place()).ok());  // closed
  Result<File> file = soft->open_file(directory_.file("short"));
  ASSERT_TRUE(file.ok());
  EXPECT_FALSE(soft->transfer(old, region->place()).ok());  // shorter
  EXPECT_EQ(move(soft, *file, *region).receipt.bytes[Carriage::direct], 8192u);
}

TEST_F(StoragePlanAgain, AFileThatChangesBetweenTwoTransfersIsNamed) {
  SoftSession soft(machine_with("workstation"));
  const std::string path = directory_.file("data");
  write_file(path, random_bytes(1u << 20, 37));
  Result<File> file = soft->open_file(path);
  Result<Region> region = soft->allocate(0, 1u << 20);
  ASSERT_TRUE(file.ok() && region.ok());
  for (int i = 0; i < enough; ++i) {
    EXPECT_FALSE(test::has_cause(move(soft, *file, *region).receipt, Cause::file_changed));
  }
  write_file(path, random_bytes((1u << 20) + 5, 38));
  EXPECT_TRUE(test::has_cause(move(soft, *file, *region).receipt, Cause::file_changed));
}

}  // namespace
}  // namespace nobounce
