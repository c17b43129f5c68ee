// A file that is written appears whole or not at all, and keeps what the old one had.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "support/soft_session.hpp"
#include "system/faulty_host.hpp"

namespace nobounce {
namespace {

using test::machine_with;
using test::random_bytes;
using test::read_file;
using test::SoftSession;
using test::TemporaryDirectory;
using test::write_file;

class WrittenFiles : public ::testing::Test {
 protected:
  [[nodiscard]] Region filled_region(const std::vector<std::byte>& bytes) {
    Result<Region> region = soft_->allocate(0, bytes.size());
    EXPECT_TRUE(region.ok());
    soft_.plant(region->place(), bytes);
    return std::move(*region);
  }
  /// Writes and commits; returns whether it was written in place.
  bool copy_out(const Region& region, const std::string& path, FileMode mode = FileMode::replace) {
    Result<File> file =
        soft_->open_file(path, {.mode = mode, .length_bytes = region.length_bytes()});
    EXPECT_TRUE(file.ok()) << to_string(file.error());
    const Outcome outcome = soft_->transfer(region.place(), file->place());
    EXPECT_TRUE(outcome.ok()) << to_string(*outcome.error);
    EXPECT_EQ(test::has_cause(outcome.receipt, Cause::file_written_in_place),
              file->written_in_place());
    EXPECT_FALSE(outcome.receipt.durable);
    const Status committed = file->commit(true);
    EXPECT_TRUE(committed.ok()) << to_string(committed.error());
    return file->written_in_place();
  }

  TemporaryDirectory directory_;
  SoftSession soft_{machine_with("workstation")};
  std::vector<std::byte> bytes_ = random_bytes(70001, 1);
};

TEST_F(WrittenFiles, WithoutCommitLeaveTheOldFileWholeAndNoTrace) {
  const std::vector<std::byte> old = random_bytes(999, 2);
  write_file(directory_.file("target"), old);
  const Region region = filled_region(bytes_);
  {
    Result<File> file = soft_->open_file(
        directory_.file("target"), {.mode = FileMode::replace, .length_bytes = bytes_.size()});
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(soft_->transfer(region.place(), file->place()).ok());
    EXPECT_EQ(read_file(directory_.file("target")), old);
  }
  EXPECT_EQ(read_file(directory_.file("target")), old);
  EXPECT_EQ(directory_.names(), std::vector<std::string>{"target"});
}

TEST_F(WrittenFiles, LeaveNothingWhereTheyCannotBeOpened) {
  for (const FileMode mode : {FileMode::replace, FileMode::in_place}) {
    const auto full = system::FaultyHost::wrap(
        soft_.host(), {.fail_call = 1, .only = "storage.allocate", .errno_value = ENOSPC});
    Result<Session> session = Session::open(*full, SoftSession::quiet());
    ASSERT_TRUE(session.ok());
    const FileOptions options{.mode = mode, .length_bytes = 5000};
    const Result<File> file = session->open_file(directory_.file("new"), options);
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.error().code, ENOSPC);
    EXPECT_FALSE(remedy_of(file.error()).empty());
    EXPECT_TRUE(directory_.names().empty());
    write_file(directory_.file("old"), random_bytes(10, 3));
    const auto again = system::FaultyHost::wrap(
        soft_.host(), {.fail_call = 1, .only = "storage.allocate", .errno_value = ENOSPC});
    Result<Session> other = Session::open(*again, SoftSession::quiet());
    ASSERT_TRUE(other.ok());
    EXPECT_FALSE(other->open_file(directory_.file("old"), options).ok());
    EXPECT_EQ(directory_.names(), std::vector<std::string>{"old"});
    EXPECT_EQ(read_file(directory_.file("old")), random_bytes(10, 3));
    ::unlink(directory_.file("old").c_str());
  }
}

TEST_F(WrittenFiles, SayWhereNoneCanBe) {
  const FileOptions options{.mode = FileMode::replace, .length_bytes = 10};
  const Result<File> missing = soft_->open_file(directory_.file("no/new"), options);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().detail, "there is no directory " + directory_.file("no"));
  EXPECT_EQ(missing.error().remedy, "mkdir -p " + directory_.file("no"));
  const Result<File> kernel = soft_->open_file("/proc/nobounce", options);
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.error().remedy.find("mkdir"), std::string::npos) << kernel.error().remedy;
  EXPECT_FALSE(remedy_of(kernel.error()).empty());
  const Result<File> absent = soft_->open_file(directory_.file("absent"));
  ASSERT_FALSE(absent.ok());
  EXPECT_FALSE(remedy_of(absent.error()).empty());
}

TEST_F(WrittenFiles, KeepModeAndExtendedAttributesOfTheOldFile) {
  const std::string path = directory_.file("target");
  write_file(path, random_bytes(10, 3));
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  const bool attributes = ::setxattr(path.c_str(), "user.nobounce", "kept", 4, 0) == 0;
  const Region region = filled_region(bytes_);
  EXPECT_FALSE(copy_out(region, path));
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777u, 0640u);
  EXPECT_EQ(read_file(path), bytes_);
  if (attributes) {
    char value[8] = {};
    EXPECT_EQ(::getxattr(path.c_str(), "user.nobounce", value, sizeof value), 4);
  }
}

