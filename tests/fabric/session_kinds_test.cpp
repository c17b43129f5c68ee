// Kinds of GPU memory in a session: each has its way to a peer or its refusal with a cause, and a
// kernel that dereferences the mapped pointer finds what the owner sees.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/gpu_kinds.hpp"

namespace nobounce {
namespace {

using test::GpuKinds;
using test::machine_with;
using test::random_bytes;
using test::SoftSession;
namespace cuda = system::cuda;

constexpr std::uint64_t length = 3000001;

struct KindsCase {
  AllocationKind source;
  AllocationKind target;
  Cause cause;  ///< why not direct; none: direct
};

void PrintTo(const KindsCase& tested, std::ostream* stream) {
  *stream << to_string(tested.source) << " to " << to_string(tested.target);
}

class KindPairs : public ::testing::TestWithParam<KindsCase> {};

TEST_P(KindPairs, AreCopiedDirectlyOrStagedOrRefusedWithTheCauseOfTheKind) {
  const KindsCase& row = GetParam();
  const bool direct = row.cause == Cause::none;
  SoftSession soft(machine_with("workstation"));
  GpuKinds kinds(soft.host());
  const DevicePointer from = kinds.allocate(row.source, 0, length);
  const DevicePointer to = kinds.allocate(row.target, 1, length);
  Result<Region> source = soft->adopt(from, length);
  Result<Region> target = soft->adopt(to, length);
  ASSERT_TRUE(source.ok()) << to_string(source.error());
  ASSERT_TRUE(target.ok()) << to_string(target.error());
  EXPECT_EQ(source->kind(), row.source);
  EXPECT_EQ(target->kind(), row.target);
  const auto old = random_bytes(length, 1);
  const auto bytes = random_bytes(length, 2);
  kinds.plant(to, old);
  kinds.plant(from, bytes);

  Result<Route> planned = soft->plan(source->place(), target->place(), Policy::direct_preferred);
  ASSERT_TRUE(planned.ok());
  bool unmet = false;
  for (const Finding& finding : planned->candidates.front().assessment.findings) {
    if (finding.state != FindingState::unmet) continue;
    unmet = true;
    EXPECT_EQ(finding.cause, row.cause) << finding.observed;
    EXPECT_FALSE(finding.remedy.empty());
    EXPECT_FALSE(finding.observed.empty());
  }
  EXPECT_EQ(unmet, !direct);

  for (const Policy policy : {Policy::direct_required, Policy::direct_preferred}) {
    SCOPED_TRACE(to_string(policy));
    soft.begin_account();
    const Outcome outcome = soft->transfer(source->place(), target->place(), {.policy = policy});
    const CarriageBytes truth = kinds.arrived(to, length);
    EXPECT_TRUE(test::equals_ledger(outcome.receipt, truth));
    if (!direct && policy == Policy::direct_required) {
      ASSERT_FALSE(outcome.ok());
      EXPECT_EQ(outcome.error->cause, row.cause) << to_string(*outcome.error);
      EXPECT_EQ(outcome.receipt.state, TransferState::refused);
      EXPECT_EQ(truth.total(), 0u);
      EXPECT_EQ(kinds.look_at(to, length), old);
    } else {
      ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
      EXPECT_EQ(outcome.receipt.bytes[direct ? Carriage::direct : Carriage::staged], length)
          << test::show(outcome.receipt.bytes) << to_string(outcome.receipt.causes[0]);
      EXPECT_EQ(test::has_cause(outcome.receipt, row.cause), !direct);
      EXPECT_EQ(kinds.look_at(to, length), bytes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, KindPairs,
    ::testing::Values(
        KindsCase{AllocationKind::device, AllocationKind::device, Cause::none},
        KindsCase{AllocationKind::device, AllocationKind::vmm, Cause::none},
        KindsCase{AllocationKind::vmm, AllocationKind::device, Cause::none},
        KindsCase{AllocationKind::vmm, AllocationKind::vmm, Cause::none},
        KindsCase{AllocationKind::device, AllocationKind::pool, Cause::none},
        KindsCase{AllocationKind::pool, AllocationKind::device, Cause::none},
        KindsCase{AllocationKind::pool, AllocationKind::vmm, Cause::none},
        KindsCase{AllocationKind::ipc_import, AllocationKind::device, Cause::none},
        KindsCase{AllocationKind::device, AllocationKind::ipc_import, Cause::none},
        KindsCase{AllocationKind::vmm, AllocationKind::ipc_import, Cause::none},
        KindsCase{AllocationKind::ipc_import, AllocationKind::ipc_import,
                  Cause::memory_kind_ipc_import},
        KindsCase{AllocationKind::managed, AllocationKind::device, Cause::memory_kind_managed},
        KindsCase{AllocationKind::device, AllocationKind::managed, Cause::memory_kind_managed}),
    [](const auto& tested) {
      return std::string(to_string(tested.param.source)) + "_to_" +
             std::string(to_string(tested.param.target));
    });

/// As allocators with expandable segments have it: much is reserved, a part is mapped, in pieces.
TEST(PartlyMappedReservations, AreCopiedDirectlyAsFarAsTheyAreMapped) {
  SoftSession soft(machine_with("workstation"));
  GpuKinds kinds(soft.host());
  constexpr std::uint64_t slab = GpuKinds::slab;
  const DevicePointer base = kinds.mapped(0, 2 * slab);  // of 8
  kinds.add_mapping(0, base.plus(2 * slab), slab);
  const std::uint64_t mapped = 3 * slab;
  EXPECT_EQ(soft->adopt(base, mapped + 1).error().cause, Cause::memory_kind_vmm);
  Result<Region> source = soft->adopt(base.plus(4096), mapped - 4096);
  ASSERT_TRUE(source.ok()) << to_string(source.error());
  Result<Region> target = soft->allocate(1, mapped - 4096);
  ASSERT_TRUE(target.ok());
  const auto bytes = random_bytes(mapped, 3);
  kinds.plant(base, {bytes.begin(), bytes.begin() + 2 * slab});
  kinds.plant(base.plus(2 * slab), {bytes.begin() + 2 * slab, bytes.end()});
  soft.begin_account();
  const Outcome outcome =
      soft->transfer(source->place(), target->place(), {.policy = Policy::direct_required});
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_TRUE(test::equals_ledger(outcome.receipt, soft.arrived(target->place())));
  EXPECT_EQ(soft.look_at(target->place()),
            std::vector<std::byte>(bytes.begin() + 4096, bytes.end()));
  EXPECT_EQ(kinds.mapping_access(base, 1), 3u);
  EXPECT_EQ(kinds.mapping_access(base.plus(2 * slab), 1), 3u);
}

TEST(PartlyMappedReservations, ThatTheirOwnGpuDoesNotReachAreNotAdopted) {
  SoftSession soft(machine_with("workstation"));
  GpuKinds kinds(soft.host());
  const DevicePointer base = kinds.mapped(0, GpuKinds::slab);
  kinds.set_mapping_access(base, GpuKinds::slab, 0, cuda::memory_access_none);
  const Result<Region> region = soft->adopt(base, 4096);
  ASSERT_FALSE(region.ok());
  EXPECT_EQ(region.error().cause, Cause::memory_kind_vmm);
}

TEST(GrantedAccess, IsOnlyEverAdded) {
  SoftSession soft(machine_with("dgx"));
  GpuKinds kinds(soft.host());
  const DevicePointer base = kinds.mapped(0, GpuKinds::slab);
  kinds.set_mapping_access(base, GpuKinds::slab, 5, cuda::memory_access_read_write);
  kinds.set_mapping_access(base, GpuKinds::slab, 6, cuda::memory_access_read);
  Result<Region> source = soft->adopt(base, 4096);
  Result<Region> target = soft->allocate(1, 4096);
  ASSERT_TRUE(source.ok() && target.ok());
  ASSERT_TRUE(soft->transfer(source->place(), target->place()).ok());
  EXPECT_EQ(kinds.mapping_access(base, 0), 3u);
  EXPECT_EQ(kinds.mapping_access(base, 1), 3u);
  EXPECT_EQ(kinds.mapping_access(base, 2), 0u);
  EXPECT_EQ(kinds.mapping_access(base, 5), 3u);
  EXPECT_EQ(kinds.mapping_access(base, 6), 1u);
}

struct StoredCase {
  const char* name;
  AllocationKind kind;
  bool rdma_capable;
  Carriage carriage;
  Cause cause;
};

void PrintTo(const StoredCase& tested, std::ostream* stream) {
  *stream << tested.name;
}

class KindsFromFiles : public ::testing::TestWithParam<StoredCase> {};

TEST_P(KindsFromFiles, AreReadDirectlyWhereTheDriverPinsThem) {
  const StoredCase& row = GetParam();
  constexpr std::uint64_t bytes_count = 1U << 20;
  const test::TemporaryDirectory directory;
  const auto bytes = random_bytes(bytes_count, 5);
  test::write_file(directory.file("data"), bytes);
  SoftSession soft(machine_with("workstation"));
  GpuKinds kinds(soft.host());
  kinds.rdma_capable = row.rdma_capable;
  const DevicePointer memory = kinds.allocate(row.kind, 0, bytes_count);
  Result<Region> region = soft->adopt(memory, bytes_count);
  Result<File> file = soft->open_file(directory.file("data"));
  ASSERT_TRUE(region.ok() && file.ok());
  soft.begin_account();
  const Outcome outcome = soft->transfer(file->place(), region->place());
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_TRUE(test::equals_ledger(outcome.receipt, kinds.arrived(memory, bytes_count)));
  EXPECT_EQ(outcome.receipt.bytes[row.carriage], bytes_count) << test::show(outcome.receipt.bytes);
  if (row.cause != Cause::none) {
    EXPECT_TRUE(test::has_cause(outcome.receipt, row.cause))
        << to_string(outcome.receipt.causes[0]);
  }
  EXPECT_EQ(kinds.look_at(memory, bytes_count), bytes);
}

INSTANTIATE_TEST_SUITE_P(
    Each, KindsFromFiles,
    ::testing::Values(StoredCase{"MappingMadeForIt", AllocationKind::vmm, true, Carriage::direct,
                                 Cause::none},
                      StoredCase{"MappingNotMadeForIt", AllocationKind::vmm, false,
                                 Carriage::device_bounced, Cause::storage_not_attached},
                      StoredCase{"Import", AllocationKind::ipc_import, true, Carriage::staged,
                                 Cause::memory_kind_ipc_import},
                      StoredCase{"Managed", AllocationKind::managed, true, Carriage::staged,
                                 Cause::memory_kind_managed}),
    [](const auto& tested) { return std::string(tested.param.name); });

// --- kernels ---------------------------------------------------------------------------------

struct MappedCase {
  AllocationKind kind;
  const char* machine;
  const char* link;
};

void PrintTo(const MappedCase& tested, std::ostream* stream) {
  *stream << to_string(tested.kind) << " on " << tested.machine;
}

class MappedForKernels : public ::testing::TestWithParam<MappedCase> {};

TEST_P(MappedForKernels, IsLoadedStoredAndUpdatedThereAndFaultsWithoutAccess) {
  const AllocationKind kind = GetParam().kind;
  SoftSession soft(machine_with(GetParam().machine));
  GpuKinds kinds(soft.host());
  const DevicePointer memory = kinds.allocate(kind, 1, 4096);
  Result<Region> region = soft->adopt(memory, 4096);
  ASSERT_TRUE(region.ok()) << to_string(region.error());
  const auto bytes = random_bytes(4096, 4);
  kinds.plant(memory, bytes);
  Result<DevicePointer> mapped = soft->map_peer(*region, 0);
  ASSERT_TRUE(mapped.ok()) << to_string(mapped.error());
  soft.begin_account();
  std::vector<std::byte> loaded(1024);
  ASSERT_EQ(kinds.run(0, fabric::kernel_once([&](fabric::Lane& lane) {
                        lane.load_bytes(*mapped, loaded);
                        lane.store_bytes(mapped->plus(2048), loaded);
                        lane.store<std::uint64_t>(mapped->plus(3072), 40);
                        lane.atomic_add<std::uint64_t>(mapped->plus(3072), 2);
                      })),
            cuda::success);
  EXPECT_EQ(loaded, std::vector<std::byte>(bytes.begin(), bytes.begin() + 1024));
  // By the owner.
  Result<Region> beside = soft->allocate_host(4096);
  ASSERT_TRUE(beside.ok());
  ASSERT_TRUE(soft->transfer(region->place(), beside->place()).ok());
  const std::byte* seen = beside->host_address();
  EXPECT_TRUE(std::equal(loaded.begin(), loaded.end(), seen + 2048));
  std::uint64_t sum = 0;
  std::copy_n(seen + 3072, sizeof sum, reinterpret_cast<std::byte*>(&sum));
  EXPECT_EQ(sum, 42u);
  // By the ledger.
  std::uint64_t by_kernel = 0;
  for (const fabric::Request& request : soft.host().ledger().requests()) {
    if (request.initiator != fabric::Initiator{fabric::Initiator::Kind::kernel, 0}) continue;
    by_kernel += request.length_bytes;
    EXPECT_EQ(to_string(request.link), GetParam().link);
  }
  EXPECT_EQ(by_kernel, 1024u + 1024u + 8u + 8u);
  EXPECT_EQ(kinds.arrived(memory.plus(2048), 1032)[Carriage::direct], 1032u);

  kinds.disable(kind, memory, 4096, 1, 0);
  EXPECT_EQ(kinds.run(0, fabric::kernel_once(
                             [&](fabric::Lane& lane) { lane.store<std::uint8_t>(*mapped, 1); })),
            cuda::error_illegal_address);
  EXPECT_EQ(kinds.look_at(memory, 1)[0], bytes[0]);
}

INSTANTIATE_TEST_SUITE_P(
    Each, MappedForKernels,
    ::testing::Values(MappedCase{AllocationKind::device, "workstation", "pcie_switch"},
                      MappedCase{AllocationKind::device, "dgx", "nvlink"},
                      MappedCase{AllocationKind::vmm, "workstation", "pcie_switch"},
                      MappedCase{AllocationKind::vmm, "dgx", "nvlink"},
                      MappedCase{AllocationKind::pool, "workstation", "pcie_switch"},
                      MappedCase{AllocationKind::pool, "dgx", "nvlink"}),
    [](const auto& tested) {
      return std::string(to_string(tested.param.kind)) + "_on_" + tested.param.machine;
    });

TEST(KernelMappings, IsRefusedForImportsAndManagedMemoryWithTheirCause) {
  SoftSession soft(machine_with("workstation"));
  GpuKinds kinds(soft.host());
  for (const auto& [kind, cause] :
       {std::pair{AllocationKind::ipc_import, Cause::memory_kind_ipc_import},
        std::pair{AllocationKind::managed, Cause::memory_kind_managed}}) {
    Result<Region> region = soft->adopt(kinds.allocate(kind, 1, 4096), 4096);
    ASSERT_TRUE(region.ok());
    // Managed memory is of no GPU in particular; the driver calls it the first one's.
    const std::uint32_t gpu = std::get<GpuMemory>(region->place()).gpu == 0 ? 1 : 0;
    const Result<DevicePointer> mapped = soft->map_peer(*region, gpu);
    ASSERT_FALSE(mapped.ok()) << to_string(kind);
    EXPECT_EQ(mapped.error().cause, cause);
  }
}

/// A pointer that map_peer would not give out: what its kernel would have met.
TEST(KernelMappings, ImportsFaultUnlessTheGpuItselfOpenedThem) {
  SoftSession soft(machine_with("workstation"));
  GpuKinds kinds(soft.host());
  const auto exported = soft.host().export_from_other_process(1, 4096);
  ASSERT_TRUE(exported.ok());
  cuda::CUdeviceptr opened = 0;
  {
    const system::ContextGuard guard(kinds.api(), kinds.context(0));
    ASSERT_EQ(kinds.api().ipc_open_mem_handle(&opened, exported->handle, 1), cuda::success);
  }
  Result<Region> region = soft->adopt(DevicePointer{opened}, 4096);
  ASSERT_TRUE(region.ok());
  EXPECT_EQ(region->kind(), AllocationKind::ipc_import);
  Result<DevicePointer> mapped = soft->map_peer(*region, 0);
  ASSERT_TRUE(mapped.ok()) << to_string(mapped.error());
  const auto storing = [&](DevicePointer at) {
    return fabric::kernel_once([at](fabric::Lane& lane) { lane.store<std::uint8_t>(at, 9); });
  };
  EXPECT_EQ(kinds.run(0, storing(*mapped)), cuda::success);
  EXPECT_EQ(kinds.look_at(exported->memory, 1)[0], std::byte{9});
  EXPECT_EQ(kinds.run(1, storing(*mapped)), cuda::error_illegal_address);
}

TEST(AfterAKernelFaulted, TransfersEndWithTheDriversError) {
  SoftSession soft(machine_with("workstation"));
  GpuKinds kinds(soft.host());
  Result<Region> source = soft->allocate(0, 1u << 20);
  Result<Region> target = soft->allocate(1, 1u << 20);
  ASSERT_TRUE(source.ok() && target.ok());
  ASSERT_TRUE(soft->transfer(source->place(), target->place()).ok());
  EXPECT_EQ(kinds.run(0, fabric::kernel_once([](fabric::Lane& lane) {
                        lane.store<std::uint8_t>(DevicePointer{64}, 1);
                      })),
            cuda::error_illegal_address);
  for (const Policy policy : {Policy::direct_required, Policy::staged_only}) {
    const Outcome outcome = soft->transfer(source->place(), target->place(), {.policy = policy});
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error->origin, ErrorOrigin::cuda) << to_string(*outcome.error);
    EXPECT_EQ(outcome.error->code, cuda::error_illegal_address);
    EXPECT_EQ(outcome.receipt.bytes.total(), 0u);
  }
}

}  // namespace
}  // namespace nobounce
