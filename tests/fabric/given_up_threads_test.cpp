// A file that does not answer: whoever said until when gets away in time.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <span>
#include <thread>

#include "support/around_host.hpp"
#include "support/silent_driver.hpp"
#include "support/soft_session.hpp"
#include "support/temporary_directory.hpp"

namespace nobounce::test {
namespace {

constexpr std::uint64_t part = 1u << 20;

/// Reads and writes come back when the test lets them.
class SilentStorage final : public support::AroundStorage {
 public:
  using AroundStorage::AroundStorage;
  Result<std::size_t> read(system::FileHandle file, std::byte* target, std::size_t length_bytes,
                           FileOffset offset) override {
    hold();
    return AroundStorage::read(file, target, length_bytes, offset);
  }
  Result<std::size_t> write(system::FileHandle file, const std::byte* source,
                            std::size_t length_bytes, FileOffset offset) override {
    hold();
    return AroundStorage::write(file, source, length_bytes, offset);
  }
  std::atomic<bool> silent{false};
  std::atomic<int> held{0};

 private:
  void hold() {
    held += silent ? 1 : 0;
    while (silent) std::this_thread::yield();
  }
};

/// On a busy machine nobody may have begun with the file by then: with more time somebody has.
Outcome move_in_silence(SilentStorage& storage, Session& session, const Place& source,
                        const Place& target) {
  storage.silent = true;
  Outcome outcome;
  for (std::uint64_t deadline_ns = 50'000'000; storage.held == 0 && deadline_ns < 100'000'000'000;
       deadline_ns *= 4) {
    outcome = session.transfer(source, target,
                               {.policy = Policy::staged_only, .deadline_ns = deadline_ns});
  }
  EXPECT_GT(storage.held, 0) << "nobody asks the file";
  return outcome;
}

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
  const Outcome outcome = move_in_silence(storage, *session, file->place(0, part), target->place());
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

/// What whoever wrote over an old file must know, he is told now: no other outcome comes.
TEST(SilentFile, ThatIsWrittenInPlaceIsCalledThat) {
  const TemporaryDirectory directory;
  write_file(directory.file("data"), random_bytes(part, 4));
  auto soft = fabric::SoftHost::create(machine_with("workstation"), {});
  ASSERT_TRUE(soft.ok());
  HearingHost host(**soft);
  SilentStorage storage((*soft)->storage());
  host.storage_part = &storage;
  std::optional<Session> session(*Session::open(host, SoftSession::quiet()));
  std::optional<File> file(*session->open_file(directory.file("data"),
                                               {.mode = FileMode::in_place, .length_bytes = part}));
  std::optional<Region> source(*session->allocate_host(part));
  const Outcome outcome = move_in_silence(storage, *session, source->place(), file->place());
  ASSERT_FALSE(outcome.ok());
  const auto causes = std::span(outcome.receipt.causes).first(outcome.receipt.cause_count);
  EXPECT_NE(std::find(causes.begin(), causes.end(), Cause::file_written_in_place), causes.end());
  EXPECT_FALSE(file->commit(false).ok()) << "a transfer to it has not ended";
  storage.silent = false;
  source.reset();
  file.reset();
  session.reset();
}

}  // namespace
}  // namespace nobounce::test
