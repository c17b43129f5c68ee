// Providers with real threads: several submit, poll, cancel and close at once.
// Run under TSan too.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "provider/host/host_provider.hpp"
#include "provider/staged/staged_provider.hpp"
#include "provider/storage/storage_provider.hpp"
#include "support/provider_bench.hpp"

namespace nobounce::provider {
namespace {

using test::ProviderBench;
using test::random_bytes;
using test::show_completion;

constexpr std::uint64_t slot = 64u << 10;
constexpr int threads = 3;
constexpr int rounds = 6;

/// Waits for one's own operation; completions of others are put where they
/// look.
class Mailbox {
 public:
  core::Completion wait(ProviderBench& bench, core::Provider& provider, core::OperationId id) {
    core::Completion mine;
    const auto ready = [&] {
      const std::lock_guard lock(mutex_);
      std::array<core::Completion, 8> batch;
      const std::size_t count = provider.poll(bench.host().clock().now_ns(), batch);
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(arrived_.count(batch[i].id), 0u) << "completed twice";
        arrived_[batch[i].id] = batch[i];
      }
      const auto at = arrived_.find(id);
      if (at == arrived_.end()) return false;
      mine = at->second;
      return true;
    };
    const std::uint64_t patience_ns = bench.host().clock().now_ns() + 100'000'000'000;
    EXPECT_TRUE(bench.host().workers().wait(ready, patience_ns));
    return mine;
  }

