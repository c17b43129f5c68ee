// Reads that kernels order through a CPU proxy: verified by the kernel itself, errors told one by
// one, and nothing of the driver called meanwhile.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>

#include "async/kernel_queue_state.hpp"
#include "async/page_reader.hpp"
#include "async/proxy.hpp"
#include "async_rig.hpp"
#include "fabric/soft_queue_platform.hpp"

namespace nobounce {
namespace {

namespace cuda = system::cuda;
using async::PageReader;
using async::PageReads;
using device::Result;
using test::AsyncRig;
using test::has_cause;
using test::machine_with;
using test::TemporaryDirectory;
using test::write_file;

constexpr std::uint64_t pages = 64;
constexpr std::uint64_t page = 4096;

class KernelOrdered : public ::testing::TestWithParam<bool> {
 protected:
  KernelOrdered() {
    std::vector<std::byte> bytes(pages * page);
    for (std::uint64_t i = 0; i < bytes.size() / 8; ++i) {
      const std::uint64_t word = core::pattern_word(5, i);
      std::memcpy(bytes.data() + 8 * i, &word, 8);
    }
    write_file(directory_.file("hot"), bytes);
    rig_.emplace(machine_with("workstation"), fabric::SoftOptions{.deterministic = GetParam()});
    auto file = rig_->session->open_file(directory_.file("hot"));
    if (!file.ok()) throw std::runtime_error(to_string(file.error()));
    file_.emplace(std::move(*file));
  }
  [[nodiscard]] nobounce::Result<KernelQueue> open(std::uint32_t tokens, std::uint32_t proxies) {
    return KernelQueue::open(*rig_->session, file_->place(),
                             {.tokens = tokens, .proxies = proxies});
  }
  [[nodiscard]] static PageReads reads(std::uint32_t blocks, std::uint32_t count) {
    PageReads wanted;
    wanted.blocks = blocks;
    wanted.reads = count;
    wanted.file_bytes = pages * page;
    wanted.seed = 5;
    return wanted;
  }

  const TemporaryDirectory directory_;
  std::optional<AsyncRig> rig_;
  std::optional<File> file_;
};

TEST_P(KernelOrdered, ReadAndVerifiedByTheKernelItself) {
  auto reader = PageReader::load(*rig_->session, 0, 8, 8 * 16);
  ASSERT_TRUE(reader.ok()) << to_string(reader.error());
  auto region = rig_->session->allocate(0, 8 * 8 * page);
  ASSERT_TRUE(region.ok());
  auto queue = open(8, 3);
  ASSERT_TRUE(queue.ok()) << to_string(queue.error());
  PageReads wanted = reads(8, 8);
  wanted.in_order = true;
  wanted.target = std::get<GpuMemory>(region->place()).address;
  const auto result = reader->run(*queue, wanted);
  ASSERT_TRUE(result.ok()) << to_string(result.error());
  EXPECT_EQ(result->sum.good, 64u);
  EXPECT_EQ(result->sum.wrong + result->sum.refused + result->sum.failed, 0u);
  const KernelQueueCounts counts = queue->counts();
  EXPECT_EQ(counts.requests, 64u);
  EXPECT_EQ(counts.failed, 0u);
  EXPECT_GE(counts.system_calls, 64u);
  EXPECT_EQ(counts.arrived_bytes, 64 * page);
  const Outcome outcome = queue->close();
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  const Receipt& receipt = outcome.receipt;
  EXPECT_EQ(receipt.issuer, Issuer::kernel);
  EXPECT_EQ(receipt.poster, Poster::cpu_proxy);
  EXPECT_EQ(receipt.member, Member::storage);
  EXPECT_EQ(receipt.bytes[Carriage::staged], 64 * page) << "through buffers in host memory";
  EXPECT_EQ(receipt.bytes.total(), 64 * page);
  EXPECT_EQ(receipt.pinned_bytes, 8 * page);
  EXPECT_TRUE(has_cause(receipt, Cause::async_cpu_proxy));
  EXPECT_NE(receipt.link, Link::none);
  EXPECT_EQ(rig_->session->ledger().bytes[Carriage::staged], 64 * page);
  EXPECT_EQ(rig_->host->cpu_touches(), 0u);
  const auto landed = rig_->look_at(region->place());
  for (std::uint64_t i = 0; i < landed.size() / 8; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, landed.data() + 8 * i, 8);
    ASSERT_EQ(word, core::pattern_word(5, i)) << i;
  }
}

TEST_P(KernelOrdered, ABadOffsetGetsItsErrorAndTheOthersGoOn) {
  auto reader = PageReader::load(*rig_->session, 0, 6);
  ASSERT_TRUE(reader.ok());
  auto queue = open(6, 2);
  ASSERT_TRUE(queue.ok());
  PageReads wanted = reads(6, 10);
  wanted.bad_every = 5;
  const auto result = reader->run(*queue, wanted);
  ASSERT_TRUE(result.ok()) << to_string(result.error());
  EXPECT_EQ(result->sum.good, 48u);
  EXPECT_EQ(result->sum.refused, 12u);
  EXPECT_EQ(result->sum.failed, 0u);
  EXPECT_EQ(result->sum.last_code, device::code_bad_range);
  const Outcome outcome = queue->close();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error->cause, Cause::async_bad_request);
  EXPECT_EQ(outcome.receipt.state, TransferState::failed);
  EXPECT_EQ(outcome.receipt.bytes.total(), 48 * page) << "what arrived is counted";
}

