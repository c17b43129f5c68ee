// The hot calls of the seam allocate nothing when they succeed.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <new>

#include "support/temporary_directory.hpp"
#include "system/faulty_host.hpp"
#include "system/live_host.hpp"

namespace {

thread_local std::uint64_t allocations = 0;

}  // namespace

void* operator new(std::size_t length_bytes) {
  ++allocations;
  void* const memory = std::malloc(length_bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
// All forms that anybody here may use, so that none falls back on the library's own.
void* operator new(std::size_t length_bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(length_bytes);
}
void* operator new[](std::size_t length_bytes) {
  return operator new(length_bytes);
}
void* operator new[](std::size_t length_bytes, const std::nothrow_t& nothrow) noexcept {
  return operator new(length_bytes, nothrow);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace nobounce::system {
namespace {

class IdleWorker : public Worker {
 public:
  Step step() override { return Step::idle(); }
};

TEST(HotCalls, AllocateNothingWhenTheySucceed) {
  const test::TemporaryDirectory folder;
  test::write_file(folder.file("data"), test::random_bytes(4096, 1));
  const auto host = make_live_host();
  const auto faulty = FaultyHost::wrap(*host, {});
  const auto file = host->storage().open(folder.file("data"), {.access = FileAccess::read_write});
  ASSERT_TRUE(file);
  IdleWorker worker;
  const auto id = host->workers().start(worker, "idle");
  ASSERT_TRUE(id);
  std::array<std::byte, 512> bytes{};
  bool good = true;
  int looks = 0;
  const std::uint64_t before = allocations;
  for (Storage* storage : {&host->storage(), &faulty->storage()}) {
    good = good && storage->read(*file, bytes.data(), bytes.size(), FileOffset{512});
    good = good && storage->write(*file, bytes.data(), bytes.size(), FileOffset{0});
    good = good && storage->status(*file);
  }
  host->workers().wake(*id);
  host->workers().notify();
  good = good && host->workers().wait([&] { return ++looks > 250; }, 0);
  good = good && !host->workers().wait([] { return false; }, host->clock().now_ns() + 100'000);
  const std::uint64_t after = allocations;
  EXPECT_TRUE(good);
  EXPECT_EQ(after - before, 0u);
  EXPECT_GT(before, 0u) << "the count works";
  host->workers().stop(*id);
  EXPECT_TRUE(host->storage().close(*file));
}

}  // namespace
}  // namespace nobounce::system