 private:
  std::mutex mutex_;
  std::map<core::OperationId, core::Completion> arrived_;
};

struct Trip {
  Place source;
  Place target;
};

void run_trips(ProviderBench& bench, core::Provider& provider, const std::vector<Trip>& trips) {
  Mailbox mailbox;
  std::vector<std::thread> runners;
  for (int number = 0; number < threads; ++number) {
    runners.emplace_back([&, number] {
      for (int round = 0; round < rounds; ++round) {
        const auto index = static_cast<std::size_t>(number) % trips.size();
        const auto id = static_cast<core::OperationId>(1 + number * rounds + round);
        const core::Operation operation =
            bench.operation(trips[index].source, trips[index].target, id);
        provider.submit(std::span(&operation, 1));
        if (round % 3 == 2) provider.cancel(id);
        const core::Completion done = mailbox.wait(bench, provider, id);
        EXPECT_EQ(done.id, id);
        if (!done.error.has_value()) {
          EXPECT_EQ(done.bytes.total(), length_bytes(trips[index].source));
        } else {
          EXPECT_EQ(done.error->cause, Cause::session_cancelled) << show_completion(done);
        }
      }
    });
  }
  for (std::thread& runner : runners) runner.join();
  EXPECT_TRUE(provider.close(0));
}

TEST(ProviderThreads, StagedServesManyAtOnce) {
  ProviderBench bench("workstation");
  const auto provider =
      make_staged_provider(bench.host(), &bench.contexts(), bench.files(),
                           {.pinned_bytes_max = 8 * slot, .slot_bytes = slot, .readers = 4});
  const std::vector<std::byte> payload = random_bytes(20 * slot + 77, 1);
  const FileRange file{bench.file("a", payload), FileOffset{0}, payload.size()};
  const FileRange out{bench.file("b", {}), FileOffset{0}, payload.size()};
  const GpuMemory one = bench.gpu(0, payload.size());
  const GpuMemory two = bench.gpu(1, payload.size());
  const GpuMemory three = bench.gpu(0, payload.size());
  bench.put(two, payload);
  run_trips(bench, *provider, {{file, one}, {two, three}, {two, out}});
  EXPECT_EQ(bench.get(one), payload);
  EXPECT_EQ(bench.get(three), payload);
  EXPECT_EQ(bench.get(out), payload);
  EXPECT_LE(bench.memory().most_bytes(), 8 * slot);
  EXPECT_EQ(bench.memory().held_bytes(), 0u);
}

TEST(ProviderThreads, StagedIsCancelledFromOutsideAndClosedWithWorkInFlight) {
  for (int round = 0; round < 4; ++round) {
    ProviderBench bench("workstation");
    const auto provider =
        make_staged_provider(bench.host(), &bench.contexts(), bench.files(),
                             {.pinned_bytes_max = 4 * slot, .slot_bytes = slot, .readers = 2});
    const std::vector<std::byte> payload = random_bytes(12 * slot + 5, 3);
    const FileRange file{bench.file("a", payload), FileOffset{0}, payload.size()};
    const GpuMemory one = bench.gpu(0, payload.size());
    const GpuMemory two = bench.gpu(1, payload.size());
    constexpr core::OperationId operations = 8;
    std::atomic<bool> submitted{false};
    std::atomic<std::uint64_t> ended{0};
    {
      std::vector<std::jthread> running;
      running.emplace_back([&] {
        for (core::OperationId id = 1; id <= operations; ++id) {
          const core::Operation operation = bench.operation(file, id % 2 == 0 ? two : one, id);
          provider->submit(std::span(&operation, 1));
        }
        submitted = true;
      });
      running.emplace_back([&] {
        while (!submitted) provider->cancel(1 + ended % operations);
      });
      running.emplace_back([&] {
        std::array<core::Completion, 2> batch;
        while (!submitted) ended += provider->poll(bench.host().clock().now_ns(), batch);
      });
    }
    EXPECT_TRUE(provider->close(0));
    // Every operation ends once, also those that closing cancelled.
    std::array<core::Completion, operations> rest;
    ended += provider->poll(bench.host().clock().now_ns(), rest);
    EXPECT_EQ(ended, operations);
    EXPECT_EQ(bench.memory().held_bytes(), 0u);
  }
}

TEST(ProviderThreads, HostServesManyAtOnce) {
  ProviderBench bench("workstation");
  const auto provider = make_host_provider(bench.host(), bench.contexts());
  const std::vector<std::byte> payload = random_bytes(300'000, 2);
  const HostMemory source = bench.pinned(payload.size());
  const HostMemory back = bench.pinned(payload.size());
  const GpuMemory one = bench.gpu(0, payload.size());
  const GpuMemory two = bench.gpu(1, payload.size());
  const GpuMemory three = bench.gpu(1, payload.size());
  bench.put(source, payload);
  bench.put(two, payload);
  run_trips(bench, *provider, {{source, one}, {two, back}, {two, three}});
  EXPECT_EQ(bench.get(one), payload);
  EXPECT_EQ(bench.get(back), payload);
  EXPECT_EQ(bench.get(three), payload);
}

TEST(ProviderThreads, StorageServesManyAtOnce) {
  ProviderBench bench("workstation");
  const auto configuration = CufileConfiguration::install(bench.host(), true);
  const auto provider =
      make_storage_provider(bench.host(), bench.contexts(), bench.files(), configuration);
  const std::vector<std::byte> payload = random_bytes((20 << 20) + 4096, 3);
  const FileRange file{bench.file("a", payload), FileOffset{0}, payload.size()};
  const FileRange out{bench.file("b", {}), FileOffset{0}, payload.size()};
  const GpuMemory one = bench.gpu(0, payload.size());
  const GpuMemory two = bench.gpu(1, payload.size());
  const GpuMemory three = bench.gpu(1, payload.size());
  for (const GpuMemory& gpu : {one, two, three}) {
    (void)provider->attach({gpu, AllocationKind::device});
  }
  bench.put(two, payload);
  run_trips(bench, *provider, {{file, one}, {two, out}, {file, three}});
  EXPECT_EQ(bench.get(one), payload);
  EXPECT_EQ(bench.get(three), payload);
  EXPECT_EQ(bench.get(out), payload);
}

}  // namespace
}  // namespace nobounce::provider
