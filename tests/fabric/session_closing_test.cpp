// The line that a session says at its end about transfers that staged, and the ledger it rests on.
#include <gtest/gtest.h>

#include "support/silent_driver.hpp"
#include "support/soft_session.hpp"

namespace nobounce {
namespace {

using test::machine_with;
using test::random_bytes;
using test::SoftSession;
using test::TemporaryDirectory;
using test::write_file;

/// Three stage unasked, one was asked to, one fails. What the last two have to say is no cause of
/// the three.
TEST(ClosingLine, CountsAllTransfersAndNamesTheCauseOfThoseThatStaged) {
  const TemporaryDirectory directory;
  write_file(directory.file("data"), random_bytes(100'000, 1));
  auto soft = fabric::SoftHost::create(machine_with("workstation", {"/modules/nvidia_fs=false"}),
                                       {.deterministic = true});
  ASSERT_TRUE(soft.ok());
  test::HearingHost host(**soft);
  {
    SessionOptions options = SoftSession::quiet();
    options.warn_on_close = true;
    Result<Session> session = Session::open(host, options);
    ASSERT_TRUE(session.ok());
    Result<File> file = session->open_file(directory.file("data"));
    Result<Region> region = session->allocate(0, 100'000);
    ASSERT_TRUE(file.ok() && region.ok());
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(session->transfer(file->place(), region->place()).ok());
    const TransferOptions staged{.policy = Policy::staged_only};
    EXPECT_TRUE(session->transfer(file->place(), region->place(), staged).ok());
    EXPECT_FALSE(session->transfer(file->place(0, 1), region->place(0, 2)).ok());
    const LedgerSnapshot ledger = session->ledger();
    EXPECT_EQ(ledger.staged_under_preferred, 3u);
    EXPECT_EQ(ledger.staged_cause, Cause::storage_nvidia_fs_absent);
    EXPECT_EQ(ledger.transfers_failed, 1u);
  }
  ASSERT_EQ(host.heard.lines.size(), 1u);
  EXPECT_EQ(host.heard.lines[0].find(
                "nobounce: 3 of 5 transfers went through host memory (400000 bytes staged); the "
                "last because of storage.nvidia_fs_absent; the receipts say why"),
            0u)
      << host.heard.lines[0];
}

}  // namespace
}  // namespace nobounce