TEST_P(KernelOrdered, OneQueueServesKernelAfterKernel) {
  auto reader = PageReader::load(*rig_->session, 0, 4);
  ASSERT_TRUE(reader.ok());
  auto queue = open(4, 1);
  ASSERT_TRUE(queue.ok());
  for (int round = 0; round < 5; ++round) {
    const auto result = reader->run(*queue, reads(4, 7));
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->sum.good, 28u) << round;
  }
  EXPECT_TRUE(queue->close().ok());
}

TEST_P(KernelOrdered, AnErrorOfTheDriveReachesTheKernel) {
  auto reader = PageReader::load(*rig_->session, 0, 2);
  ASSERT_TRUE(reader.ok());
  auto queue = open(2, 1);
  ASSERT_TRUE(queue.ok());
  rig_->host->faults().read_error = 1;
  const auto result = reader->run(*queue, reads(2, 3));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->sum.failed, 6u);
  EXPECT_EQ(result->sum.last_code, device::code_os + EIO);
  EXPECT_EQ(result->sum.last_result, static_cast<std::uint64_t>(Result::error));
  const Outcome outcome = queue->close();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error->origin, ErrorOrigin::os);
  EXPECT_EQ(outcome.error->code, EIO);
  EXPECT_EQ(outcome.error->cause, Cause::none) << "the kernel asked for nothing wrong";
}

TEST_P(KernelOrdered, AFileThatChangesOrShrinksIsNamedInTheReceipt) {
  auto reader = PageReader::load(*rig_->session, 0, 2);
  ASSERT_TRUE(reader.ok());
  {
    auto queue = open(2, 1);
    ASSERT_TRUE(queue.ok());
    ASSERT_TRUE(reader->run(*queue, reads(2, 3)).ok());
    std::filesystem::resize_file(directory_.file("hot"), pages * page + 1);
    EXPECT_TRUE(has_cause(queue->close().receipt, Cause::file_changed));
  }
  auto queue = open(2, 1);
  ASSERT_TRUE(queue.ok());
  std::filesystem::resize_file(directory_.file("hot"), 0);
  ASSERT_TRUE(reader->run(*queue, reads(2, 3)).ok());
  const Outcome outcome = queue->close();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error->cause, Cause::file_shorter_than_expected);
}

TEST_P(KernelOrdered, TheFileOfAnOpenQueueMayNotBeClosed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto queue = open(2, 1);
        file_.reset();
      },
      "a File was closed while a transfer or kernels used it");
  auto queue = open(2, 1);
  ASSERT_TRUE(queue.ok());
  EXPECT_TRUE(queue->close().ok());
  file_.reset();
}

TEST_P(KernelOrdered, TheModeIsNamedNotFallenInto) {
  const auto refused =
      KernelQueue::open(*rig_->session, file_->place(), {.policy = Policy::direct_required});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().origin, ErrorOrigin::policy);
  EXPECT_EQ(refused.error().cause, Cause::async_cpu_proxy);
}

TEST_P(KernelOrdered, WhatCannotBeOpenedIsRefused) {
  auto region = rig_->session->allocate(0, page);
  ASSERT_TRUE(region.ok());
  EXPECT_FALSE(KernelQueue::open(*rig_->session, region->place()).ok());
  EXPECT_FALSE(KernelQueue::open(*rig_->session, file_->place(), {.gpu = 99}).ok());
  EXPECT_FALSE(KernelQueue::open(*rig_->session, file_->place(), {.tokens = 0}).ok());
  EXPECT_FALSE(KernelQueue::open(*rig_->session, file_->place(), {.buffer_bytes = 100}).ok());
  FileRange beyond = std::get<FileRange>(file_->place());
  beyond.length_bytes += 1;
  EXPECT_FALSE(KernelQueue::open(*rig_->session, Place{beyond}).ok());
}

