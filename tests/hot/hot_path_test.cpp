// Repeated transfers allocate nothing, on no thread of a session.
#include <gtest/gtest.h>

#include <cstdint>

#include <nobounce/software_machine.hpp>

#include "fabric/soft_host.hpp"
#include "support/counted_allocations.hpp"
#include "support/quick_cuda.hpp"
#include "support/soft_session.hpp"
#include "system/live_host.hpp"

namespace nobounce {
namespace {

constexpr int warm_ups = 64;
constexpr int repeats = 100;

/// Allocations of `repeats` transfers, made when all has been seen that is allocated once.
std::uint64_t allocations_of(Session& session, const Place& source, const Place& target,
                             const TransferOptions& options) {
  bool good = true;
  for (int i = 0; i < warm_ups && good; ++i) {
    good = session.transfer(source, target, options).ok();
  }
  EXPECT_TRUE(good);
  const std::uint64_t before = test::allocations();
  for (int i = 0; i < repeats && good; ++i) {
    good = session.transfer(source, target, options).ok();
  }
  const std::uint64_t after = test::allocations();
  EXPECT_TRUE(good);
  EXPECT_GT(before, 0u) << "the count works";
  return after - before;
}

/// A software machine below a driver that does nothing: the model's own allocations are not ours.
class HotPath : public ::testing::Test {
 protected:
  HotPath() {
    auto made = fabric::SoftHost::create(test::machine_with("workstation"), {});
    if (!made.ok()) throw std::runtime_error(to_string(made.error()));
    soft_ = std::move(*made);
    cuda_.emplace(**soft_->cuda());
    around_.emplace(*soft_);
    around_->cuda_table = &*cuda_;
    Result<Session> opened = Session::open(*around_, test::SoftSession::quiet());
    if (!opened.ok()) throw std::runtime_error(to_string(opened.error()));
    session_.emplace(std::move(*opened));
  }
  std::uint64_t quick_allocations(const Place& source, const Place& target) {
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(session_->transfer(source, target).ok());
    cuda_->quick = true;
    const std::uint64_t counted =
        allocations_of(*session_, source, target, {.policy = Policy::direct_required});
    EXPECT_GE(cuda_->copies, static_cast<std::uint64_t>(repeats));
    cuda_->quick = false;
    return counted;
  }

  std::unique_ptr<fabric::SoftHost> soft_;
  std::optional<support::QuickCuda> cuda_;
  std::optional<support::AroundHost> around_;
  std::optional<Session> session_;
};

TEST_F(HotPath, BetweenGpusAllocatesNothing) {
  const Region source = *session_->allocate(0, 4096);
  const Region target = *session_->allocate(1, 4096);
  EXPECT_EQ(quick_allocations(source.place(), target.place()), 0u);
}

TEST_F(HotPath, OfManyPiecesAllocatesNothing) {
  const Region source = *session_->allocate(0, 3u << 29);
  const Region target = *session_->allocate(1, 3u << 29);
  const Place from = source.place();
  const Place to = target.place();
  // The first ones are real and short; afterwards nothing is moved any more.
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(session_->transfer(source.place(0, 4096), target.place(0, 4096)).ok());
  }
  cuda_->quick = true;
  // With a deadline it is cut, so that it can be stopped.
  const TransferOptions options{.policy = Policy::direct_required, .deadline_ns = 60'000'000'000};
  EXPECT_EQ(allocations_of(*session_, from, to, options), 0u);
  EXPECT_GE(cuda_->copies, static_cast<std::uint64_t>(6 * repeats));
  cuda_->quick = false;
}

TEST_F(HotPath, FromPinnedHostMemoryAllocatesNothing) {
  const Region source = *session_->allocate_host(4096);
  const Region target = *session_->allocate(1, 4096);
  EXPECT_EQ(quick_allocations(source.place(), target.place()), 0u);
}

TEST_F(HotPath, InsideAGpuAllocatesNothing) {
  const Region source = *session_->allocate(0, 4096);
  const Region target = *session_->allocate(0, 4096);
  EXPECT_EQ(quick_allocations(source.place(), target.place()), 0u);
}

/// Through bounce memory, by readers on threads of their own, on this very machine.
TEST(HotStaging, OfAFileAllocatesNothing) {
  const test::TemporaryDirectory directory;
  test::write_file(directory.file("data"), test::random_bytes(65536, 1));
  const auto host = system::make_live_host();
  SessionOptions options;
  options.warn_on_close = false;
  options.publish_ledger = false;
  options.readers = 1;
  Result<Session> session = Session::open(*host, options);
  ASSERT_TRUE(session.ok());
  const Result<File> file = session->open_file(directory.file("data"));
  const Result<Region> region = session->allocate_host(65536);
  ASSERT_TRUE(file.ok() && region.ok());
  for (const std::uint64_t bytes : {4096u, 65536u}) {
    EXPECT_EQ(allocations_of(*session, file->place(0, bytes), region->place(0, bytes),
                             {.policy = Policy::direct_preferred}),
              0u)
        << bytes;
  }
}

}  // namespace
}  // namespace nobounce
