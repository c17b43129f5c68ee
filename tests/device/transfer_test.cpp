// Transfers on a real GPU: every kind of memory, every direction, odd sizes, many threads.
#include <algorithm>
#include <thread>

#include "device/device_rig.hpp"

namespace nobounce::device {
namespace {

constexpr std::size_t mib = 1u << 20;
constexpr auto soon = std::chrono::seconds(30);

class KindTest : public DeviceTest, public ::testing::WithParamInterface<Kind> {};

std::string kind_name(const ::testing::TestParamInfo<Kind>& one) {
  return to_string(one.param);
}

INSTANTIATE_TEST_SUITE_P(Every, KindTest,
                         ::testing::Values(Kind::plain, Kind::mapped, Kind::pool, Kind::managed),
                         kind_name);

AllocationKind expected(Kind kind) {
  switch (kind) {
    case Kind::plain:
      return AllocationKind::device;
    case Kind::mapped:
      return AllocationKind::vmm;
    case Kind::pool:
      return AllocationKind::pool;
    case Kind::managed:
      return AllocationKind::managed;
  }
  return AllocationKind::unknown;
}

/// What must hold of a transfer of any kind of memory: the bytes are right, or it was refused with
/// a cause and none is claimed to have arrived.
bool done_or_refused(const Outcome& outcome, Kind kind) {
  if (outcome.ok()) return true;
  EXPECT_EQ(kind, Kind::managed) << why(outcome);
  EXPECT_NE(outcome.error->cause, Cause::none) << why(outcome);
  return false;
}

TEST_P(KindTest, IsRecognisedAndMovesInEveryDirection) {
  const Kind kind = GetParam();
  const Primary primary(driver(), 0);
  const std::size_t bytes = 32 * mib + 777;
  const GpuBuffer memory(kind, bytes);
  ASSERT_EQ(memory.error, 0);
  Live live;
  ASSERT_TRUE(live.session) << live.failure;
  auto region = live.session->adopt(DevicePointer{memory.pointer()}, bytes);
  ASSERT_TRUE(region.ok()) << nobounce::to_string(region.error());
  EXPECT_EQ(region->kind(), expected(kind)) << nobounce::to_string(region->kind());

  const test::TemporaryDirectory directory;
  const auto content = test::random_bytes(bytes, 60);
  test::write_file(directory.file("in"), content);
  const auto file = live.session->open_file(directory.file("in"));
  ASSERT_TRUE(file.ok());
  const Outcome in = live.session->transfer(file->place(), region->place(), within(soon));
  if (!done_or_refused(in, kind)) return;
  EXPECT_EQ(in.receipt.bytes.total(), bytes);
  EXPECT_TRUE(look(memory.pointer(), bytes) == content) << "file to GPU: other bytes";

  FileOptions options;
  options.mode = FileMode::replace;
  options.length_bytes = bytes;
  auto out = live.session->open_file(directory.file("out"), options);
  ASSERT_TRUE(out.ok());
  const Outcome written = live.session->transfer(region->place(), out->place(), within(soon));
  ASSERT_TRUE(written.ok()) << why(written);
  ASSERT_TRUE(out->commit(false).ok());
  EXPECT_TRUE(test::read_file(directory.file("out")) == content) << "GPU to file: other bytes";

  const auto host = live.session->allocate_host(bytes);
  ASSERT_TRUE(host.ok());
  const Outcome back = live.session->transfer(region->place(), host->place(), within(soon));
  ASSERT_TRUE(back.ok()) << why(back);
  EXPECT_TRUE(std::equal(content.begin(), content.end(), host->host_address()));
  std::reverse(host->host_address(), host->host_address() + bytes);
  const Outcome forth = live.session->transfer(host->place(), region->place(), within(soon));
  ASSERT_TRUE(forth.ok()) << why(forth);
  auto reversed = content;
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_TRUE(look(memory.pointer(), bytes) == reversed) << "host to GPU: other bytes";
}

class SizeTest : public DeviceTest, public ::testing::WithParamInterface<std::size_t> {};

std::string size_name(const ::testing::TestParamInfo<std::size_t>& one) {
  return std::to_string(one.param);
}

INSTANTIATE_TEST_SUITE_P(Of, SizeTest,
                         ::testing::Values(std::size_t{1}, std::size_t{4095}, std::size_t{4096},
                                           std::size_t{mib + 1}, std::size_t{256 * mib}),
                         size_name);

TEST_P(SizeTest, RoundTripsThroughGpuMemoryAreExact) {
  const std::size_t bytes = GetParam();
  const test::TemporaryDirectory directory;
  test::write_file(directory.file("in"), test::random_bytes(bytes, bytes));
  Live live;
  ASSERT_TRUE(live.session) << live.failure;
  const auto file = live.session->open_file(directory.file("in"));
  const auto region = live.session->allocate(0, bytes);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(region.ok()) << nobounce::to_string(region.error());
  const Outcome in = live.session->transfer(file->place(), region->place(), within(soon));
  ASSERT_TRUE(in.ok()) << why(in);
  const auto expected_sum = live.session->checksum(file->place());
  const auto sum = live.session->checksum(region->place());
  ASSERT_TRUE(expected_sum.ok() && sum.ok());
  EXPECT_EQ(*sum, *expected_sum);
  FileOptions options;
  options.mode = FileMode::replace;
  options.length_bytes = bytes;
  auto out = live.session->open_file(directory.file("out"), options);
  ASSERT_TRUE(out.ok());
  const Outcome written = live.session->transfer(region->place(), out->place(), within(soon));
  ASSERT_TRUE(written.ok()) << why(written);
  ASSERT_TRUE(out->commit(false).ok());
  EXPECT_TRUE(test::read_file(directory.file("out")) == test::read_file(directory.file("in")));
}

TEST_F(DeviceTest, OneSessionServesManyThreadsBesideOtherStreams) {
  constexpr int threads = 8;
  constexpr std::size_t bytes = 16 * mib + 5;
  const test::TemporaryDirectory directory;
  Live live;
  ASSERT_TRUE(live.session) << live.failure;
  std::vector<std::string> failures(threads);
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      const auto say = [&, i](const std::string& what) {
        failures[static_cast<std::size_t>(i)] = what;
      };
      const Primary primary(driver(), 0);
      void* stream = nullptr;
      (void)driver().create_stream(&stream, 1);
      const GpuBuffer other(Kind::plain, bytes);
      const std::string path = directory.file("in" + std::to_string(i));
      const auto content = test::random_bytes(bytes, static_cast<std::uint64_t>(70 + i));
      test::write_file(path, content);
      const auto file = live.session->open_file(path);
      const auto region = live.session->allocate(0, bytes);
      if (!file.ok() || !region.ok()) return say("no file or no region");
      for (int round = 0; round < 5; ++round) {
        (void)driver().fill(other.pointer(), static_cast<unsigned char>(round), bytes, stream);
        const Outcome outcome =
            live.session->transfer(file->place(), region->place(), within(soon));
        if (!outcome.ok()) return say(why(outcome));
        const auto sum = live.session->checksum(region->place());
        const auto wanted = live.session->checksum(file->place());
        if (!sum.ok() || !wanted.ok() || *sum != *wanted) return say("other bytes");
      }
      if (driver().synchronize(stream) != 0) return say("the other stream is in error");
      (void)driver().destroy_stream(stream);
    });
  }
  for (std::thread& one : running) one.join();
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
}