/// Runs one soft kernel to its end.
void run_kernel(AsyncRig& rig, fabric::Kernel kernel) {
  const cuda::CUstream stream = rig.stream();
  ASSERT_EQ(rig.host->launch(stream, std::move(kernel)), cuda::success);
  ASSERT_TRUE(rig.ends(stream));
}

/// A kernel that sends one request and waits for its end.
fabric::Kernel ask(const device::QueueSet& queues, std::uint32_t queue, device::Request request,
                   Result& result, std::uint16_t& code) {
  return [=, &result, &code, sent = false](fabric::Lane& lane) mutable {
    device::Producer<fabric::SoftQueuePlatform> producer(
        fabric::SoftQueuePlatform(lane), queues.queue<fabric::SoftQueuePlatform>(queue));
    if (!sent) {
      producer.fill(producer.tickets().claim(), request);
      sent = true;
    }
    result = producer.poll(request.token, request.sequence, code);
    return result == Result::pending ? system::Step::busy() : system::Step::done();
  };
}

TEST_P(KernelOrdered, ATokenOfAnotherQueueIsRefusedByItsOwn) {
  auto queue = open(4, 2);
  ASSERT_TRUE(queue.ok());
  device::Request request;
  request.operation = device::Operation::read;
  request.length_bytes = page;
  request.sequence = 1;
  request.token = 1;  // of queue 1
  Result result = Result::pending;
  std::uint16_t code = 0;
  run_kernel(*rig_, [&, sent = false](fabric::Lane& lane) mutable {
    device::Producer<fabric::SoftQueuePlatform> wrong(
        fabric::SoftQueuePlatform(lane), queue->queues().queue<fabric::SoftQueuePlatform>(0));
    if (!sent) wrong.fill(wrong.tickets().claim(), request);
    sent = true;
    return queue->counts().failed == 0 ? system::Step::busy() : system::Step::done();
  });
  request.token = 1;
  run_kernel(*rig_, ask(queue->queues(), 1, request, result, code));
  EXPECT_EQ(result, Result::ok) << "the right one was not disturbed";
  EXPECT_FALSE(queue->close().ok());
}

TEST_P(KernelOrdered, RequestsThatMakeNoSenseAreAnsweredNotCarriedOut) {
  auto queue = open(1, 1);
  ASSERT_TRUE(queue.ok());
  struct Case {
    device::Operation operation;
    std::uint64_t offset;
    std::uint32_t length;
    std::uint16_t code;
  };
  std::uint64_t sequence = 0;
  for (const Case& one :
       {Case{device::Operation::write, 0, 4096, device::code_bad_operation},
        Case{static_cast<device::Operation>(77), 0, 4096, device::code_bad_operation},
        Case{device::Operation::read, 0, 8192, device::code_bad_range},
        Case{device::Operation::read, 0, 0, device::code_bad_range},
        Case{device::Operation::read, pages * page, 1, device::code_bad_range},
        Case{device::Operation::read, ~std::uint64_t{0} >> 1, 4096, device::code_bad_range},
        Case{device::Operation::read, pages * page - 1, 1, device::code_ok}}) {
    device::Request request;
    request.operation = one.operation;
    request.offset_bytes = one.offset;
    request.length_bytes = one.length;
    request.sequence = ++sequence;
    Result result = Result::pending;
    std::uint16_t code = 0;
    run_kernel(*rig_, ask(queue->queues(), 0, request, result, code));
    EXPECT_EQ(code, one.code) << one.offset << " " << one.length;
    EXPECT_EQ(result, one.code == 0 ? Result::ok : Result::error);
  }
}

