// The hot calls of the seam allocate nothing when they succeed.
#include <gtest/gtest.h>

#include <array>

#include "support/counted_allocations.hpp"
#include "support/temporary_directory.hpp"
#include "system/faulty_host.hpp"
#include "system/live_host.hpp"

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
  const std::uint64_t before = test::allocations_of_this_thread();
  for (Storage* storage : {&host->storage(), &faulty->storage()}) {
    good = good && storage->read(*file, bytes.data(), bytes.size(), FileOffset{512});
    good = good && storage->write(*file, bytes.data(), bytes.size(), FileOffset{0});
    good = good && storage->status(*file);
  }
  host->workers().wake(*id);
  host->workers().notify();
  good = good && host->workers().wait([&] { return ++looks > 250; }, 0);
  good = good && !host->workers().wait([] { return false; }, host->clock().now_ns() + 100'000);
  const std::uint64_t after = test::allocations_of_this_thread();
  EXPECT_TRUE(good);
  EXPECT_EQ(after - before, 0u);
  EXPECT_GT(before, 0u) << "the count works";
  host->workers().stop(*id);
  EXPECT_TRUE(host->storage().close(*file));
}

}  // namespace
}  // namespace nobounce::system
