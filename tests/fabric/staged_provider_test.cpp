// The staged provider on a software machine: every pairing, slot boundaries, faults, bounds;
// receipts against the bus.
#include "provider/staged/staged_provider.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "support/provider_bench.hpp"

namespace nobounce::provider {
namespace {

using test::ProviderBench;
using test::random_bytes;
using test::show_completion;

constexpr std::uint64_t slot = 64u << 10;

StagedOptions small_slots() {
  return {.pinned_bytes_max = 8 * slot, .slot_bytes = slot, .readers = 2};
}

fabric::SoftOptions seeded(std::uint64_t seed) {
  fabric::SoftOptions options;
  options.deterministic = true;
  options.seed = seed;
  return options;
}

enum class Kind { file, pinned, plain, gpu, other_gpu };
constexpr Kind kinds[] = {Kind::file, Kind::pinned, Kind::plain, Kind::gpu, Kind::other_gpu};

Place place_of(ProviderBench& bench, Kind kind, std::uint64_t length, std::uint64_t offset,
               const std::string& name) {
  switch (kind) {
    case Kind::file: {
      const std::vector<std::byte> content = random_bytes(offset + length + 777, 99);
      return FileRange{bench.file(name, content), FileOffset{offset}, length};
    }
    case Kind::pinned:
      return bench.pinned(length);
    case Kind::plain:
      return bench.plain(length);
    case Kind::gpu:
      return bench.gpu(0, length);
    case Kind::other_gpu:
      return bench.gpu(1, length);
  }
  return {};
}

std::unique_ptr<core::Provider> staged(ProviderBench& bench,
                                       const StagedOptions& options = small_slots()) {
  return make_staged_provider(bench.host(), &bench.contexts(), bench.files(), options);
}

TEST(StagedProvider, EveryPairingArrivesWholeAtEverySizeAroundASlot) {
  const std::vector<std::uint64_t> lengths = {0,        1,    4095,     4096,          4097,
                                              slot - 1, slot, slot + 1, 3 * slot + 123};
  std::uint64_t seed = 1;
  for (const Kind from : kinds) {
    for (const Kind to : kinds) {
      ProviderBench bench("workstation", seeded(++seed));
      const auto provider = staged(bench);
      for (const std::uint64_t length : lengths) {
        for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{100}}) {
          const std::string tag = std::to_string(length) + "-" + std::to_string(offset);
          const Place source = place_of(bench, from, length, offset, "source-" + tag);
          const Place target = place_of(bench, to, length, offset == 0 ? 0 : 5000, "target-" + tag);
          const std::vector<std::byte> payload = random_bytes(length, seed + length);
          bench.put(source, payload);
          bench.begin_account();
          const core::Completion done = bench.run(*provider, source, target);
          const std::string what = std::to_string(static_cast<int>(from)) + " -> " +
                                   std::to_string(static_cast<int>(to)) + " " + tag;
          ASSERT_FALSE(done.error.has_value()) << what << ": " << show_completion(done);
          ASSERT_EQ(done.bytes[Carriage::staged], length) << what;
          ASSERT_EQ(done.bytes.total(), length) << what;
          ASSERT_EQ(done.known, Known::claimed);
          ASSERT_EQ(bench.get(target), payload) << what;
          ASSERT_EQ(bench.arrived(target).total(), length) << what;
          ASSERT_LE(done.pinned_bytes, 8 * slot);
        }
      }
      EXPECT_TRUE(provider->close(0));
      EXPECT_EQ(bench.memory().held_bytes(), 0u);
      EXPECT_LE(bench.memory().most_bytes(), 8 * slot);
    }
  }
}

TEST(StagedProvider, TheBusCallsItStagedIntoGpuMemory) {
  ProviderBench bench("workstation", seeded(3));
  const auto provider = staged(bench);
  const std::vector<std::byte> payload = random_bytes(5 * slot, 1);
  const FileRange source{bench.file("a", payload), FileOffset{0}, payload.size()};
  const GpuMemory target = bench.gpu(0, payload.size());
  bench.begin_account();
  const core::Completion done = bench.run(*provider, source, target);
  EXPECT_EQ(bench.arrived(target), done.bytes);
}

TEST(StagedProvider, SeveralSlotsAreInFlightAtOnce) {
  ProviderBench bench("workstation", seeded(5));
  const auto provider =
      staged(bench, {.pinned_bytes_max = 8 * slot, .slot_bytes = slot, .readers = 1});
  const GpuMemory source = bench.gpu(0, 16 * slot);
  const FileRange target{bench.file("b", random_bytes(16 * slot, 2)), FileOffset{0}, 16 * slot};
  const core::Completion done = bench.run(*provider, source, target);
  EXPECT_FALSE(done.error.has_value()) << show_completion(done);
  EXPECT_GE(done.pinned_bytes, 2 * slot) << "one reader alone fills a slot while another drains";
}