TEST_P(KernelOrdered, AQueueThatIsClosedWhileSomebodyAsksSaysSo) {
  auto queue = open(6, 3);
  ASSERT_TRUE(queue.ok());
  const device::QueueSet queues = queue->queues();
  const cuda::CUstream stream = rig_->stream();
  std::atomic<std::uint32_t> stopped{0};
  std::atomic<bool> gone{false};
  // Six blocks, two for each of three queues, ask until they are told that it is over.
  struct Block {
    std::uint64_t sequence = 0;
    bool told = false;
  };
  ASSERT_EQ(
      rig_->host->launch(stream,
                         [&, queues, blocks = std::vector<Block>(6)](fabric::Lane& lane) mutable {
                           bool all = true;
                           for (std::uint32_t token = 0; token < 6; ++token) {
                             Block& block = blocks[token];
                             if (block.told) continue;
                             device::Producer<fabric::SoftQueuePlatform> producer(
                                 fabric::SoftQueuePlatform(lane),
                                 queues.queue<fabric::SoftQueuePlatform>(queues.queue_of(token)));
                             std::uint16_t code = 0;
                             const Result before = block.sequence == 0
                                                       ? Result::ok
                                                       : producer.poll(token, block.sequence, code);
                             if (before == Result::error && code == device::code_stopped) {
                               block.told = true;
                               ++stopped;
                               continue;
                             }
                             all = false;
                             if (before == Result::pending) continue;
                             device::Request request;
                             request.operation = device::Operation::read;
                             request.length_bytes = page;
                             request.token = token;
                             request.sequence = ++block.sequence;
                             producer.fill(producer.tickets().claim(), request);
                           }
                           if (all) gone = true;
                           return all ? system::Step::done() : system::Step::busy();
                         }),
      cuda::success);
  ASSERT_TRUE(rig_->host->workers().wait([&] { return queue->counts().requests > 20; },
                                         rig_->host->clock().now_ns() + 20'000'000'000));
  const Outcome outcome = queue->close();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.receipt.bytes.total() % page, 0u);
  // Each of the queues was told: a word of one alone would leave the blocks of the others waiting.
  if (outcome.error->cause == Cause::async_queue_stopped) {
    EXPECT_TRUE(gone || stopped > 0);
  }
  (void)rig_->ends(stream);
}

TEST_P(KernelOrdered, AClaimedSlotThatNobodyFillsIsFoundWhenTheQueueCloses) {
  auto queue = open(2, 1);
  ASSERT_TRUE(queue.ok());
  const device::QueueSet queues = queue->queues();
  run_kernel(*rig_, fabric::kernel_once([&](fabric::Lane& lane) {
    device::Tickets<fabric::SoftQueuePlatform> tickets(fabric::SoftQueuePlatform(lane),
                                                       queues.queue<fabric::SoftQueuePlatform>(0));
    (void)tickets.claim();
  }));
  const Outcome outcome = queue->close(50'000'000);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error->cause, Cause::async_queue_failed);
  EXPECT_EQ(outcome.receipt.state, TransferState::failed);
}

/// Fails the test if anything is allocated, registered, loaded, or put on the default stream.
class QuietCuda : public support::AroundCuda {
 public:
  explicit QuietCuda(system::Cuda& inner) : AroundCuda(inner), inner_(inner) {}
  std::atomic<bool> quiet{false};
  std::atomic<int> calls{0};

#define NOBOUNCE_LOUD(method, parameters, arguments) \
  CUresult method parameters override {              \
    if (quiet) ++calls;                              \
    return inner_.method arguments;                  \
  }
  NOBOUNCE_LOUD(mem_alloc, (CUdeviceptr * pointer, std::size_t bytes), (pointer, bytes))
  NOBOUNCE_LOUD(mem_free, (CUdeviceptr pointer), (pointer))
  NOBOUNCE_LOUD(mem_host_alloc, (void** pointer, std::size_t bytes, unsigned flags),
                (pointer, bytes, flags))
  NOBOUNCE_LOUD(mem_free_host, (void* pointer), (pointer))
  NOBOUNCE_LOUD(mem_host_register, (void* pointer, std::size_t bytes, unsigned flags),
                (pointer, bytes, flags))
  NOBOUNCE_LOUD(mem_host_unregister, (void* pointer), (pointer))
  NOBOUNCE_LOUD(module_load_data, (CUmodule * module, const void* image), (module, image))
  NOBOUNCE_LOUD(module_unload, (CUmodule module), (module))
  NOBOUNCE_LOUD(module_get_function, (CUfunction * function, CUmodule module, const char* name),
                (function, module, name))
  NOBOUNCE_LOUD(stream_create, (CUstream * stream, unsigned flags), (stream, flags))
  NOBOUNCE_LOUD(event_create, (CUevent * event, unsigned flags), (event, flags))
  NOBOUNCE_LOUD(ctx_synchronize, (), ())
#undef NOBOUNCE_LOUD
  CUresult memcpy_htod_async(CUdeviceptr target, const void* source, std::size_t bytes,
                             CUstream stream) override {
    if (quiet && reinterpret_cast<std::uintptr_t>(stream) <= 2) ++calls;
    return inner_.memcpy_htod_async(target, source, bytes, stream);
  }

