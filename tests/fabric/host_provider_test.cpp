// The host provider on a software machine: pinned memory directly, pageable memory never.
#include "provider/host/host_provider.hpp"

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

fabric::SoftOptions seeded(std::uint64_t seed) {
  fabric::SoftOptions options;
  options.deterministic = true;
  options.seed = seed;
  return options;
}

TEST(HostProvider, MovesPinnedMemoryDirectlyBothWays) {
  for (const std::uint64_t length : {0ull, 1ull, 4097ull, (1ull << 20) + 3}) {
    ProviderBench bench("workstation", seeded(length + 1));
    const auto provider = make_host_provider(bench.host(), bench.contexts());
    const HostMemory source = bench.pinned(length);
    const HostMemory back = bench.pinned(length);
    const GpuMemory gpu = bench.gpu(0, length);
    const std::vector<std::byte> payload = random_bytes(length, 5);
    bench.put(source, payload);
    bench.begin_account();
    const core::Completion in = bench.run(*provider, source, gpu);
    EXPECT_FALSE(in.error.has_value()) << show_completion(in);
    EXPECT_EQ(in.bytes[Carriage::direct], length);
    EXPECT_EQ(in.pinned_bytes, 0u);
    EXPECT_EQ(bench.arrived(gpu, source), in.bytes);
    EXPECT_EQ(bench.get(gpu), payload);
    const core::Completion out = bench.run(*provider, gpu, back);
    EXPECT_EQ(out.bytes[Carriage::direct], length);
    EXPECT_EQ(bench.get(back), payload);
    EXPECT_TRUE(provider->close(0));
  }
}