TEST_F(DeviceTest, ASessionLeavesTheThreadsContextAsItWas) {
  Live live;
  ASSERT_TRUE(live.session) << live.failure;
  const auto region = live.session->allocate(0, mib);
  ASSERT_TRUE(region.ok());
  ASSERT_TRUE(live.session->fill_pattern(region->place(), 1).ok());
  void* popped = nullptr;
  EXPECT_NE(driver().pop(&popped), 0) << "a context was left on the stack";
}

TEST_F(DeviceTest, PinnedMemoryIsDirectAndPageableMemoryIsSaidToBe) {
  Live live;
  ASSERT_TRUE(live.session) << live.failure;
  const auto region = live.session->allocate(0, 64 * mib);
  const auto pinned = live.session->allocate_host(64 * mib);
  ASSERT_TRUE(region.ok() && pinned.ok());
  const Outcome direct = live.session->transfer(pinned->place(), region->place(), within(soon));
  ASSERT_TRUE(direct.ok()) << why(direct);
  EXPECT_EQ(direct.receipt.bytes[Carriage::staged], 0u);
  std::vector<std::byte> plain = test::random_bytes(64 * mib, 3);
  const auto pageable = live.session->adopt_host(plain.data(), plain.size());
  ASSERT_TRUE(pageable.ok());
  const Outcome staged = live.session->transfer(pageable->place(), region->place(), within(soon));
  ASSERT_TRUE(staged.ok()) << why(staged);
  EXPECT_EQ(staged.receipt.bytes[Carriage::direct], 0u) << "pageable memory was called direct";
}

}  // namespace
}  // namespace nobounce::device
