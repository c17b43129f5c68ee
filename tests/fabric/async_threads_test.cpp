// Streams and kernels that order transfers from several threads at once.
#include <gtest/gtest.h>

#include <thread>

#include "async/page_reader.hpp"
#include "async_rig.hpp"

namespace nobounce {
namespace {

namespace cuda = system::cuda;
using test::AsyncRig;
using test::machine_with;
using test::TemporaryDirectory;
using test::write_file;

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t pages = 64;

std::vector<std::byte> pattern_bytes() {
  std::vector<std::byte> bytes(pages * page);
  for (std::uint64_t i = 0; i < bytes.size() / 8; ++i) {
    const std::uint64_t word = core::pattern_word(5, i);
    std::memcpy(bytes.data() + 8 * i, &word, 8);
  }
  return bytes;
}

TEST(AsyncThreads, EachThreadOrdersOnAStreamOfItsOwn) {
  const TemporaryDirectory directory;
  const auto bytes = pattern_bytes();
  write_file(directory.file("source"), bytes);
  AsyncRig rig(machine_with("workstation"));
  auto file = rig.session->open_file(directory.file("source"));
  auto region = rig.session->allocate(0, bytes.size());
  auto streams = Streams::open(*rig.session);
  ASSERT_TRUE(file.ok() && region.ok() && streams.ok());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      (void)rig.driver->ctx_push_current(rig.context);
      cuda::CUstream stream = nullptr;
      if (rig.driver->stream_create(&stream, cuda::stream_non_blocking) != cuda::success) ++wrong;
      const std::uint64_t part = bytes.size() / 4;
      for (int round = 0; round < 5; ++round) {
        auto transfer =
            streams->enqueue(stream, file->place(i * part, part), region->place(i * part, part));
        if (!transfer.ok()) {
          ++wrong;
          continue;
        }
        const auto outcome = transfer->wait(30'000'000'000);
        if (!outcome.has_value() || !outcome->ok()) ++wrong;
      }
      (void)rig.driver->ctx_pop_current(nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(rig.look_at(region->place()), bytes);
}

TEST(AsyncThreads, KernelsReadThroughProxiesWhileAStreamOrdersToo) {
  const TemporaryDirectory directory;
  const auto bytes = pattern_bytes();
  write_file(directory.file("source"), bytes);
  AsyncRig rig(machine_with("workstation"));
  auto file = rig.session->open_file(directory.file("source"));
  auto region = rig.session->allocate(1, bytes.size());
  auto streams = Streams::open(*rig.session);
  auto reader = async::PageReader::load(*rig.session, 0, 4);
  ASSERT_TRUE(file.ok() && region.ok() && streams.ok() && reader.ok());
  auto queue = KernelQueue::open(*rig.session, file->place(), {.tokens = 4, .proxies = 2});
  ASSERT_TRUE(queue.ok());
  const cuda::CUstream stream = rig.stream();
  auto transfer = streams->enqueue(stream, file->place(), region->place());
  ASSERT_TRUE(transfer.ok()) << to_string(transfer.error());
  async::PageReads wanted;
  wanted.blocks = 4;
  wanted.reads = 25;
  wanted.file_bytes = bytes.size();
  wanted.seed = 5;
  const auto result = reader->run(*queue, wanted);
  ASSERT_TRUE(result.ok()) << to_string(result.error());
  EXPECT_EQ(result->sum.good, 100u);
  const auto outcome = transfer->wait(30'000'000'000);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_TRUE(outcome->ok());
  EXPECT_TRUE(queue->close().ok());
}

}  // namespace
}  // namespace nobounce
