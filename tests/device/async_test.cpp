// What a GPU makes of the queue's rules, of reads that its kernels order, and of transfers that its
// streams order.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include <nobounce/async.hpp>
#include "async/drive_reader.hpp"
#include "async/page_reader.hpp"
#include "device/device_rig.hpp"
#include "device/embedded_litmus.hpp"
#include "device/litmus_jobs.hpp"

namespace nobounce::device {
namespace {

namespace cuda = system::cuda;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}
constexpr std::uint64_t second_ns = 1'000'000'000;
std::uint64_t load(const std::uint64_t* word) {
  return NativePlatform{}.load<Order::acquire, Scope::system>(const_cast<std::uint64_t*>(word));
}
void store(std::uint64_t* word, std::uint64_t value) {
  NativePlatform{}.store<Order::release, Scope::system>(word, value);
}

class Litmus : public DeviceTest {
 protected:
  void SetUp() override {
    need_gpus(1);
    if (IsSkipped()) return;
    host_ = system::make_live_host();
    auto table = host_->cuda();
    ASSERT_TRUE(table.ok());
    cuda_ = *table;
    ASSERT_EQ(cuda_->init(0), cuda::success);
    ASSERT_EQ(cuda_->device_primary_ctx_retain(&context_, 0), cuda::success);
    ASSERT_EQ(cuda_->ctx_push_current(context_), cuda::success);
    ASSERT_EQ(cuda_->module_load_data(&module_, kernel_image("litmus")), cuda::success);
    ASSERT_EQ(cuda_->stream_create(&stream_, cuda::stream_non_blocking), cuda::success);
    void* memory = nullptr;
    ASSERT_EQ(cuda_->mem_host_alloc(&memory, host_bytes, 3), cuda::success);  // portable, mapped
    std::memset(memory, 0, host_bytes);
    words_ = static_cast<std::uint64_t*>(memory);
    ASSERT_EQ(cuda_->mem_alloc(&gpu_, gpu_bytes), cuda::success);
    ASSERT_EQ(cuda_->memset_d8_async(gpu_, 0, gpu_bytes, stream_), cuda::success);
    ASSERT_EQ(cuda_->stream_synchronize(stream_), cuda::success);
  }
  void TearDown() override {
    if (cuda_ == nullptr || stream_ == nullptr) return;
    // Not after a kernel that hangs: what it uses stays.
    if (cuda_->stream_query(stream_) == cuda::success) {
      (void)cuda_->stream_destroy(stream_);
      (void)cuda_->module_unload(module_);
      (void)cuda_->mem_free(gpu_);
      (void)cuda_->mem_free_host(words_);
    }
    (void)cuda_->ctx_pop_current(nullptr);
  }
  template <typename Job>
  void launch(const char* name, Job& job, unsigned blocks, unsigned threads) {
    cuda::CUfunction function = nullptr;
    ASSERT_EQ(cuda_->module_get_function(&function, module_, name), cuda::success);
    void* parameters[] = {&job};
    ASSERT_EQ(cuda_->launch_kernel(function, blocks, 1, 1, threads, 1, 1, 0, stream_, parameters,
                                   nullptr),
              cuda::success);
  }
  [[nodiscard]] bool ends_within(std::uint64_t limit_ns) {
    const std::uint64_t until_ns = now_ns() + limit_ns;
    while (now_ns() < until_ns) {
      const auto code = cuda_->stream_query(stream_);
      if (code == cuda::success) return true;
      if (code != cuda::error_not_ready) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return false;
  }
  [[nodiscard]] PassingJob passing(std::uint64_t rounds, std::uint32_t mode) {
    PassingJob job;
    job.payload = address(0);
    job.flag = address(128);
    job.answer = address(160);
    job.stale = address(192);
    job.rounds = rounds;
    job.mode = mode;
    return job;
  }
  /// How many payload words were older than the flag said.
  std::uint64_t receive(std::uint64_t rounds) {
    std::uint64_t stale = 0;
    const std::uint64_t until_ns = now_ns() + 30 * second_ns;
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      while (load(words_ + 128) != round) {
        if (now_ns() > until_ns) {
          ADD_FAILURE() << "no flag in round " << round;
          store(words_ + 160, PassingJob::give_up);
          return stale;
        }
      }
      for (std::uint32_t i = 0; i < PassingJob::words; ++i) {
        const std::uint64_t seen = NativePlatform{}.load<Order::relaxed, Scope::system>(words_ + i);
        if (seen != round) ++stale;
      }
      store(words_ + 160, round);
    }
    return stale;
  }
  [[nodiscard]] std::uint64_t address(std::size_t word) const {
    return reinterpret_cast<std::uint64_t>(words_ + word);
  }
  /// A queue set in the test's memory; the first 1024 words are other tests'.
  [[nodiscard]] QueueSet queues(std::uint32_t count, std::uint32_t size_log2) {
    QueueSet set;
    set.gpu_words = gpu_;
    set.host_words = address(1024);
    set.slots = address(4096);
    set.completions = address(8192);
    set.queues = count;
    set.tokens = 1U << 16;
    set.size_log2 = size_log2;
    return set;
  }
  /// Takes the crowd's requests until all are there; false if one was not as it was sent.
  bool serve_crowd(const QueueSet& set, std::uint32_t threads, std::uint32_t requests);