/// Counts the marks: one is put behind a copy only if another copy follows while it flies.
class OverlapCuda : public support::AroundCuda {
 public:
  using AroundCuda::AroundCuda;
  int marks = 0;
  CUresult event_record(CUevent event, CUstream stream) override {
    ++marks;
    return AroundCuda::event_record(event, stream);
  }
};

TEST(StagedProvider, CopiesToTheGpuOverlap) {
  ProviderBench bench("workstation", seeded(6));
  OverlapCuda& cuda = bench.use_cuda<OverlapCuda>();
  {
    const auto provider =
        staged(bench, {.pinned_bytes_max = 8 * slot, .slot_bytes = slot, .readers = 1});
    const GpuMemory source = bench.gpu(0, 16 * slot);
    const GpuMemory target = bench.gpu(1, 16 * slot);
    const core::Completion done = bench.run(*provider, source, target);
    EXPECT_FALSE(done.error.has_value()) << show_completion(done);
  }
  EXPECT_GE(cuda.marks, 1);
}

TEST(StagedProvider, PinnedMemoryNeverExceedsItsLimitOverManyOperations) {
  ProviderBench bench("workstation", seeded(7));
  const StagedOptions options{.pinned_bytes_max = 3 * slot, .slot_bytes = slot, .readers = 8};
  const auto provider = staged(bench, options);
  std::vector<core::Operation> operations;
  for (core::OperationId id = 1; id <= 6; ++id) {
    const GpuMemory source = bench.gpu(static_cast<std::uint32_t>(id % 2), 4 * slot);
    const FileRange target{bench.file("t" + std::to_string(id), random_bytes(4 * slot, id)),
                           FileOffset{0}, 4 * slot};
    operations.push_back(bench.operation(source, target, id));
  }
  provider->submit(operations);
  for (const core::Completion& done : bench.wait(*provider, operations.size())) {
    EXPECT_FALSE(done.error.has_value()) << show_completion(done);
  }
  EXPECT_GT(bench.memory().most_bytes(), 0u);
  EXPECT_LE(bench.memory().most_bytes(), options.pinned_bytes_max);
}

TEST(StagedProvider, ALimitBelowOneSlotIsAnErrorNotASmallerSlot) {
  ProviderBench bench("workstation", seeded(8));
  const auto provider = staged(bench, {.pinned_bytes_max = slot - 1, .slot_bytes = slot});
  const GpuMemory source = bench.gpu(0, 100);
  const HostMemory target = bench.plain(100);
  const Segment segment = bench.operation(source, target).segment;
  EXPECT_FALSE(provider->assess(segment).usable);
  const core::Completion done = bench.run(*provider, source, target);
  ASSERT_TRUE(done.error.has_value());
  EXPECT_EQ(done.error->cause, Cause::session_pinned_limit);
  EXPECT_EQ(done.bytes.total(), 0u);
  EXPECT_EQ(bench.memory().most_bytes(), 0u);
}

TEST(StagedProvider, PlainSlotsGiveWayToPinnedOnes) {
  ProviderBench bench("workstation", seeded(9));
  const auto provider = staged(bench, {.pinned_bytes_max = slot, .slot_bytes = slot, .readers = 1});
  const std::vector<std::byte> payload = random_bytes(4 * slot, 3);
  const HostMemory host = bench.plain(payload.size());
  const HostMemory copy = bench.plain(payload.size());
  const GpuMemory gpu = bench.gpu(0, payload.size());
  bench.put(host, payload);
  EXPECT_FALSE(bench.run(*provider, host, copy).error.has_value());
  EXPECT_EQ(bench.memory().pinned_allocations(), 0u);
  EXPECT_FALSE(bench.run(*provider, copy, gpu).error.has_value());
  EXPECT_GT(bench.memory().pinned_allocations(), 0u) << "the GPU's copies need pinned slots";
  EXPECT_EQ(bench.get(gpu), payload);
  EXPECT_LE(bench.memory().most_bytes(), slot);
}