TEST_F(WrittenFiles, BehindASymbolicLinkReplaceItsTargetAndKeepTheLink) {
  write_file(directory_.file("real"), random_bytes(10, 3));
  std::filesystem::create_symlink("real", directory_.file("link"));
  const Region region = filled_region(bytes_);
  EXPECT_FALSE(copy_out(region, directory_.file("link")));
  EXPECT_TRUE(std::filesystem::is_symlink(directory_.file("link")));
  EXPECT_EQ(read_file(directory_.file("real")), bytes_);
}

TEST_F(WrittenFiles, WithSeveralLinksAreWrittenInPlaceAndTheReceiptSaysSo) {
  write_file(directory_.file("target"), random_bytes(100000, 3));
  std::filesystem::create_hard_link(directory_.file("target"), directory_.file("other"));
  const Region region = filled_region(bytes_);
  EXPECT_TRUE(copy_out(region, directory_.file("target")));
  EXPECT_EQ(read_file(directory_.file("target")), bytes_);
  EXPECT_EQ(read_file(directory_.file("other")), bytes_);
}

TEST_F(WrittenFiles, InPlaceOnRequestKeepTheRestOfALongerFile) {
  std::vector<std::byte> old = random_bytes(100000, 3);
  write_file(directory_.file("target"), old);
  const Region region = filled_region(bytes_);
  EXPECT_TRUE(copy_out(region, directory_.file("target"), FileMode::in_place));
  std::copy(bytes_.begin(), bytes_.end(), old.begin());
  EXPECT_EQ(read_file(directory_.file("target")), old);
}

TEST_F(WrittenFiles, AFailingDriveLeavesTheOldFileWhole) {
  const std::vector<std::byte> old = random_bytes(999, 2);
  write_file(directory_.file("target"), old);
  const Region region = filled_region(bytes_);
  soft_.host().faults().write_error = 1;
  {
    Result<File> file = soft_->open_file(
        directory_.file("target"), {.mode = FileMode::replace, .length_bytes = bytes_.size()});
    ASSERT_TRUE(file.ok()) << to_string(file.error());
    const Outcome outcome = soft_->transfer(region.place(), file->place());
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error->origin, ErrorOrigin::os);
    EXPECT_LT(outcome.receipt.bytes.total(), bytes_.size());
  }
  EXPECT_EQ(read_file(directory_.file("target")), old);
  EXPECT_EQ(directory_.names(), std::vector<std::string>{"target"});
}

TEST_F(WrittenFiles, InAMissingDirectoryAreAnErrorThatNamesThePath) {
  Result<File> file = soft_->open_file(directory_.file("missing/target"),
                                       {.mode = FileMode::replace, .length_bytes = 1});
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().origin, ErrorOrigin::os);
  EXPECT_NE(to_string(file.error()).find("missing"), std::string::npos);
}

TEST_F(WrittenFiles, DirectoriesAndFifosAreRefusedByName) {
  ASSERT_EQ(::mkfifo(directory_.file("fifo").c_str(), 0600), 0);
  for (const std::string& path : {directory_.path().string(), directory_.file("fifo")}) {
    for (const FileMode mode : {FileMode::read, FileMode::replace, FileMode::in_place}) {
      Result<File> file = soft_->open_file(path, {.mode = mode, .length_bytes = 1});
      ASSERT_FALSE(file.ok()) << path;
      EXPECT_NE(to_string(file.error()).find(path), std::string::npos) << to_string(file.error());
    }
  }
}

TEST_F(WrittenFiles, ErrorsNameTheFileAsTheCallerDid) {
  const auto names_it = [](const Error& error, const std::string& path) {
    const std::string text = to_string(error);
    return text.find(path) != std::string::npos && text.find(".nobounce-") == std::string::npos;
  };
  const std::string lost = directory_.file("no-such-directory/target");
  for (const FileMode mode : {FileMode::replace, FileMode::in_place}) {
    const Result<File> file = soft_->open_file(lost, {.mode = mode, .length_bytes = 1});
    ASSERT_FALSE(file.ok());
    EXPECT_TRUE(names_it(file.error(), lost)) << to_string(file.error());
    EXPECT_NE(file.error().detail.find("no directory"), std::string::npos);
    EXPECT_NE(file.error().remedy.find("mkdir"), std::string::npos);
  }
  const std::string path = directory_.file("target");
  const Region region = filled_region(bytes_);
  Result<File> file =
      soft_->open_file(path, {.mode = FileMode::replace, .length_bytes = bytes_.size()});
  ASSERT_TRUE(file.ok());
  soft_.host().faults().write_error = 1;
  const Outcome outcome =
      soft_->transfer(region.place(), file->place(), {.policy = Policy::staged_only});
  soft_.host().faults().write_error = 0;
  ASSERT_FALSE(outcome.ok());
  EXPECT_TRUE(names_it(*outcome.error, path)) << to_string(*outcome.error);
}

TEST_F(WrittenFiles, ALongNameStillFindsATemporaryOne) {
  const std::string path = directory_.file(std::string(255, 'n'));
  const Region region = filled_region(bytes_);
  EXPECT_FALSE(copy_out(region, path));
  EXPECT_EQ(read_file(path), bytes_);
}

TEST(SessionLifetime, ARegionDestroyedUnderATransferAborts) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        SoftSession soft(machine_with("workstation"), {.deterministic = true});
        Result<Region> source = soft->allocate(0, 64u << 20);
        std::optional<Region> target(*soft->allocate(1, 64u << 20));
        Result<Transfer> transfer = soft->start(source->place(), target->place());
        target.reset();
      },
      "Region was destroyed while a transfer used it");
}

}  // namespace
}  // namespace nobounce
