// The storage provider on a software machine: what it claims is what the bus did, lies of the
// library included.
#include "provider/storage/storage_provider.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "support/provider_bench.hpp"

namespace nobounce::provider {
namespace {

using test::ProviderBench;
using test::random_bytes;
using test::show_completion;

fabric::SoftOptions seeded(std::uint64_t seed, const fabric::SoftFaults& faults = {}) {
  fabric::SoftOptions options;
  options.deterministic = true;
  options.seed = seed;
  options.faults = faults;
  return options;
}

/// A provider with its configuration, as a session makes them.
struct Storage {
  ProviderBench bench;
  CufileConfiguration configuration;
  std::unique_ptr<core::Provider> provider;

  explicit Storage(const fabric::SoftOptions& options = seeded(1),
                   const std::string& machine = "workstation")
      : bench(machine, options),
        configuration(CufileConfiguration::install(bench.host(), true)),
        provider(
            make_storage_provider(bench.host(), bench.contexts(), bench.files(), configuration)) {}

  GpuMemory attached(std::uint64_t length) {
    const GpuMemory memory = bench.gpu(0, length);
    EXPECT_TRUE(provider->attach({memory, AllocationKind::device}).ok());
    return memory;
  }
  FileRange range(const std::string& name, const std::vector<std::byte>& content) {
    return {bench.file(name, content), FileOffset{0}, content.size()};
  }
};

TEST(StorageProvider, WholePagesTravelDirectlyAndAreCounted) {
  Storage storage;
  const std::vector<std::byte> payload = random_bytes(20 << 20, 1);
  const FileRange file = storage.range("a", payload);
  const GpuMemory gpu = storage.attached(payload.size());
  storage.bench.begin_account();
  const core::Completion in = storage.bench.run(*storage.provider, file, gpu);
  EXPECT_FALSE(in.error.has_value()) << show_completion(in);
  EXPECT_EQ(in.bytes[Carriage::direct], payload.size());
  EXPECT_EQ(in.known, Known::counted);
  EXPECT_EQ(in.cause, Cause::none);
  EXPECT_EQ(storage.bench.arrived(gpu), in.bytes);
  EXPECT_EQ(storage.bench.get(gpu), payload);

  const FileRange target = storage.range("b", random_bytes(payload.size(), 2));
  storage.bench.begin_account();
  const core::Completion out = storage.bench.run(*storage.provider, gpu, target);
  EXPECT_FALSE(out.error.has_value()) << show_completion(out);
  EXPECT_EQ(storage.bench.arrived(target), out.bytes);
  EXPECT_EQ(storage.bench.get(target), payload);
}

TEST(StorageProvider, ClaimsWhatTheBusDidAtEveryAlignment) {
  struct Row {
    std::uint64_t file_offset, gpu_offset, length;
  };
  const Row rows[] = {{0, 0, 0},         {0, 0, 1},          {0, 0, 4096},       {0, 0, 4097},
                      {100, 100, 20000}, {100, 0, 20000},    {4096, 512, 40960}, {1, 1, 4095},
                      {4095, 4095, 2},   {8192, 4096, 16384}};
  Storage storage;
  const std::vector<std::byte> content = random_bytes(1 << 20, 3);
  const FileRange whole = storage.range("a", content);
  const GpuMemory region = storage.attached(1 << 20);
  for (const Row& row : rows) {
    const FileRange file{whole.file, FileOffset{row.file_offset}, row.length};
    const GpuMemory gpu{0, region.address.plus(row.gpu_offset), row.length};
    storage.bench.begin_account();
    const core::Completion done = storage.bench.run(*storage.provider, file, gpu);
    const std::string what = std::to_string(row.file_offset) + "/" + std::to_string(row.length);
    ASSERT_FALSE(done.error.has_value()) << what << show_completion(done);
    EXPECT_EQ(storage.bench.arrived(gpu), done.bytes) << what << " " << show_completion(done);
    EXPECT_EQ(done.bytes.total(), row.length) << what;
    EXPECT_EQ(done.bytes[Carriage::staged], 0u) << what;
    if (done.bytes[Carriage::device_bounced] > 0) {
      EXPECT_EQ(done.cause, Cause::storage_unaligned) << what;
    }
    EXPECT_EQ(storage.bench.get(gpu), storage.bench.get(file)) << what;
  }
}

TEST(StorageProvider, MemoryThatCouldNotBePinnedIsBouncedInsideTheGpuAndSaysWhy) {
  fabric::SoftFaults faults;
  faults.pin_failure = 1;
  Storage storage(seeded(2, faults));
  const FileRange file = storage.range("a", random_bytes(1 << 20, 4));
  const GpuMemory gpu = storage.attached(1 << 20);
  const Assessment assessment =
      storage.provider->assess(storage.bench.operation(file, gpu).segment);
  EXPECT_TRUE(assessment.usable);
  EXPECT_EQ(first_unmet(assessment.findings), Cause::storage_not_attached);
  storage.bench.begin_account();
  const core::Completion done = storage.bench.run(*storage.provider, file, gpu);
  EXPECT_FALSE(done.error.has_value()) << show_completion(done);
  EXPECT_EQ(done.bytes[Carriage::device_bounced], 1u << 20);
  EXPECT_EQ(done.cause, Cause::storage_not_attached);
  EXPECT_EQ(storage.bench.arrived(gpu), done.bytes);
}

TEST(StorageProvider, MemoryThatNobodyAttachedIsBouncedAndCountedFromTheFirstRequestOn) {
  Storage storage(seeded(19));
  const FileRange file = storage.range("a", random_bytes(1 << 20, 4));
  const GpuMemory gpu = storage.bench.gpu(0, 1 << 20);
  storage.bench.begin_account();
  const core::Completion done = storage.bench.run(*storage.provider, file, gpu);
  EXPECT_EQ(done.bytes[Carriage::device_bounced], 1u << 20) << show_completion(done);
  EXPECT_EQ(done.known, Known::counted) << "the driver was open when its window began";
  EXPECT_EQ(done.cause, Cause::storage_not_attached);
  EXPECT_EQ(storage.bench.arrived(gpu), done.bytes);
}

TEST(StorageProvider, AWindowTooSmallIsNamed) {
  Machine machine = software_machine_description("workstation").value();
  machine.gpus[0].bar1_bytes = 8 << 20;
  ProviderBench bench(machine, seeded(3));
  const auto configuration = CufileConfiguration::install(bench.host(), true);
  const auto provider =
      make_storage_provider(bench.host(), bench.contexts(), bench.files(), configuration);
  const GpuMemory gpu = bench.gpu(0, 32 << 20);
  EXPECT_TRUE(provider->attach({gpu, AllocationKind::device}).ok());
  const FileRange file{bench.file("a", random_bytes(4 << 20, 1)), FileOffset{0}, 4 << 20};
  const core::Completion done = bench.run(*provider, file, GpuMemory{0, gpu.address, 4 << 20});
  EXPECT_FALSE(done.error.has_value()) << show_completion(done);
  EXPECT_EQ(done.bytes[Carriage::device_bounced], 4u << 20);
  EXPECT_EQ(done.cause, Cause::machine_bar1_too_small);
}

TEST(StorageProvider, ALibraryThatStagesInSilenceIsCaught) {
  fabric::SoftFaults faults;
  faults.compat_in_silence = true;
  Storage storage(seeded(4, faults));
  const FileRange file = storage.range("a", random_bytes(20 << 20, 5));
  const GpuMemory gpu = storage.attached(file.length_bytes);
  storage.bench.begin_account();
  const core::Completion done = storage.bench.run(*storage.provider, file, gpu);
  EXPECT_EQ(done.bytes[Carriage::staged], file.length_bytes) << show_completion(done);
  EXPECT_EQ(done.cause, Cause::storage_compat_used);
  EXPECT_EQ(done.known, Known::counted);
  EXPECT_EQ(storage.bench.arrived(gpu), done.bytes);
}

TEST(StorageProvider, ALibraryThatBeginsToStageInMidTransferIsSplitByWindow) {
  Storage storage(seeded(5));
  const FileRange file = storage.range("a", random_bytes(48 << 20, 6));
  const GpuMemory gpu = storage.attached(file.length_bytes);
  storage.bench.begin_account();
  const core::Operation operation = storage.bench.operation(file, gpu, 1);
  storage.provider->submit(std::span(&operation, 1));
  const auto moved = [&] { return storage.bench.arrived(gpu).total() >= (20u << 20); };
  EXPECT_TRUE(storage.bench.host().workers().wait(moved, 0));
  storage.bench.soft().faults().compat_in_silence = true;
  const auto done = storage.bench.wait(*storage.provider, 1);
  ASSERT_EQ(done.size(), 1u);
  const CarriageBytes truth = storage.bench.arrived(gpu);
  EXPECT_EQ(done[0].bytes, truth) << "one request at a time, so each window has one answer";
  EXPECT_GT(truth[Carriage::staged], 0u);
  EXPECT_GT(truth[Carriage::direct], 0u);
}

TEST(StorageProvider, StuckStatisticsLeaveBytesUnattributed) {
  fabric::SoftFaults faults;
  faults.statistics_stuck = true;
  Storage storage(seeded(6, faults));
  const FileRange file = storage.range("a", random_bytes(1 << 20, 7));
  const GpuMemory gpu = storage.attached(file.length_bytes);
  const core::Completion done = storage.bench.run(*storage.provider, file, gpu);
  EXPECT_EQ(done.bytes[Carriage::unattributed], file.length_bytes) << show_completion(done);
  EXPECT_EQ(done.cause, Cause::evidence_cufile_statistics_stuck);
  EXPECT_EQ(storage.bench.get(gpu), storage.bench.get(file));
}

TEST(StorageProvider, WithoutStatisticsNothingIsClaimed) {
  fabric::SoftFaults faults;
  faults.statistics_missing = true;
  Storage storage(seeded(7, faults));
  const FileRange file = storage.range("a", random_bytes(1 << 20, 8));
  const GpuMemory gpu = storage.attached(file.length_bytes);
  const core::Completion done = storage.bench.run(*storage.provider, file, gpu);
  EXPECT_EQ(done.bytes[Carriage::unattributed], file.length_bytes) << show_completion(done);
  EXPECT_EQ(done.known, Known::claimed);
  EXPECT_EQ(done.cause, Cause::evidence_cufile_statistics_unavailable);
  EXPECT_EQ(storage.bench.get(gpu), storage.bench.get(file));
}

TEST(StorageProvider, AConfigurationOfSomebodyElseRulesThePathOut) {
  fabric::SoftFaults faults;
  faults.cufile_opened_before = true;
  Storage foreign(seeded(8, faults));
  EXPECT_EQ(foreign.configuration.ours().value, std::optional<bool>(false));
  const FileRange file = foreign.range("b", random_bytes(1 << 20, 9));
  const GpuMemory gpu = foreign.attached(file.length_bytes);
  const Assessment assessment =
      foreign.provider->assess(foreign.bench.operation(file, gpu).segment);
  EXPECT_FALSE(assessment.usable);
  EXPECT_EQ(first_unmet(assessment.findings), Cause::storage_cufile_config_not_ours);
}

TEST(StorageProvider, AnErrorOfTheLibraryKeepsItsCodeAndNothingIsStaged) {
  fabric::SoftFaults faults;
  faults.cufile_refusal = 1;
  Storage storage(seeded(9, faults));
  const FileRange file = storage.range("a", random_bytes(1 << 20, 10));
  const GpuMemory gpu = storage.attached(file.length_bytes);
  storage.bench.begin_account();
  const core::Completion done = storage.bench.run(*storage.provider, file, gpu);
  ASSERT_TRUE(done.error.has_value());
  EXPECT_EQ(done.error->origin, ErrorOrigin::cufile);
  EXPECT_EQ(done.error->code, system::cufile::error_internal);
  EXPECT_EQ(done.error->cause, Cause::storage_cufile_refused);
  EXPECT_EQ(done.bytes.total(), 0u);
  EXPECT_EQ(storage.bench.arrived(gpu).total(), 0u);
  EXPECT_EQ(storage.bench.soft().ledger().dram_bytes(), 0u);
}

TEST(StorageProvider, ARequestLostOnTheBusIsToldFromAMediumThatFails) {
  fabric::SoftFaults faults;
  faults.dma_fault = 1;
  Storage lost(seeded(10, faults));
  const FileRange file = lost.range("a", random_bytes(1 << 20, 11));
  const core::Completion on_bus =
      lost.bench.run(*lost.provider, file, lost.attached(file.length_bytes));
  ASSERT_TRUE(on_bus.error.has_value());
  EXPECT_EQ(on_bus.error->origin, ErrorOrigin::os);
  EXPECT_EQ(on_bus.error->code, EIO);
  EXPECT_EQ(on_bus.error->cause, Cause::storage_p2p_lost);
  EXPECT_EQ(on_bus.bytes.total(), 0u);

  Storage broken(seeded(11));
  const FileRange other = broken.range("b", random_bytes(1 << 20, 12));
  const GpuMemory gpu = broken.attached(other.length_bytes);
  broken.bench.soft().faults().read_error = 1;
  const core::Completion medium = broken.bench.run(*broken.provider, other, gpu);
  ASSERT_TRUE(medium.error.has_value());
  EXPECT_EQ(medium.error->code, EIO);
  EXPECT_EQ(medium.error->cause, Cause::none) << "the medium fails by itself";
}

TEST(StorageProvider, AModuleThatVanishesIsNamedAndRulesThePathOut) {
  Storage storage(seeded(12));
  const FileRange file = storage.range("a", random_bytes(48 << 20, 13));
  const GpuMemory gpu = storage.attached(file.length_bytes);
  storage.bench.soft().faults().module_unloaded_after_requests = 2;
  storage.bench.begin_account();
  const core::Completion done = storage.bench.run(*storage.provider, file, gpu);
  ASSERT_TRUE(done.error.has_value()) << show_completion(done);
  EXPECT_EQ(done.error->cause, Cause::storage_module_vanished);
  EXPECT_EQ(done.bytes, storage.bench.arrived(gpu)) << show_completion(done);
  EXPECT_GT(done.bytes.total(), 0u);
  const Assessment assessment =
      storage.provider->assess(storage.bench.operation(file, gpu).segment);
  EXPECT_FALSE(assessment.usable);
  EXPECT_EQ(first_unmet(assessment.findings), Cause::storage_module_vanished);
}

TEST(StorageProvider, AFileThatEndsEarlyIsAnError) {
  Storage storage(seeded(13));
  const std::vector<std::byte> content = random_bytes(10'000, 14);
  FileRange file = storage.range("a", content);
  file.length_bytes = 50'000;
  const GpuMemory gpu = storage.attached(file.length_bytes);
  storage.bench.begin_account();
  const core::Completion done = storage.bench.run(*storage.provider, file, gpu);
  ASSERT_TRUE(done.error.has_value());
  EXPECT_EQ(done.error->cause, Cause::file_shorter_than_expected);
  EXPECT_EQ(done.bytes.total(), content.size());
  EXPECT_EQ(storage.bench.arrived(gpu).total(), content.size());
}

TEST(StorageProvider, RefusesWhatNeedsAnotherMover) {
  Storage storage(seeded(14));
  const FileRange file = storage.range("a", random_bytes(8192, 15));
  const HostMemory host = storage.bench.plain(8192);
  EXPECT_FALSE(storage.provider->assess(storage.bench.operation(file, host).segment).usable);
  EXPECT_TRUE(storage.bench.run(*storage.provider, file, host).error.has_value());
  storage.bench.files().files[file.file].direct = {};
  const Assessment assessment =
      storage.provider->assess(storage.bench.operation(file, storage.bench.gpu(0, 8192)).segment);
  EXPECT_FALSE(assessment.usable);
  EXPECT_EQ(first_unmet(assessment.findings), Cause::storage_direct_io_refused);
}

/// Counts what is held of the library.
class HeldCufile : public support::AroundCufile {
 public:
  using AroundCufile::AroundCufile;
  int opened = 0, handles = 0, buffers = 0;
  CUfileError_t driver_open() override {
    const CUfileError_t answer = AroundCufile::driver_open();
    opened += answer.err == 0 ? 1 : 0;
    return answer;
  }
  CUfileError_t driver_close() override {
    --opened;
    return AroundCufile::driver_close();
  }
  CUfileError_t handle_register(CUfileHandle_t* handle, CUfileDescr_t* description) override {
    const CUfileError_t answer = AroundCufile::handle_register(handle, description);
    handles += answer.err == 0 ? 1 : 0;
    return answer;
  }
  void handle_deregister(CUfileHandle_t handle) override {
    --handles;
    AroundCufile::handle_deregister(handle);
  }
  CUfileError_t buf_register(const void* base, std::size_t length, int flags) override {
    const CUfileError_t answer = AroundCufile::buf_register(base, length, flags);
    buffers += answer.err == 0 ? 1 : 0;
    return answer;
  }
  CUfileError_t buf_deregister(const void* base) override {
    --buffers;
    return AroundCufile::buf_deregister(base);
  }
};

TEST(StorageProvider, RegistersOnceAndGivesEverythingBack) {
  ProviderBench bench("workstation", seeded(15));
  HeldCufile cufile(*bench.soft().cufile().value());
  bench.host().cufile_table = &cufile;
  const auto configuration = CufileConfiguration::install(bench.host(), true);
  const auto provider =
      make_storage_provider(bench.host(), bench.contexts(), bench.files(), configuration);
  const GpuMemory gpu = bench.gpu(0, 1 << 20);
  const GpuMemory other = bench.gpu(1, 1 << 20);
  (void)provider->attach({gpu, AllocationKind::device});
  (void)provider->attach({gpu, AllocationKind::device});
  (void)provider->attach({other, AllocationKind::device});
  EXPECT_EQ(cufile.buffers, 2);
  provider->detach({gpu, AllocationKind::device});
  EXPECT_EQ(cufile.buffers, 2);
  provider->detach({gpu, AllocationKind::device});
  EXPECT_EQ(cufile.buffers, 1);
  const FileRange file{bench.file("a", random_bytes(1 << 20, 1)), FileOffset{0}, 1 << 20};
  const FileRange second{bench.file("b", random_bytes(1 << 20, 1)), FileOffset{0}, 1 << 20};
  (void)bench.run(*provider, file, other);
  (void)bench.run(*provider, file, other);
  (void)bench.run(*provider, second, other);
  EXPECT_EQ(cufile.handles, 2);
  provider->forget_file(file.file);
  EXPECT_EQ(cufile.handles, 1);
  EXPECT_EQ(cufile.opened, 1);
  EXPECT_TRUE(provider->close(0));
  EXPECT_EQ(cufile.handles, 0);
  EXPECT_EQ(cufile.buffers, 0);
  EXPECT_EQ(cufile.opened, 0);
  for (const std::uint32_t each : {0u, 1u}) {
    EXPECT_EQ(bench.soft().bus().bar1_used_bytes(each), 0U) << "a window stays mapped";
  }
}

TEST(StorageProvider, AssessingAndMakingItTouchesNothing) {
  ProviderBench bench("workstation", seeded(16));
  HeldCufile cufile(*bench.soft().cufile().value());
  bench.host().cufile_table = &cufile;
  const auto configuration = CufileConfiguration::install(bench.host(), true);
  const auto provider =
      make_storage_provider(bench.host(), bench.contexts(), bench.files(), configuration);
  const FileRange file{bench.file("a", random_bytes(8192, 1)), FileOffset{0}, 8192};
  EXPECT_TRUE(provider->assess(bench.operation(file, bench.gpu(0, 8192)).segment).usable);
  EXPECT_EQ(cufile.opened + cufile.handles + cufile.buffers, 0);
}

TEST(StorageProvider, SeededFaultsNeverClaimMoreThanTheBusDid) {
  std::uint64_t failed = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    fabric::SoftFaults faults;
    faults.short_read = 0.2;
    if (seed % 2 == 0) {
      faults.cufile_refusal = 0.05;
      faults.dma_fault = 0.05;
      faults.read_error = 0.03;
      faults.write_error = 0.03;
      faults.pin_failure = 0.2;
    }
    faults.compat_in_silence = seed % 7 == 0;
    Storage storage(seeded(seed, faults));
    const std::uint64_t length = 1 + (seed * 104729 * 31) % (1u << 20);
    const std::uint64_t offset = seed % 3 == 0 ? 0 : (seed * 911) % 8192;
    FileRange file = storage.range("a", random_bytes(offset + length + 5000, seed));
    file.offset.value = offset;
    file.length_bytes = length;
    const GpuMemory region = storage.attached(length + 8192);
    const std::uint64_t shift = seed % 4 == 0 ? 512 : offset % 4096;
    const GpuMemory gpu{0, region.address.plus(shift), length};
    const bool writing = seed % 5 == 0;
    const Place source = writing ? Place{gpu} : Place{file};
    const Place target = writing ? Place{file} : Place{gpu};
    const std::vector<std::byte> payload = random_bytes(length, seed + 1);
    storage.bench.put(source, payload);
    storage.bench.begin_account();
    const core::Completion done = storage.bench.run(*storage.provider, source, target);
    const CarriageBytes truth = storage.bench.arrived(target);
    const std::string what = std::to_string(seed) + ": " + show_completion(done);
    ASSERT_LE(done.bytes[Carriage::direct], truth[Carriage::direct]) << what;
    ASSERT_LE(done.bytes[Carriage::direct] + done.bytes[Carriage::device_bounced],
              truth[Carriage::direct] + truth[Carriage::device_bounced])
        << what;
    ASSERT_LE(done.bytes.total(), truth.total()) << what;
    if (done.error.has_value()) {
      ++failed;
      continue;
    }
    ASSERT_EQ(done.bytes, truth) << what;
    ASSERT_EQ(storage.bench.get(target), payload) << what;
  }
  EXPECT_GT(failed, 0u) << "the faults never struck";
}

}  // namespace
}  // namespace nobounce::provider
