// What a newcomer caught a receipt at: links that were not the bus's, sources that changed, files
// that say they are empty, links that lead nowhere.
#include <gtest/gtest.h>

#include <chrono>

#include "support/around_host.hpp"
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

/// Somebody writes the file as soon as the first request for it comes.
class WrittenMeanwhile : public support::AroundCufile {
 public:
  WrittenMeanwhile(system::Cufile& inner, std::string path, std::vector<std::byte> content)
      : AroundCufile(inner), path_(std::move(path)), content_(std::move(content)) {}
  ssize_t read(system::cufile::CUfileHandle_t handle, void* base, std::size_t size,
               off_t file_offset, off_t base_offset) override {
    if (!written_) write_file(path_, content_);
    written_ = true;
    return AroundCufile::read(handle, base, size, file_offset, base_offset);
  }

 private:
  std::string path_;
  std::vector<std::byte> content_;
  bool written_ = false;
};

class ChangedDuringAProbe : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(ChangedDuringAProbe, ASourceDoesNotDiscreditThePath) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("data");
  const std::vector<std::byte> new_bytes = random_bytes(GetParam(), 2);
  write_file(path, random_bytes(100000, 1));
  std::filesystem::last_write_time(
      path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  auto soft = fabric::SoftHost::create(machine_with("workstation"), {.deterministic = true});
  ASSERT_TRUE(soft.ok());
  support::AroundHost host(**soft);
  WrittenMeanwhile cufile(*host.cufile().value(), path, new_bytes);
  host.cufile_table = &cufile;
  Result<Session> session = Session::open(host, SoftSession::quiet());
  ASSERT_TRUE(session.ok());
  Result<File> file = session->open_file(path);
  Result<Region> region = session->allocate(0, 100000);
  ASSERT_TRUE(file.ok() && region.ok());
  const Outcome changed = session->transfer(file->place(), region->place());
  EXPECT_FALSE(test::has_cause(changed.receipt, Cause::storage_p2p_lost));
  EXPECT_EQ(changed.receipt.bytes[Carriage::staged], 0U) << test::show(changed.receipt.bytes);
  if (changed.ok()) {
    EXPECT_TRUE(test::has_cause(changed.receipt, Cause::file_changed));
  } else {
    EXPECT_EQ(changed.error->cause, Cause::file_shorter_than_expected);
  }
  EXPECT_EQ(changed.ok(), new_bytes.size() == 100000);
  // The path is as good as it was: the next transfer probes it again, and believes it.
  Result<File> again = session->open_file(path);
  ASSERT_TRUE(again.ok());
  const Outcome calm = session->transfer(again->place(), region->place(0, new_bytes.size()));
  ASSERT_TRUE(calm.ok()) << to_string(*calm.error);
  EXPECT_FALSE(test::has_cause(calm.receipt, Cause::storage_p2p_lost));
  EXPECT_FALSE(test::has_cause(calm.receipt, Cause::file_changed));
  EXPECT_EQ(calm.receipt.bytes[Carriage::staged], 0U);
}

INSTANTIATE_TEST_SUITE_P(ToLengths, ChangedDuringAProbe, ::testing::Values(100000, 4096, 3),
                         [](const auto& tested) { return std::to_string(tested.param); });

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