TEST(HostProvider, CopiesInsideOneGpuWithoutALink) {
  ProviderBench bench("workstation", seeded(2));
  const auto provider = make_host_provider(bench.host(), bench.contexts());
  const GpuMemory source = bench.gpu(1, 100'000);
  const GpuMemory target = bench.gpu(1, 100'000);
  const std::vector<std::byte> payload = random_bytes(100'000, 6);
  bench.put(source, payload);
  bench.begin_account();
  const core::Completion done = bench.run(*provider, source, target);
  EXPECT_EQ(done.bytes[Carriage::direct], 100'000u);
  EXPECT_EQ(done.link, Link::none);
  EXPECT_EQ(bench.get(target), payload);
  EXPECT_EQ(bench.soft().ledger().dram_bytes(), 0u);
}

TEST(HostProvider, RefusesPageableMemoryInBothDirections) {
  ProviderBench bench("workstation", seeded(3));
  const auto provider = make_host_provider(bench.host(), bench.contexts());
  const HostMemory plain = bench.plain(8192);
  const GpuMemory gpu = bench.gpu(0, 8192);
  const Place places[] = {plain, gpu};
  for (int way = 0; way < 2; ++way) {
    const Place& source = places[way];
    const Place& target = places[1 - way];
    const Assessment assessment = provider->assess(bench.operation(source, target).segment);
    EXPECT_FALSE(assessment.usable);
    EXPECT_EQ(first_unmet(assessment.findings), Cause::memory_kind_pageable);
    bench.begin_account();
    const core::Completion done = bench.run(*provider, source, target);
    ASSERT_TRUE(done.error.has_value());
    EXPECT_EQ(done.error->cause, Cause::memory_kind_pageable);
    EXPECT_EQ(done.bytes.total(), 0u);
    EXPECT_TRUE(bench.soft().ledger().requests().empty()) << "no byte moved";
  }
}

TEST(HostProvider, RefusesARangeThatIsPinnedOnlyAtItsStart) {
  ProviderBench bench("workstation", seeded(4));
  const auto provider = make_host_provider(bench.host(), bench.contexts());
  HostMemory beyond = bench.pinned(4096);
  beyond.length_bytes = 64 << 10;
  const GpuMemory gpu = bench.gpu(0, 64 << 10);
  EXPECT_EQ(first_unmet(provider->assess(bench.operation(gpu, beyond).segment).findings),
            Cause::memory_kind_pageable);
}

TEST(HostProvider, RefusesManagedMemory) {
  ProviderBench bench("workstation", seeded(5));
  const auto provider = make_host_provider(bench.host(), bench.contexts());
  system::Cuda& cuda = bench.contexts().table();
  const system::ContextGuard guard(cuda, bench.contexts().context(0).value());
  system::cuda::CUdeviceptr pointer = 0;
  ASSERT_EQ(cuda.mem_alloc_managed(&pointer, 4096, system::cuda::managed_attach_global),
            system::cuda::success);
  const GpuMemory managed{0, DevicePointer{pointer}, 4096};
  const Assessment assessment =
      provider->assess(bench.operation(bench.pinned(4096), managed).segment);
  EXPECT_FALSE(assessment.usable);
  EXPECT_EQ(first_unmet(assessment.findings), Cause::memory_kind_managed);
  EXPECT_EQ(cuda.mem_free(pointer), system::cuda::success);
}

/// Fails where it is asked for managed memory.
class SilentCuda : public support::AroundCuda {
 public:
  using AroundCuda::AroundCuda;
  CUresult pointer_get_attribute(void* data, int attribute, CUdeviceptr pointer) override {
    if (attribute == system::cuda::pointer_is_managed) return system::cuda::error_unknown;
    return AroundCuda::pointer_get_attribute(data, attribute, pointer);
  }
};

TEST(HostProvider, TakesNothingForPinnedWhereTheDriverFailsToAnswer) {
  ProviderBench bench("workstation", seeded(5));
  bench.use_cuda<SilentCuda>();
  const auto provider = make_host_provider(bench.host(), bench.contexts());
  for (const bool inside : {false, true}) {
    const Place source = inside ? Place{bench.gpu(0, 4096)} : Place{bench.pinned(4096)};
    const GpuMemory target = bench.gpu(0, 4096);
    EXPECT_FALSE(provider->assess(bench.operation(source, target).segment).usable);
    const core::Completion ended = bench.run(*provider, source, target);
    ASSERT_TRUE(ended.error.has_value()) << "it may be managed memory, which migrates";
    EXPECT_EQ(ended.error->cause, Cause::memory_kind_unknown);
    EXPECT_EQ(ended.error->origin, ErrorOrigin::cuda);
    EXPECT_EQ(ended.bytes.total(), 0U);
  }
}

TEST(HostProvider, OffersNothingBetweenTwoGpusOrForFiles) {
  ProviderBench bench("workstation", seeded(6));
  const auto provider = make_host_provider(bench.host(), bench.contexts());
  const GpuMemory a = bench.gpu(0, 100);
  const GpuMemory b = bench.gpu(1, 100);
  EXPECT_FALSE(provider->assess(bench.operation(a, b).segment).usable);
  const core::Completion done = bench.run(*provider, a, b);
  ASSERT_TRUE(done.error.has_value());
  EXPECT_EQ(done.error->origin, ErrorOrigin::input);
}

TEST(HostProvider, AFailedCopyCountsNothingAndTheNextOneWorks) {
  ProviderBench bench("workstation", seeded(7));
  const auto provider = make_host_provider(bench.host(), bench.contexts());
  const HostMemory source = bench.pinned(10'000);
  const GpuMemory gpu = bench.gpu(0, 10'000);
  bench.soft().faults().cuda_error = 1;
  const core::Completion failed = bench.run(*provider, source, gpu);
  ASSERT_TRUE(failed.error.has_value());
  EXPECT_EQ(failed.error->origin, ErrorOrigin::cuda);
  EXPECT_EQ(failed.bytes.total(), 0u);
  bench.soft().faults().cuda_error = 0;
  EXPECT_FALSE(bench.run(*provider, source, gpu).error.has_value());
}

TEST(HostProvider, ManyOperationsAtOnceCompleteEachOnce) {
  ProviderBench bench("workstation", seeded(8));
  const auto provider = make_host_provider(bench.host(), bench.contexts());
  std::vector<core::Operation> operations;
  for (core::OperationId id = 1; id <= 20; ++id) {
    const HostMemory host = bench.pinned(5000);
    const GpuMemory gpu = bench.gpu(static_cast<std::uint32_t>(id % 2), 5000);
    operations.push_back(id % 3 == 0 ? bench.operation(gpu, host, id)
                                     : bench.operation(host, gpu, id));
  }
  provider->submit(operations);
  std::map<core::OperationId, int> seen;
  for (const core::Completion& done : bench.wait(*provider, operations.size())) {
    EXPECT_FALSE(done.error.has_value()) << show_completion(done);
    ++seen[done.id];
  }
  EXPECT_EQ(seen.size(), 20u);
}

TEST(HostProvider, ADeadlineThatPassedMovesNothing) {
  ProviderBench bench("workstation", seeded(9));
  const auto provider = make_host_provider(bench.host(), bench.contexts());
  (void)bench.host().workers().wait([] { return false; }, 1'000);
  bench.begin_account();
  const core::Completion done = bench.run(*provider, bench.pinned(100), bench.gpu(0, 100), 1);
  ASSERT_TRUE(done.error.has_value());
  EXPECT_EQ(done.error->cause, Cause::session_deadline_passed);
  EXPECT_EQ(done.bytes.total(), 0u);
}

}  // namespace
}  // namespace nobounce::provider