TEST(StagedProvider, AFileThatEndsEarlyIsAnErrorAndItsBytesAreCounted) {
  ProviderBench bench("workstation", seeded(10));
  const auto provider = staged(bench);
  const std::vector<std::byte> content = random_bytes(2 * slot + 1000, 4);
  const FileRange source{bench.file("short", content), FileOffset{0}, 5 * slot};
  const GpuMemory target = bench.gpu(0, 5 * slot);
  bench.begin_account();
  const core::Completion done = bench.run(*provider, source, target);
  ASSERT_TRUE(done.error.has_value());
  EXPECT_EQ(done.error->cause, Cause::file_shorter_than_expected);
  EXPECT_EQ(done.cause, Cause::file_shorter_than_expected);
  EXPECT_EQ(done.bytes[Carriage::staged], content.size());
  EXPECT_EQ(bench.arrived(target).total(), content.size());
}

TEST(StagedProvider, NoCpuTouchOfBounceMemoryOutsideTheSeam) {
  fabric::SoftOptions options = seeded(11);
  options.trap_cpu_touches = true;
  ProviderBench bench("workstation", options);
  const auto provider = staged(bench);
  const FileRange source{bench.file("a", random_bytes(9 * slot, 5)), FileOffset{123}, 6 * slot};
  const GpuMemory target = bench.gpu(0, 6 * slot);
  EXPECT_FALSE(bench.run(*provider, source, target).error.has_value());
  EXPECT_FALSE(bench.run(*provider, target, bench.plain(6 * slot)).error.has_value());
  EXPECT_EQ(bench.soft().cpu_touches(), 0u);
}

TEST(StagedProvider, WithoutAGpuFilesAndHostMemoryStillMove) {
  Machine machine = software_machine_description("workstation").value();
  machine.gpus.clear();
  machine.nvlinks.clear();
  for (Switch& each : machine.switches) each.ports.clear();
  ProviderBench bench(machine, seeded(12));
  const auto provider = make_staged_provider(bench.host(), nullptr, bench.files(), small_slots());
  const std::vector<std::byte> payload = random_bytes(4 * slot + 5, 6);
  const FileRange file{bench.file("a", payload), FileOffset{0}, payload.size()};
  const FileRange other{bench.file("b", {}), FileOffset{0}, payload.size()};
  const HostMemory host = bench.plain(payload.size());
  EXPECT_EQ(bench.run(*provider, file, host).bytes[Carriage::staged], payload.size());
  EXPECT_EQ(bench.get(host), payload);
  EXPECT_EQ(bench.run(*provider, file, other).bytes[Carriage::staged], payload.size());
  EXPECT_EQ(bench.get(other), payload);
  const GpuMemory gpu{0, DevicePointer{4096}, payload.size()};
  const core::Completion refused = bench.run(*provider, file, gpu);
  ASSERT_TRUE(refused.error.has_value());
  EXPECT_EQ(refused.error->cause, Cause::machine_no_gpu);
}

TEST(StagedProvider, RefusesWhatItCannotMove) {
  ProviderBench bench("workstation", seeded(13));
  const auto provider = staged(bench);
  const GpuMemory gpu = bench.gpu(0, 100);
  const HostMemory small = bench.plain(50);
  core::Operation too_small = bench.operation(gpu, small, 5);
  provider->submit(std::span(&too_small, 1));
  auto done = bench.wait(*provider, 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].error->cause, Cause::memory_too_small);
  EXPECT_TRUE(bench.run(*provider, gpu, FileRange{77, FileOffset{0}, 100}).error.has_value());
  EXPECT_TRUE(bench.run(*provider, gpu, GpuMemory{99, DevicePointer{0}, 100}).error.has_value());
  EXPECT_TRUE(bench.run(*provider, gpu, RemoteMemory{0, 0, 0, 100}).error.has_value());
  const std::uint32_t id = bench.file("ro", random_bytes(100, 1));
  bench.files().files[id].access = system::FileAccess::read;
  const core::Completion read_only = bench.run(*provider, gpu, FileRange{id, FileOffset{0}, 100});
  ASSERT_TRUE(read_only.error.has_value());
  EXPECT_EQ(read_only.error->origin, ErrorOrigin::input);
}

