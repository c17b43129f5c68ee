// What a newcomer caught a receipt at: links that were not the bus's, sources that changed, files
// that say they are empty, links that lead nowhere.
#include <gtest/gtest.h>

#include "support/soft_session.hpp"

namespace nobounce {
namespace {

using test::machine_with;
using test::random_bytes;
using test::SoftSession;
using test::TemporaryDirectory;
using test::write_file;

TEST(ReceiptLink, NamesTheSocketsThatStagedBytesCross) {
  const TemporaryDirectory directory;
  write_file(directory.file("data"), random_bytes(100000, 1));
  SoftSession soft(machine_with("two-socket"));
  Result<File> file = soft->open_file(directory.file("data"));
  Result<Region> near = soft->allocate(0, 100000);
  Result<Region> far = soft->allocate(1, 100000);
  Result<Region> host = soft->allocate_host(100000, 0);
  ASSERT_TRUE(file.ok() && near.ok() && far.ok() && host.ok());
  const auto link_of = [&](const Place& source, const Place& target, Policy policy) {
    const Outcome outcome = soft->transfer(source, target, {.policy = policy});
    EXPECT_TRUE(outcome.ok()) << to_string(*outcome.error);
    return outcome.receipt.link;
  };
  EXPECT_EQ(link_of(file->place(), far->place(), Policy::direct_preferred), Link::inter_socket);
  EXPECT_EQ(link_of(near->place(), far->place(), Policy::staged_only), Link::inter_socket);
  EXPECT_EQ(link_of(host->place(), far->place(), Policy::direct_preferred), Link::inter_socket);
  EXPECT_EQ(link_of(host->place(), near->place(), Policy::direct_preferred), Link::host_bridge);
}

TEST(ReceiptLink, IsNoneInsideHostMemory) {
  SoftSession soft(machine_with("workstation"));
  Result<Region> source = soft->allocate_host(5000);
  Result<Region> target = soft->allocate_host(5000);
  ASSERT_TRUE(source.ok() && target.ok());
  const Outcome outcome = soft->transfer(source->place(), target->place());
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_EQ(outcome.receipt.link, Link::none);
}

TEST(ChangedSource, IsNamedInTheReceipt) {
  const TemporaryDirectory directory;
  write_file(directory.file("data"), random_bytes(100000, 1));
  SoftSession soft(machine_with("workstation"));
  Result<File> file = soft->open_file(directory.file("data"));
  Result<Region> region = soft->allocate(0, 100000);
  ASSERT_TRUE(file.ok() && region.ok());
  EXPECT_FALSE(
      test::has_cause(soft->transfer(file->place(), region->place()).receipt, Cause::file_changed));
  write_file(directory.file("data"), random_bytes(100001, 2));
  const Outcome outcome = soft->transfer(file->place(), region->place());
  EXPECT_TRUE(test::has_cause(outcome.receipt, Cause::file_changed));
}

TEST(SourceWithoutSize, IsRefusedWhereItHasContent) {
  const TemporaryDirectory directory;
  write_file(directory.file("empty"), {});
  SoftSession soft(machine_with("workstation"));
  EXPECT_TRUE(soft->open_file(directory.file("empty")).ok());
  Result<File> file = soft->open_file("/proc/self/status");
  ASSERT_FALSE(file.ok());
  EXPECT_NE(to_string(file.error()).find("/proc/self/status"), std::string::npos);
}

TEST(DanglingLink, IsNotReplacedByAFile) {
  const TemporaryDirectory directory;
  std::filesystem::create_symlink("nowhere", directory.file("link"));
  SoftSession soft(machine_with("workstation"));
  Result<File> file =
      soft->open_file(directory.file("link"), {.mode = FileMode::replace, .length_bytes = 1});
  ASSERT_FALSE(file.ok());
  EXPECT_TRUE(std::filesystem::is_symlink(directory.file("link")));
}

TEST(Ledger, ShowsBytesAsTheyArriveAndRefusals) {
  SoftSession soft(machine_with("workstation", {"/gpus/0/peer_status=gns"}));
  Result<Region> source = soft->allocate(0, 70000);
  Result<Region> target = soft->allocate(1, 70000);
  ASSERT_TRUE(source.ok() && target.ok());
  EXPECT_TRUE(soft->transfer(source->place(), target->place()).ok());
  EXPECT_FALSE(
      soft->transfer(source->place(), target->place(), {.policy = Policy::direct_required}).ok());
  const LedgerSnapshot ledger = soft->ledger();
  EXPECT_EQ(ledger.bytes[Carriage::staged], 70000u);
  EXPECT_EQ(ledger.transfers_done, 1u);
  EXPECT_EQ(ledger.transfers_refused, 1u);
  EXPECT_EQ(ledger.transfers_running, 0u);
  EXPECT_EQ(ledger.staged_under_preferred, 1u);
}

}  // namespace
}  // namespace nobounce
