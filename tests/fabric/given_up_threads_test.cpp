// A file that does not answer: whoever said until when gets away in time.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "support/around_host.hpp"
#include "support/silent_driver.hpp"
#include "support/soft_session.hpp"
#include "support/temporary_directory.hpp"

namespace nobounce::test {
namespace {

constexpr std::uint64_t part = 1u << 20;

/// Reads come back when the test lets them.
class SilentStorage final : public support::AroundStorage {
 public:
  using AroundStorage::AroundStorage;
  Result<std::size_t> read(system::FileHandle file, std::byte* target, std::size_t length_bytes,
                           FileOffset offset) override {
    held += silent ? 1 : 0;
    while (silent) std::this_thread::yield();
    return AroundStorage::read(file, target, length_bytes, offset);
  }
  std::atomic<bool> silent{false};
  std::atomic<int> held{0};
};

TEST(SilentFile, DoesNotHoldUpABlockingTransferBeyondItsDeadline) {
  const TemporaryDirectory directory;
  write_file(directory.file("data"), random_bytes(part, 3));
  auto soft = fabric::SoftHost::create(machine_with("workstation"), {});
  ASSERT_TRUE(soft.ok());
  HearingHost host(**soft);
  SilentStorage storage((*soft)->storage());
  host.storage_part = &storage;
  std::optional<Session> session(*Session::open(host, SoftSession::quiet()));
  std::optional<File> file(*session->open_file(directory.file("data")));
  std::optional<Region> target(*session->allocate_host(part));
  storage.silent = true;
  // On a busy machine nobody may have begun to read by then: with more time somebody has.
  Outcome outcome;
  for (std::uint64_t deadline_ns = 50'000'000; storage.held == 0; deadline_ns *= 4) {
    outcome = session->transfer(file->place(0, part), target->place(),
                                {.policy = Policy::staged_only, .deadline_ns = deadline_ns});
    ASSERT_LT(deadline_ns, 100'000'000'000u) << "the file is never read";
  }
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.receipt.state, TransferState::cancelled);
  EXPECT_EQ(outcome.error->cause, Cause::session_deadline_passed);
  EXPECT_NE(outcome.error->detail.find("may still arrive"), std::string::npos)
      << outcome.error->detail;
  EXPECT_EQ(outcome.receipt.bytes.total(), 0u);
  EXPECT_GT(outcome.receipt.elapsed_ns, 50'000'000u);
  // Its places stay, and the session ends in order once the file has answered.
  target.reset();
  file.reset();
  storage.silent = false;
  session.reset();
  std::size_t said = 0;
  for (const std::string& line : host.heard.lines) {
    if (line.find("does not end, and its bytes may still arrive") != std::string::npos) ++said;
    EXPECT_EQ(line.find("until the process ends"), std::string::npos) << line;
  }
  EXPECT_EQ(said, 1u);
}

}  // namespace
}  // namespace nobounce::test