 private:
  system::Cuda& inner_;
};

TEST(KernelQueues, CallNothingOfTheDriverThatCouldWaitForTheKernel) {
  const TemporaryDirectory directory;
  std::vector<std::byte> bytes(pages * page);
  for (std::uint64_t i = 0; i < bytes.size() / 8; ++i) {
    const std::uint64_t word = core::pattern_word(5, i);
    std::memcpy(bytes.data() + 8 * i, &word, 8);
  }
  write_file(directory.file("hot"), bytes);
  for (const bool deterministic : {true, false}) {
    auto made =
        fabric::SoftHost::create(machine_with("workstation"), {.deterministic = deterministic});
    ASSERT_TRUE(made.ok());
    support::AroundHost host(**made);
    QuietCuda cuda(**(*made)->cuda());
    host.cuda_table = &cuda;
    auto session = Session::open(host, test::SoftSession::quiet());
    ASSERT_TRUE(session.ok());
    auto file = session->open_file(directory.file("hot"));
    ASSERT_TRUE(file.ok());
    auto reader = PageReader::load(*session, 0, 4);
    ASSERT_TRUE(reader.ok());
    auto queue = KernelQueue::open(*session, file->place(), {.tokens = 4, .proxies = 2});
    ASSERT_TRUE(queue.ok());
    cuda.quiet = true;
    PageReads wanted;
    wanted.blocks = 4;
    wanted.reads = 50;
    wanted.file_bytes = pages * page;
    wanted.seed = 5;
    const auto result = reader->run(*queue, wanted);
    cuda.quiet = false;
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->sum.good, 200u);
    EXPECT_EQ(cuda.calls, 0) << "deterministic: " << deterministic;
    EXPECT_TRUE(queue->close().ok());
  }
}

/// Stays in its first request until it is let go.
class StuckConsumer final : public core::KernelConsumer {
 public:
  core::KernelAnswer carry_out(const device::Request&, std::byte*, std::uint64_t) override {
    while (!let_go) std::this_thread::yield();
    return {};
  }
  std::atomic<bool> let_go{false};
};

TEST(KernelQueues, ARequestThatTakesTooLongFailsItsQueue) {
  auto made = fabric::SoftHost::create(machine_with("workstation"), {});
  ASSERT_TRUE(made.ok());
  system::Host& host = **made;
  struct alignas(128) Words {
    std::uint64_t gpu[64] = {};
    std::uint64_t words[16] = {};
    std::uint64_t slots[2 * device::words_per_slot] = {};
    std::uint64_t completions[8] = {};
    std::uint64_t buffer[512] = {};
  } memory;
  const auto at = [](std::uint64_t* word) { return reinterpret_cast<std::uint64_t>(word); };
  device::QueueSet queues;
  queues.gpu_words = at(memory.gpu);
  queues.host_words = at(memory.words);
  queues.slots = at(memory.slots);
  queues.completions = at(memory.completions);
  queues.buffers = at(memory.buffer);
  queues.size_log2 = 1;
  StuckConsumer consumer;
  const std::atomic<bool> stopping{false};
  async::Proxy proxy(host, consumer, queues, 0, stopping);
  async::QueueWatch watch(host, 20'000'000);
  watch.add(proxy, queues.queue<device::NativePlatform>(0).state);
  const auto first = host.workers().start(proxy, "proxy");
  const auto second = host.workers().start(watch, "watch");
  ASSERT_TRUE(first.ok() && second.ok());
  device::NativePlatform platform;
  device::Producer<device::NativePlatform> producer(platform,
                                                    queues.queue<device::NativePlatform>(0));
  device::Request request;
  request.operation = device::Operation::read;
  request.length_bytes = page;
  request.sequence = 1;
  ASSERT_EQ(producer.submit(request, 0), Result::ok);
  std::uint16_t code = 0;
  EXPECT_EQ(producer.wait(0, 1, 0, code), Result::failed) << "not for ever pending";
  EXPECT_TRUE(watch.stalled());
  consumer.let_go = true;
  host.workers().stop(*first);
  host.workers().stop(*second);
}

