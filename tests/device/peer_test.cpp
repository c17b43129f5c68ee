// GPU to GPU on two real GPUs: every ordered pair, size and kind of memory; access enabled by
// others, twice, and disabled in between; kernels through the mapping; two processes.
#include <algorithm>
#include <thread>

#include "device/peer_rig.hpp"

namespace nobounce::device {
namespace {

constexpr std::size_t mib = 1u << 20;

class PeerTest : public DeviceTest {
 protected:
  void SetUp() override { need_gpus(2); }
  /// Moves and compares; says what was wrong.
  static std::string move(Session& session, const Place& source, const Place& target,
                          Policy policy = Policy::direct_preferred, Receipt* receipt = nullptr) {
    const Outcome outcome = session.transfer(source, target, within(peer_limit, policy));
    if (receipt != nullptr) *receipt = outcome.receipt;
    if (!outcome.ok()) return why(outcome);
    const auto wanted = session.checksum(source);
    const auto there = session.checksum(target);
    if (!wanted.ok() || !there.ok()) return "no checksum";
    if (*wanted != *there) return "other bytes";
    if (outcome.receipt.bytes.total() != length_bytes(source)) return "another count";
    return "";
  }
};

TEST_F(PeerTest, EveryPairMovesEverySizeExactly) {
  Live live;
  ASSERT_TRUE(live.session) << live.failure;
  for (const auto& [source_gpu, target_gpu] : ordered_pairs()) {
    for (const std::size_t bytes :
         {std::size_t{4}, std::size_t{4096}, std::size_t{65537}, mib, 64 * mib, 1024 * mib}) {
      SCOPED_TRACE(std::to_string(source_gpu) + " -> " + std::to_string(target_gpu) + ", " +
                   std::to_string(bytes));
      auto source = live.session->allocate(static_cast<std::uint32_t>(source_gpu), bytes);
      auto target = live.session->allocate(static_cast<std::uint32_t>(target_gpu), bytes);
      ASSERT_TRUE(source.ok() && target.ok());
      ASSERT_TRUE(live.session->fill_pattern(source->place(), bytes).ok());
      Receipt receipt;
      EXPECT_EQ(
          move(*live.session, source->place(), target->place(), Policy::direct_preferred, &receipt),
          "");
      if (possible(source_gpu, target_gpu)) {
        EXPECT_EQ(receipt.bytes[Carriage::staged], 0u);
      }
    }
  }
}

TEST_F(PeerTest, EveryPolicyDoesWhatItSays) {
  Live live;
  ASSERT_TRUE(live.session) << live.failure;
  for (const auto& [source_gpu, target_gpu] : ordered_pairs()) {
    SCOPED_TRACE(std::to_string(source_gpu) + " -> " + std::to_string(target_gpu));
    auto source = live.session->allocate(static_cast<std::uint32_t>(source_gpu), 64 * mib);
    auto target = live.session->allocate(static_cast<std::uint32_t>(target_gpu), 64 * mib);
    ASSERT_TRUE(source.ok() && target.ok());
    ASSERT_TRUE(live.session->fill_pattern(source->place(), 3).ok());
    Receipt receipt;
    EXPECT_EQ(move(*live.session, source->place(), target->place(), Policy::staged_only, &receipt),
              "");
    EXPECT_EQ(receipt.bytes[Carriage::staged], 64 * mib);
    const std::string strict =
        move(*live.session, source->place(), target->place(), Policy::direct_required, &receipt);
    if (possible(source_gpu, target_gpu)) {
      EXPECT_EQ(strict, "");
      EXPECT_EQ(receipt.bytes[Carriage::direct], 64 * mib);
    } else {
      EXPECT_EQ(receipt.bytes.total(), 0u) << strict;
    }
  }
}

TEST_F(PeerTest, EveryKindOfMemoryOnEitherEnd) {
  const TwoContexts contexts(0, 1);
  const std::size_t bytes = 16 * mib + 12;
  const auto content = test::random_bytes(bytes, 80);
  for (const Kind source_kind : {Kind::plain, Kind::mapped, Kind::pool}) {
    for (const Kind target_kind : {Kind::plain, Kind::mapped, Kind::pool}) {
      for (const bool granted : {false, true}) {
        SCOPED_TRACE(to_string(source_kind) + " -> " + to_string(target_kind) +
                     (granted ? ", granted" : ""));
        std::optional<GpuBuffer> source;
        std::optional<GpuBuffer> target;
        {
          const Current current(contexts.of(0));
          source.emplace(source_kind, bytes, 0, granted ? std::vector<int>{1} : std::vector<int>{});
          ASSERT_EQ(source->error, 0);
          put(source->pointer(), content);
        }
        const auto drop = [&](std::optional<GpuBuffer>& buffer, int index) {
          const Current current(contexts.of(index));
          buffer.reset();
        };
        {
          const Current current(contexts.of(1));
          target.emplace(target_kind, bytes, 1, granted ? std::vector<int>{0} : std::vector<int>{});
          ASSERT_EQ(target->error, 0);
        }
        {
          Live live;
          ASSERT_TRUE(live.session) << live.failure;
          const auto from = live.session->adopt(DevicePointer{source->pointer()}, bytes);
          const auto to = live.session->adopt(DevicePointer{target->pointer()}, bytes);
          ASSERT_TRUE(from.ok() && to.ok());
          EXPECT_EQ(move(*live.session, from->place(), to->place()), "");
        }
        {
          const Current current(contexts.of(1));
          EXPECT_TRUE(look(target->pointer(), bytes) == content);
        }
        drop(target, 1);
        drop(source, 0);
      }
    }
  }
}

TEST_F(PeerTest, BothDirectionsAtOnce) {
  Live live;
  ASSERT_TRUE(live.session) << live.failure;
  std::vector<Region> regions;
  for (const std::uint32_t gpu : {0u, 1u, 1u, 0u}) {
    auto region = live.session->allocate(gpu, 256 * mib);
    ASSERT_TRUE(region.ok());
    regions.push_back(std::move(*region));
  }
  ASSERT_TRUE(live.session->fill_pattern(regions[0].place(), 4).ok());
  ASSERT_TRUE(live.session->fill_pattern(regions[2].place(), 5).ok());
  std::string failures[2];
  std::thread other([&] {
    for (int i = 0; i < 4 && failures[0].empty(); ++i) {
      failures[0] = move(*live.session, regions[0].place(), regions[1].place());
    }
  });
  for (int i = 0; i < 4 && failures[1].empty(); ++i) {
    failures[1] = move(*live.session, regions[2].place(), regions[3].place());
  }
  other.join();
  EXPECT_EQ(failures[0], "");
  EXPECT_EQ(failures[1], "");
}

TEST_F(PeerTest, AccessThatOthersEnabledOrDisableIsNoError) {
  if (!possible(0, 1)) GTEST_SKIP() << "the driver says that GPU 0 cannot reach GPU 1";
  const TwoContexts contexts(0, 1);
  const auto set = [&](int from, int to, bool enabled) {
    const Current current(contexts.of(from));
    return enabled ? driver().enable_peer(contexts.of(to), 0)
                   : driver().disable_peer(contexts.of(to));
  };
  (void)set(0, 1, true);
  (void)set(1, 0, true);
  {
    Live live;
    ASSERT_TRUE(live.session) << live.failure;
    auto source = live.session->allocate(0, 64 * mib);
    auto target = live.session->allocate(1, 64 * mib);
    ASSERT_TRUE(source.ok() && target.ok());
    ASSERT_TRUE(live.session->fill_pattern(source->place(), 6).ok());
    EXPECT_EQ(move(*live.session, source->place(), target->place()), "") << "enabled before";
    (void)set(0, 1, false);
    (void)set(1, 0, false);
    Receipt receipt;
    EXPECT_EQ(
        move(*live.session, source->place(), target->place(), Policy::direct_preferred, &receipt),
        "")
        << "disabled in between";
    std::printf("disabled in between: direct %llu, staged %llu, unattributed %llu\n",
                static_cast<unsigned long long>(receipt.bytes[Carriage::direct]),
                static_cast<unsigned long long>(receipt.bytes[Carriage::staged]),
                static_cast<unsigned long long>(receipt.bytes[Carriage::unattributed]));
  }
  (void)set(0, 1, false);
  (void)set(1, 0, false);
}

TEST_F(PeerTest, TwoSessionsAndTwoThreadsEnableAtOnce) {
  std::string failures[2];
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      Live live;
      if (!live.session) {
        failures[i] = live.failure;
        return;
      }
      auto source = live.session->allocate(0, 32 * mib);
      auto target = live.session->allocate(1, 32 * mib);
      if (!source.ok() || !target.ok() || !live.session->fill_pattern(source->place(), 7).ok()) {
        failures[i] = "no memory";
        return;
      }
      failures[i] = move(*live.session, source->place(), target->place());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures[0], "");
  EXPECT_EQ(failures[1], "");
}

TEST_F(PeerTest, AfterAFailedTransferTheNextOneWorks) {
  Live live;
  ASSERT_TRUE(live.session) << live.failure;
  auto source = live.session->allocate(0, 1024 * mib);
  auto target = live.session->allocate(1, 1024 * mib);
  ASSERT_TRUE(source.ok() && target.ok());
  ASSERT_TRUE(live.session->fill_pattern(source->place(), 8).ok());
  TransferOptions options;
  options.deadline_ns = 1;
  const Outcome late = live.session->transfer(source->place(), target->place(), options);
  EXPECT_FALSE(late.ok());
  EXPECT_EQ(move(*live.session, source->place(), target->place()), "");
}

TEST_F(PeerTest, AContextResetUnderEnabledAccess) {
  const Ended ended = run_scenario("peer_context_reset", {}, std::chrono::seconds(90));
  EXPECT_EQ(ended.code, 0) << ended.said;
  std::printf("%s", ended.said.c_str());
}

TEST_F(PeerTest, AKernelStoresLoadsAndAddsThroughTheMapping) {
  if (!possible(0, 1)) GTEST_SKIP() << "the driver says that GPU 0 cannot reach GPU 1";
  constexpr unsigned words = 1u << 20;
  constexpr unsigned blocks = words / 256;
  Live live;
  ASSERT_TRUE(live.session) << live.failure;
  auto far = live.session->allocate(1, words * 4);
  auto near = live.session->allocate(0, words * 4);
  ASSERT_TRUE(far.ok() && near.ok());
  const auto mapped = live.session->map_peer(*far, 0);
  ASSERT_TRUE(mapped.ok()) << nobounce::to_string(mapped.error());
  const TwoContexts contexts(0, 1);
  const auto near_pointer = std::get<GpuMemory>(near->place()).address.value;
  const auto far_pointer = std::get<GpuMemory>(far->place()).address.value;
  Pointer through = mapped->value;
  Pointer own = near_pointer;
  unsigned count = words;
  unsigned first = 12345;
  {
    const Current current(contexts.of(0));
    const test::Kernels kernels(driver());
    ASSERT_EQ(kernels.code(), 0);
    ASSERT_EQ(kernels.launch("store_words", blocks, {&through, &count, &first}, nullptr), 0);
    ASSERT_EQ(kernels.launch("copy_words", blocks, {&own, &through, &count}, nullptr), 0);
    ASSERT_EQ(kernels.launch("add_one", 64, {&through}, nullptr), 0);
    ASSERT_EQ(driver().synchronize(nullptr), 0);
  }
  std::vector<std::byte> there;
  {
    const Current current(contexts.of(1));  // the owner looks on its own GPU
    there = look(far_pointer, words * 4);
  }
  std::vector<unsigned> values(words);
  std::copy(there.begin(), there.end(), std::as_writable_bytes(std::span(values)).begin());
  EXPECT_EQ(values[0], first + 64 * 256) << "atomic additions of 64 blocks of 256 threads";
  bool all = true;
  for (unsigned i = 1; i < words; ++i) all = all && values[i] == first + i;
  EXPECT_TRUE(all) << "stores through the mapping";
  std::vector<std::byte> here;
  {
    const Current current(contexts.of(0));
    here = look(near_pointer, words * 4);
  }
  std::copy(here.begin(), here.end(), std::as_writable_bytes(std::span(values)).begin());
  all = true;
  for (unsigned i = 0; i < words; ++i) all = all && values[i] == first + i;
  EXPECT_TRUE(all) << "loads through the mapping";
}

TEST_F(PeerTest, AnExportedHandleIsMovedByAnotherProcess) {
  const test::TemporaryDirectory directory;
  const std::size_t bytes = 64 * mib;
  const TwoContexts contexts(0, 1);
  for (const int consumer : {0, 1}) {
    SCOPED_TRACE("consumer on GPU " + std::to_string(consumer));
    std::string wanted;
    const std::string path = directory.file("handle" + std::to_string(consumer));
    const Current current(contexts.of(0));
    const GpuBuffer memory(Kind::plain, bytes);
    ASSERT_EQ(memory.error, 0);
    put(memory.pointer(), test::random_bytes(bytes, 81));
    {
      Live live;
      ASSERT_TRUE(live.session) << live.failure;
      const auto region = live.session->adopt(DevicePointer{memory.pointer()}, bytes);
      ASSERT_TRUE(region.ok());
      const auto sum = live.session->checksum(region->place());
      ASSERT_TRUE(sum.ok());
      wanted = *sum;
    }
    test::IpcMemory handle{};
    ASSERT_EQ(driver().ipc_handle(&handle, memory.pointer()), 0);
    std::ofstream(path, std::ios::binary).write(handle.bytes, sizeof handle.bytes);
    const Ended ended =
        run_scenario("ipc_consumer", {path, std::to_string(consumer), std::to_string(bytes)});
    EXPECT_EQ(ended.code, 0) << ended.said;
    std::string sum;
    std::ifstream(path + ".sum") >> sum;
    EXPECT_EQ(sum, wanted);
    std::printf("%s", ended.said.c_str());
  }
}

}  // namespace
}  // namespace nobounce::device