TEST(StagedProvider, CancelStopsBetweenPiecesAndCountsWhatArrived) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    ProviderBench bench("workstation", seeded(seed));
    const auto provider = staged(bench);
    const FileRange source{bench.file("a", random_bytes(64 * slot, seed)), FileOffset{0},
                           64 * slot};
    const GpuMemory target = bench.gpu(0, 64 * slot);
    bench.begin_account();
    const core::Operation operation = bench.operation(source, target, 9);
    provider->submit(std::span(&operation, 1));
    const std::uint64_t later = bench.host().clock().now_ns() + 2'000 * seed;
    (void)bench.host().workers().wait([] { return false; }, later);
    provider->cancel(9);
    const auto done = bench.wait(*provider, 1);
    ASSERT_EQ(done.size(), 1u);
    ASSERT_TRUE(done[0].error.has_value());
    EXPECT_EQ(done[0].error->cause, Cause::session_cancelled);
    EXPECT_LT(done[0].bytes.total(), 64 * slot);
    EXPECT_EQ(done[0].bytes.total(), bench.arrived(target).total());
  }
}

TEST(StagedProvider, ADeadlineStopsBetweenPiecesAndCountsWhatArrived) {
  ProviderBench bench("workstation", seeded(14));
  const auto provider = staged(bench);
  const FileRange source{bench.file("a", random_bytes(64 * slot, 1)), FileOffset{0}, 64 * slot};
  const GpuMemory target = bench.gpu(0, 64 * slot);
  bench.begin_account();
  const core::Completion done =
      bench.run(*provider, source, target, bench.host().clock().now_ns() + 40'000);
  ASSERT_TRUE(done.error.has_value()) << show_completion(done);
  EXPECT_EQ(done.error->cause, Cause::session_deadline_passed);
  EXPECT_LT(done.bytes.total(), 64 * slot);
  EXPECT_EQ(done.bytes.total(), bench.arrived(target).total());
}

/// A driver whose copies never end, until told otherwise.
class HangingCuda : public support::AroundCuda {
 public:
  using AroundCuda::AroundCuda;
  bool hangs = false;
  CUresult event_query(CUevent event) override {
    return hangs ? system::cuda::error_not_ready : AroundCuda::event_query(event);
  }
  CUresult stream_query(CUstream stream) override {
    return hangs ? system::cuda::error_not_ready : AroundCuda::stream_query(stream);
  }
};

TEST(StagedProvider, AHangingCopyEndsItsOperationAfterTheDeadlineButItsSlotIsNotReused) {
  ProviderBench bench("workstation", seeded(15));
  HangingCuda& cuda = bench.use_cuda<HangingCuda>();
  const auto provider =
      staged(bench, {.pinned_bytes_max = 2 * slot, .slot_bytes = slot, .readers = 1});
  const HostMemory source = bench.plain(slot);
  const GpuMemory target = bench.gpu(0, slot);
  cuda.hangs = true;
  const core::Completion hung =
      bench.run(*provider, source, target, bench.host().clock().now_ns() + 1'000'000);
  ASSERT_TRUE(hung.error.has_value());
  EXPECT_EQ(hung.error->cause, Cause::session_deadline_passed);
  EXPECT_EQ(hung.bytes.total(), 0u);
  EXPECT_FALSE(provider->close(bench.host().clock().now_ns() + 1'000'000));
  EXPECT_GE(bench.memory().held_bytes(), slot) << "the GPU may still read it";
}

TEST(StagedProvider, ASlotComesBackWhenItsCopyEndsAfterAll) {
  ProviderBench bench("workstation", seeded(16));
  HangingCuda& cuda = bench.use_cuda<HangingCuda>();
  const auto provider = staged(bench, {.pinned_bytes_max = slot, .slot_bytes = slot, .readers = 1});
  const std::vector<std::byte> payload = random_bytes(slot, 8);
  const HostMemory source = bench.plain(slot);
  const GpuMemory target = bench.gpu(0, slot);
  bench.put(source, payload);
  cuda.hangs = true;
  EXPECT_TRUE(bench.run(*provider, source, target, bench.host().clock().now_ns() + 1'000'000)
                  .error.has_value());
  cuda.hangs = false;
  const core::Completion done = bench.run(*provider, source, bench.gpu(0, slot));
  EXPECT_FALSE(done.error.has_value()) << show_completion(done);
  EXPECT_TRUE(provider->close(0));
  EXPECT_EQ(bench.memory().held_bytes(), 0u);
}

TEST(StagedProvider, DriveAndGpuErrorsKeepTheirOriginAndTheNextOperationWorks) {
  ProviderBench bench("workstation", seeded(17));
  const auto provider = staged(bench);
  const std::vector<std::byte> payload = random_bytes(8 * slot, 9);
  const FileRange file{bench.file("a", payload), FileOffset{0}, payload.size()};
  const GpuMemory gpu = bench.gpu(0, payload.size());
  const auto error_of = [&](const Place& source, const Place& target) {
    const core::Completion done = bench.run(*provider, source, target);
    return done.error.value_or(Error{.attempted = "no error"});
  };
  bench.soft().faults().read_error = 1;
  const Error read = error_of(file, gpu);
  EXPECT_EQ(read.origin, ErrorOrigin::os) << to_string(read);
  EXPECT_EQ(read.code, EIO);
  bench.soft().faults().read_error = 0;
  bench.soft().faults().cuda_error = 1;
  EXPECT_EQ(error_of(file, gpu).origin, ErrorOrigin::cuda);
  EXPECT_EQ(error_of(gpu, file).origin, ErrorOrigin::cuda);
  bench.soft().faults().cuda_error = 0;
  bench.soft().faults().write_error = 1;
  EXPECT_EQ(error_of(gpu, file).origin, ErrorOrigin::os);
  bench.soft().faults().write_error = 0;
  EXPECT_FALSE(bench.run(*provider, file, gpu).error.has_value());
  EXPECT_EQ(bench.get(gpu), payload);
}

struct Pair {
  Kind from;
  Kind to;
};

TEST(StagedProvider, SeededFaultsGiveIntactBytesOrAnHonestError) {
  constexpr Pair pairs[] = {{Kind::file, Kind::gpu},      {Kind::gpu, Kind::file},
                            {Kind::gpu, Kind::other_gpu}, {Kind::file, Kind::file},
                            {Kind::plain, Kind::gpu},     {Kind::gpu, Kind::plain}};
  std::uint64_t failed = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    ProviderBench bench("workstation", seeded(seed));
    const auto provider = staged(bench);
    const Pair pair = pairs[seed % std::size(pairs)];
    const std::uint64_t length = 1 + (seed * 7919 * 131) % (12 * slot);
    const Place source = place_of(bench, pair.from, length, (seed * 997) % 9000, "s");
    const Place target = place_of(bench, pair.to, length, (seed * 449) % 9000, "t");
    const std::vector<std::byte> payload = random_bytes(length, seed);
    bench.put(source, payload);
    const double chance = seed % 3 == 0 ? 0 : 0.05;
    bench.soft().faults().read_error = chance;
    bench.soft().faults().write_error = chance;
    bench.soft().faults().cuda_error = chance;
    bench.soft().faults().short_read = 0.3;
    bench.begin_account();
    const core::Completion done = bench.run(*provider, source, target);
    const std::uint64_t truth = bench.arrived(target).total();
    ASSERT_EQ(done.bytes.total(), truth) << seed << ": " << show_completion(done);
    if (done.error.has_value()) {
      ++failed;
      EXPECT_NE(chance, 0) << seed << ": " << to_string(*done.error);
    } else {
      ASSERT_EQ(truth, length) << seed;
      ASSERT_EQ(bench.get(target), payload) << seed;
    }
    EXPECT_TRUE(provider->close(0)) << seed;
    EXPECT_EQ(bench.memory().held_bytes(), 0u) << seed;
  }
  EXPECT_GT(failed, 0u) << "the faults never struck";
}