/// Reads come back when the test lets them.
class HeldStorage final : public support::AroundStorage {
 public:
  using AroundStorage::AroundStorage;
  nobounce::Result<std::size_t> read(system::FileHandle file, std::byte* target,
                                     std::size_t length_bytes, FileOffset offset) override {
    while (!let_go()) std::this_thread::yield();
    return AroundStorage::read(file, target, length_bytes, offset);
  }
  std::function<bool()> let_go = [] { return true; };
};

class HeldReads : public ::testing::Test {
 protected:
  HeldReads() {
    write_file(directory_.file("hot"), test::random_bytes(page, 5));
    rig_.emplace(machine_with("workstation"));
    storage_.emplace(rig_->host->storage());
    rig_->around->storage_part = &*storage_;
    file_.emplace(*rig_->session->open_file(directory_.file("hot")));
    queue_.emplace(*KernelQueue::open(*rig_->session, file_->place(),
                                      {.tokens = 1, .proxies = 1, .stall_ns = 1'000'000}));
  }
  ~HeldReads() override {
    queue_.reset();
    file_.reset();
    rig_.reset();
  }
  /// A kernel asks for one page, and gives up when the watch fails its queue.
  void ask() {
    auto reader = PageReader::load(*rig_->session, 0, 1);
    ASSERT_TRUE(reader.ok());
    PageReads wanted;
    wanted.blocks = 1;
    wanted.reads = 1;
    wanted.file_bytes = page;
    const auto result = reader->run(*queue_, wanted);
    ASSERT_TRUE(result.ok()) << to_string(result.error());
    EXPECT_EQ(result->sum.good, 0u);
  }
  [[nodiscard]] bool is_failed() const {
    const auto state = queue_->queues().queue<device::NativePlatform>(0).state;
    return device::state_of(std::atomic_ref<std::uint32_t>(*state).load()) == device::State::failed;
  }

  const TemporaryDirectory directory_;
  std::optional<HeldStorage> storage_;
  std::optional<AsyncRig> rig_;
  std::optional<File> file_;
  std::optional<KernelQueue> queue_;
};

/// That the read ended after all makes it no success: the kernels had given up.
TEST_F(HeldReads, AQueueThatTheWatchFailedIsNoSuccess) {
  storage_->let_go = [this] { return is_failed(); };
  ask();
  const Outcome outcome = queue_->close();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error->cause, Cause::async_queue_failed);
  EXPECT_NE(outcome.error->detail.find("stall_ns"), std::string::npos);
  EXPECT_EQ(outcome.receipt.state, TransferState::failed);
}

TEST_F(HeldReads, CloseDoesNotWaitForARequestThatDoesNotComeBack) {
  std::atomic<bool> back{false};
  storage_->let_go = [&] { return back.load(); };
  ask();
  const Outcome outcome = queue_->close(1'000'000);
  EXPECT_FALSE(back.load());
  back = true;
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error->cause, Cause::async_queue_failed);
  queue_.reset();  // waits for it
  file_.reset();
}

/// Whoever waits with a deadline has little time.
class HastyWorkers final : public system::Workers {
 public:
  explicit HastyWorkers(system::Host& host) : host_(host), inner_(host.workers()) {}
  nobounce::Result<system::WorkerId> start(system::Worker& worker, std::string_view name) override {
    return inner_.start(worker, name);
  }
  void wake(system::WorkerId id) override { inner_.wake(id); }
  void stop(system::WorkerId id) override { inner_.stop(id); }
  bool wait(core::FunctionRef<bool()> ready, std::uint64_t deadline_ns) override {
    return inner_.wait(ready, deadline_ns == 0 ? 0 : host_.clock().now_ns() + 2'000'000);
  }
  void give_way() override { inner_.give_way(); }
  void notify() override { inner_.notify(); }
  unsigned concurrency() const override { return inner_.concurrency(); }

 private:
  system::Host& host_;
  system::Workers& inner_;
};

TEST_F(HeldReads, TheQueueAndItsFileAreKeptForARequestThatDoesNotComeBack) {
  std::atomic<bool> back{false};
  storage_->let_go = [&] { return back.load(); };
  ask();
  HastyWorkers hasty(*rig_->host);
  rig_->around->workers_part = &hasty;
  queue_.reset();
  file_.reset();
  EXPECT_FALSE(back.load());
  rig_->around->workers_part = nullptr;
  back = true;
  rig_->session.reset();  // waits for it
}

INSTANTIATE_TEST_SUITE_P(Both, KernelOrdered, ::testing::Values(true, false),
                         [](const auto& instance) {
                           return std::string(instance.param ? "Deterministic" : "OnThreads");
                         });

}  // namespace
}  // namespace nobounce