  static constexpr std::size_t host_bytes = 32u << 20;
  static constexpr std::size_t gpu_bytes = 4u << 20;
  std::unique_ptr<system::Host> host_;
  system::Cuda* cuda_ = nullptr;
  cuda::CUcontext context_ = nullptr;
  cuda::CUmodule module_ = nullptr;
  cuda::CUstream stream_ = nullptr;
  std::uint64_t* words_ = nullptr;
  cuda::CUdeviceptr gpu_ = 0;
};

bool Litmus::serve_crowd(const QueueSet& set, std::uint32_t threads, std::uint32_t requests) {
  std::vector<Consumer<NativePlatform>> consumers;
  for (std::uint32_t i = 0; i < set.queues; ++i)
    consumers.emplace_back(NativePlatform{}, set.queue<NativePlatform>(i));
  std::vector<std::uint64_t> next(threads, 1);
  const std::uint64_t until_ns = now_ns() + 40 * second_ns;
  std::uint64_t seen = 0;
  for (std::uint64_t looks = 0; seen < std::uint64_t{threads} * requests; ++looks) {
    if (looks % 4096 == 0 && now_ns() > until_ns) {
      ADD_FAILURE() << "only " << seen << " requests came";
      return false;
    }
    for (auto& consumer : consumers) {
      Request request;
      if (!consumer.front(request)) continue;
      if (request.token >= threads ||
          request != crowd_request(request.token, next[request.token])) {
        ADD_FAILURE() << "a request of token " << request.token << " is a mixture";
        return false;
      }
      ++next[request.token];
      ++seen;
      consumer.release_front();
    }
  }
  return true;
}

TEST_F(Litmus, WhoeverSeesAReleasedFlagSeesItsPayload) {
  PassingJob job = passing(100'000, PassingJob::released);
  launch("litmus_to_host", job, 1, 32);
  EXPECT_EQ(receive(job.rounds), 0u);
  EXPECT_TRUE(ends_within(10 * second_ns));
}

TEST_F(Litmus, AReleaseCoversWhatTheBlockStoredBeforeItsBarrier) {
  PassingJob job = passing(100'000, PassingJob::by_all_threads);
  launch("litmus_to_host", job, 1, 64);
  EXPECT_EQ(receive(job.rounds), 0u);
  EXPECT_TRUE(ends_within(10 * second_ns));
}

TEST_F(Litmus, WhatAFlagWithoutReleaseShowsIsWrittenDown) {
  PassingJob job = passing(100'000, PassingJob::relaxed);
  launch("litmus_to_host", job, 1, 32);
  const std::uint64_t stale = receive(job.rounds);
  EXPECT_TRUE(ends_within(10 * second_ns));
  std::printf("[ measured ] flag without release: %llu of %llu words out of date\n",
              static_cast<unsigned long long>(stale),
              static_cast<unsigned long long>(job.rounds * PassingJob::words));
}

TEST_F(Litmus, AKernelThatAcquiresTheHostsFlagSeesTheHostsBytes) {
  PassingJob job = passing(100'000, PassingJob::released);
  launch("litmus_from_host", job, 1, 64);
  const std::uint64_t until_ns = now_ns() + 30 * second_ns;
  for (std::uint64_t round = 1; round <= job.rounds; ++round) {
    for (std::uint32_t i = 0; i < PassingJob::words; ++i)
      NativePlatform{}.store<Order::relaxed, Scope::system>(words_ + i, round);
    store(words_ + 128, round);
    while (load(words_ + 160) != round) {
      if (now_ns() < until_ns) continue;
      store(words_ + 128, PassingJob::give_up);
      FAIL() << "no answer in round " << round;
    }
  }
  EXPECT_TRUE(ends_within(10 * second_ns));
  EXPECT_EQ(load(words_ + 192), 0u);
}

TEST_F(Litmus, ACrowdOfLanesSharesTwoSlotsWithoutMixingRequests) {
  for (const std::uint32_t together : {0U, 1U}) {
    for (const std::uint32_t size_log2 : {1U, 4U, 8U}) {
      SCOPED_TRACE("together " + std::to_string(together) + ", slots 2^" +
                   std::to_string(size_log2));
      std::memset(words_, 0, host_bytes);
      ASSERT_EQ(cuda_->memset_d8_async(gpu_, 0, gpu_bytes, stream_), cuda::success);
      ASSERT_EQ(cuda_->stream_synchronize(stream_), cuda::success);
      CrowdJob job;
      job.queues = queues(2, size_log2);
      job.outcomes = address(1u << 20);
      job.requests = size_log2 == 1 ? 20 : 100;
      job.together = together;
      job.wait_ns = 60 * second_ns;
      const std::uint32_t threads = 16 * 128;
      const std::uint64_t begun_ns = now_ns();
      launch("litmus_crowd", job, 16, 128);
      const bool served = serve_crowd(job.queues, threads, job.requests);
      const double seconds = static_cast<double>(now_ns() - begun_ns) * 1e-9;
      if (!served) {
        store(words_ + 1024 + 8, state_word(State::failed));
        store(words_ + 1024 + 16 + 8, state_word(State::failed));
      }
      ASSERT_TRUE(ends_within(20 * second_ns));
      ASSERT_TRUE(served);
      for (std::uint32_t i = 0; i < threads; ++i)
        ASSERT_EQ(load(words_ + (1u << 20) + i), job.requests) << i;
      std::printf("[ measured ] %u slots, together %u: %.2f M requests/s through one CPU thread\n",
                  1U << size_log2, together, threads * job.requests / seconds * 1e-6);
    }
  }
}

TEST_F(Litmus, WithoutAnyConsumerTheKernelEndsByItself) {
  CrowdJob job;
  job.queues = queues(1, 1);
  job.outcomes = address(1u << 20);
  job.requests = 3;
  job.wait_ns = 50'000'000;
  launch("litmus_crowd", job, 4, 64);
  ASSERT_TRUE(ends_within(20 * second_ns)) << "nobody freed a slot, and nobody said so";
  std::uint64_t accepted = 0;
  for (std::uint32_t i = 0; i < 256; ++i) accepted += load(words_ + (1u << 20) + i);
  EXPECT_EQ(accepted, 2u);
}

TEST_F(Litmus, AStateWordOfTheHostEndsTheWaitOfEveryLane) {
  CrowdJob job;
  job.queues = queues(1, 1);
  job.outcomes = address(1u << 20);
  job.requests = 3;
  launch("litmus_crowd", job, 4, 64);  // no deadline at all
  EXPECT_FALSE(ends_within(300'000'000));
  store(words_ + 1024 + 8, state_word(State::failed, code_deadline));
  EXPECT_TRUE(ends_within(10 * second_ns));
}

TEST_F(Litmus, WhatSingleAccessesCost) {
  CostJob job;
  job.cycles = address(512);
  job.gpu_word = gpu_;
  job.host_word = address(640);
  job.rounds = 1000;
  launch("litmus_costs", job, 1, 1);
  ASSERT_TRUE(ends_within(20 * second_ns));
  const char* names[] = {"globaltimer",
                         "atomic in GPU memory",
                         "acquire load in GPU memory",
                         "acquire load of host memory",
                         "relaxed store to host memory",
                         "release store to host memory"};
  for (std::uint32_t i = 0; i < CostJob::count; ++i) {
    std::printf("[ measured ] %s: %llu cycles\n", names[i],
                static_cast<unsigned long long>(load(words_ + 512 + i)));
  }
}

class AsyncOnGpu : public DeviceTest {
 protected:
  static constexpr std::uint64_t page = 4096;
  static constexpr std::uint64_t pages = 16384;

  void SetUp() override {
    need_gpus(1);
    if (IsSkipped()) return;
    ASSERT_TRUE(live_.session) << live_.failure;
    std::vector<std::byte> bytes(pages * page);
    for (std::uint64_t i = 0; i < bytes.size() / 8; ++i) {
      const std::uint64_t word = core::pattern_word(5, i);
      std::memcpy(bytes.data() + 8 * i, &word, 8);
    }
    test::write_file(directory_.file("hot"), bytes);
    auto file = live_.session->open_file(directory_.file("hot"));
    ASSERT_TRUE(file.ok());
    file_.emplace(std::move(*file));
  }
  [[nodiscard]] static async::PageReads reads(std::uint32_t blocks, std::uint32_t count) {
    async::PageReads wanted;
    wanted.blocks = blocks;
    wanted.reads = count;
    wanted.file_bytes = pages * page;
    wanted.seed = 5;
    return wanted;
  }

  test::TemporaryDirectory directory_;
  Live live_;
  std::optional<File> file_;
};

TEST_F(AsyncOnGpu, AKernelReadsAFileThroughTheProxiesAndVerifiesItItself) {
  auto reader = async::PageReader::load(*live_.session, 0, 256);
  ASSERT_TRUE(reader.ok()) << nobounce::to_string(reader.error());
  auto region = live_.session->allocate(0, 256 * 50 * page);
  ASSERT_TRUE(region.ok());
  auto queue = KernelQueue::open(*live_.session, file_->place(), {.tokens = 256});
  ASSERT_TRUE(queue.ok()) << nobounce::to_string(queue.error());
  async::PageReads wanted = reads(256, 50);
  wanted.in_order = true;
  wanted.target = std::get<GpuMemory>(region->place()).address;
  const auto result = reader->run(*queue, wanted);
  ASSERT_TRUE(result.ok()) << nobounce::to_string(result.error());
  EXPECT_EQ(result->sum.good, 256u * 50);
  EXPECT_EQ(result->sum.wrong + result->sum.refused + result->sum.failed, 0u);
  const Outcome outcome = queue->close();
  ASSERT_TRUE(outcome.ok()) << why(outcome);
  EXPECT_EQ(outcome.receipt.bytes[Carriage::staged], 256 * 50 * page);
  EXPECT_EQ(outcome.receipt.issuer, Issuer::kernel);
  EXPECT_EQ(outcome.receipt.poster, Poster::cpu_proxy);
  const Primary primary(driver(), 0);
  const auto landed = look(wanted.target.value, 256 * 50 * page);
  for (std::uint64_t i = 0; i < landed.size() / 8; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, landed.data() + 8 * i, 8);
    ASSERT_EQ(word, core::pattern_word(5, i)) << i;
  }
}

/// No drive can be rung here; the kernel itself is one that this GPU's driver takes and runs.
TEST_F(AsyncOnGpu, TheKernelThatRingsDoorbellsIsLoadedAndLaunched) {
  const auto reader = async::DriveReader::load(*live_.session, 0, 32);
  EXPECT_TRUE(reader.ok()) << nobounce::to_string(reader.error());
}

TEST_F(AsyncOnGpu, ABadOffsetGetsItsErrorAndTheOthersGoOn) {
  auto reader = async::PageReader::load(*live_.session, 0, 64);
  ASSERT_TRUE(reader.ok());
  auto queue = KernelQueue::open(*live_.session, file_->place(), {.tokens = 64});
  ASSERT_TRUE(queue.ok());
  async::PageReads wanted = reads(64, 100);
  wanted.bad_every = 10;
  const auto result = reader->run(*queue, wanted);
  ASSERT_TRUE(result.ok()) << nobounce::to_string(result.error());
  EXPECT_EQ(result->sum.good, 64u * 90);
  EXPECT_EQ(result->sum.refused, 64u * 10);
  EXPECT_EQ(result->sum.failed + result->sum.wrong, 0u);
  const Outcome outcome = queue->close();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error->cause, Cause::async_bad_request);
}

TEST_F(AsyncOnGpu, ADeadlineThatPassesIsToldAndTheKernelGoesOn) {
  auto reader = async::PageReader::load(*live_.session, 0, 8);
  ASSERT_TRUE(reader.ok());
  auto queue = KernelQueue::open(*live_.session, file_->place(), {.tokens = 8, .proxies = 1});
  ASSERT_TRUE(queue.ok());
  async::PageReads wanted = reads(8, 50);
  wanted.wait_ns = 1;  // over before it begins
  auto result = reader->run(*queue, wanted);
  ASSERT_TRUE(result.ok()) << nobounce::to_string(result.error());
  EXPECT_EQ(result->sum.failed + result->sum.good, 400u);
  EXPECT_EQ(result->sum.last_result, static_cast<std::uint64_t>(Result::deadline));
  result = reader->run(*queue, reads(8, 50));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->sum.good, 400u) << "the queue is as good as before";
  EXPECT_TRUE(queue->close().ok());
}

TEST_F(AsyncOnGpu, WhatWaitsBesideAStreamThatWaits) {
  for (const char* queues : {"", "1"}) {
    const Ended ended = run_scenario("what_waits", {queues}, std::chrono::seconds(30));
    EXPECT_EQ(ended.code, 0) << ended.said;
    std::printf("hardware queues: %s\n%s", *queues != 0 ? queues : "as the driver likes",
                ended.said.c_str());
  }
}

TEST_F(AsyncOnGpu, ManyStreamsWithOneHardwareQueue) {
  const Ended ended = run_scenario("stream_ordered", {"48", "1"}, std::chrono::seconds(40));
  EXPECT_EQ(ended.code, 0) << ended.said;
  std::printf("%s", ended.said.c_str());
}

TEST_F(AsyncOnGpu, ManyStreamsAsTheDriverLikesThem) {
  const Ended ended = run_scenario("stream_ordered", {"48", ""}, std::chrono::seconds(40));
  EXPECT_EQ(ended.code, 0) << ended.said;
  std::printf("%s", ended.said.c_str());
}

TEST_F(AsyncOnGpu, ACapturedStreamIsRefused) {
  auto table = live_.host->cuda();
  ASSERT_TRUE(table.ok());
  cuda::CUcontext context = nullptr;
  ASSERT_EQ((*table)->device_primary_ctx_retain(&context, 0), cuda::success);
  ASSERT_EQ((*table)->ctx_push_current(context), cuda::success);
  cuda::CUstream stream = nullptr;
  ASSERT_EQ((*table)->stream_create(&stream, cuda::stream_non_blocking), cuda::success);
  auto streams = Streams::open(*live_.session);
  ASSERT_TRUE(streams.ok()) << nobounce::to_string(streams.error());
  auto region = live_.session->allocate(0, pages * page);
  ASSERT_TRUE(region.ok());
  // First outside, so that everything is made.
  auto before = streams->enqueue(stream, file_->place(), region->place());
  ASSERT_TRUE(before.ok()) << nobounce::to_string(before.error());
  ASSERT_TRUE(before->wait(20 * second_ns).has_value());
  ASSERT_EQ((*table)->stream_begin_capture(stream, cuda::capture_mode_relaxed), cuda::success);
  const auto refused = streams->enqueue(stream, file_->place(), region->place());
  cuda::CUgraph graph = nullptr;
  EXPECT_EQ((*table)->stream_end_capture(stream, &graph), cuda::success);
  EXPECT_EQ((*table)->graph_destroy(graph), cuda::success);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().cause, Cause::async_graph_capture);
  auto after = streams->enqueue(stream, file_->place(), region->place());
  ASSERT_TRUE(after.ok()) << nobounce::to_string(after.error());
  const auto outcome = after->wait(20 * second_ns);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_TRUE(outcome->ok()) << why(*outcome);
  EXPECT_EQ(outcome->receipt.issuer, Issuer::stream);
  (void)(*table)->stream_destroy(stream);
  (void)(*table)->ctx_pop_current(nullptr);
}

}  // namespace
}  // namespace nobounce::device