TEST(StagedProvider, ASeedReproducesItsRun) {
  const auto account = [](std::uint64_t seed) {
    ProviderBench bench("workstation", seeded(seed));
    const auto provider = staged(bench);
    const FileRange source{bench.file("a", random_bytes(20 * slot, 1)), FileOffset{5}, 19 * slot};
    (void)bench.run(*provider, source, bench.gpu(0, 19 * slot));
    std::string text;
    for (const fabric::Request& request : bench.soft().ledger().requests()) {
      text += std::to_string(request.target.address % (1u << 20)) + ":" +
              std::to_string(request.length_bytes) + " ";
    }
    return text + std::to_string(bench.host().clock().now_ns());
  };
  EXPECT_EQ(account(4), account(4));
}

TEST(StagedProvider, ClosingCancelsWhatRuns) {
  ProviderBench bench("workstation", seeded(18));
  const auto provider = staged(bench);
  const FileRange source{bench.file("a", random_bytes(64 * slot, 1)), FileOffset{0}, 64 * slot};
  const core::Operation operation = bench.operation(source, bench.gpu(0, 64 * slot), 1);
  provider->submit(std::span(&operation, 1));
  EXPECT_TRUE(provider->close(0));
  std::array<core::Completion, 2> left;
  ASSERT_EQ(provider->poll(bench.host().clock().now_ns(), left), 1u);
  EXPECT_EQ(left[0].error->cause, Cause::session_cancelled);
  EXPECT_EQ(bench.memory().held_bytes(), 0u);
}

}  // namespace
}  // namespace nobounce::provider
