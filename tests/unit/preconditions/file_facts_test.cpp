// Facts about one path: its mount and drive, udev, nvidia-fs, and whether O_DIRECT works on it.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "preconditions/read_facts.hpp"
#include "support/memory_host.hpp"
#include "support/temporary_directory.hpp"
#include "system/faulty_host.hpp"

namespace nobounce::preconditions {
namespace {

using core::Fact;
using core::StorageFileFacts;

class FileFacts : public ::testing::Test {
 protected:
  FileFacts() {
    directory_ = std::filesystem::canonical(temporary_.path()).string();
    std::ofstream(directory_ + "/a.bin") << "bytes";
    Drive drive;
    drive.name = "nvme7n1";
    drive.major = 259;
    drive.minor = 0;
    machine_.drives = {drive};
    Mount data;
    data.point = directory_;
    data.drive = "nvme7n1";
    data.type = "ext4";
    machine_.mounts = {Mount{"/", "", "overlay", "rw", true}, data};
    host_.tree.text("/proc/self/mountinfo",
                    "21 1 0:21 / / rw - overlay overlay rw\n22 21 259:1 / " + directory_ +
                        " rw - ext4 /dev/x rw\n");
  }

  StorageFileFacts read(const std::string& path) {
    Result<StorageFileFacts> facts = read_file_facts(host_, machine_, path);
    EXPECT_TRUE(facts) << to_string(facts.error());
    return facts ? *facts : StorageFileFacts{};
  }

  test::TemporaryDirectory temporary_;
  std::string directory_;
  support::MemoryHost host_;
  Machine machine_;
};

void expect_fact(const Fact& fact, std::optional<bool> value) {
  EXPECT_EQ(fact.value, value) << fact.observed;
  EXPECT_FALSE(fact.observed.empty());
  EXPECT_FALSE(fact.source.empty());
}

TEST_F(FileFacts, OfAFileNameItsMountAndDrive) {
  const StorageFileFacts facts = read(directory_ + "/a.bin");
  EXPECT_EQ(facts.path, directory_ + "/a.bin");
  ASSERT_TRUE(facts.mount.has_value());
  EXPECT_EQ(facts.mount->point, directory_);
  EXPECT_EQ(facts.drive, 0u);
  EXPECT_EQ(facts.block_driver, "nvme");
  EXPECT_EQ(facts.mount_source, "/proc/self/mountinfo");
  expect_fact(facts.regular_file, true);
}

TEST_F(FileFacts, FollowSymbolicLinks) {
  std::filesystem::create_symlink(directory_ + "/a.bin", directory_ + "/link");
  EXPECT_EQ(read(directory_ + "/link").path, directory_ + "/a.bin");
}

TEST_F(FileFacts, OfAFileThatDoesNotExistYetAreItsDirectorys) {
  std::filesystem::create_directory(directory_ + "/real");
  std::filesystem::create_symlink(directory_ + "/real", directory_ + "/there");
  const StorageFileFacts facts = read(directory_ + "/there/new.bin");
  EXPECT_EQ(facts.path, directory_ + "/real/new.bin");
  EXPECT_EQ(facts.drive, 0u);
  expect_fact(facts.regular_file, true);
  expect_fact(facts.direct_io, true);
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/real/new.bin"));
  machine_.mounts[1].type = "tmpfs";
  expect_fact(read(directory_ + "/there/new.bin").direct_io, std::nullopt);
}

TEST_F(FileFacts, OfAFileInTheRootDirectory) {
  const StorageFileFacts facts = read("/no-such-file-of-nobounce");
  EXPECT_EQ(facts.path, "/no-such-file-of-nobounce");
  EXPECT_EQ(facts.mount->point, "/");
  EXPECT_EQ(facts.drive, std::nullopt);
  EXPECT_EQ(facts.block_driver, "");
}

TEST_F(FileFacts, WithoutADirectoryAreAnError) {
  const Result<StorageFileFacts> facts =
      read_file_facts(host_, machine_, directory_ + "/none/new.bin");
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().origin, ErrorOrigin::os);
  EXPECT_EQ(facts.error().code, ENOENT);
}

TEST_F(FileFacts, OfAMountThatIsOnlyDescribedComeFromTheDescription) {
  machine_.mounts.push_back({"/nobounce-data7", "nvme7n1", "xfs", "rw", true});
  const StorageFileFacts facts = read("/nobounce-data7/new.bin");
  EXPECT_EQ(facts.path, "/nobounce-data7/new.bin");
  ASSERT_TRUE(facts.mount.has_value());
  EXPECT_EQ(facts.mount->type, "xfs");
  expect_fact(facts.direct_io, true);
}

TEST_F(FileFacts, BelowAFileAreAnError) {
  const Result<StorageFileFacts> facts = read_file_facts(host_, machine_, directory_ + "/a.bin/x");
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().code, ENOTDIR);
}

TEST_F(FileFacts, TellWhatIsNotARegularFile) {
  ASSERT_EQ(mkfifo((directory_ + "/fifo").c_str(), 0600), 0);
  for (const std::string& path : {directory_, directory_ + "/fifo", std::string("/dev/null")}) {
    const StorageFileFacts facts = read(path);
    expect_fact(facts.regular_file, false);
    expect_fact(facts.direct_io, std::nullopt);
  }
}

TEST_F(FileFacts, TellAMissingMountTable) {
  machine_.mounts = {Mount{"/", "", "unknown", "", true}};  // as topology leaves it
  host_.tree.remove("/proc/self/mountinfo");
  const StorageFileFacts facts = read(directory_ + "/a.bin");
  EXPECT_FALSE(facts.mount.has_value());
  expect_fact(facts.udev_record, std::nullopt);
}

// --- O_DIRECT ------------------------------------------------------------------------------------

/// The error number with which an open fails, or 0.
class DirectOpen : public FileFacts, public ::testing::WithParamInterface<int> {};

TEST_P(DirectOpen, IsRefusedOnlyWhereTheFileSystemSaysSo) {
  const int code = GetParam();
  const auto faulty = system::FaultyHost::wrap(
      host_, {.fail_call = 1, .only = "storage.open", .errno_value = code});
  const Result<StorageFileFacts> facts = read_file_facts(*faulty, machine_, directory_ + "/a.bin");
  ASSERT_TRUE(facts);
  EXPECT_EQ(faulty->failed_call(), "storage.open");
  const bool refused = code == EINVAL || code == EOPNOTSUPP;
  expect_fact(facts->direct_io, refused ? std::optional<bool>(false) : std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Errors, DirectOpen,
                         ::testing::Values(EINVAL, EOPNOTSUPP, EACCES, EMFILE, EIO));

// --- udev and nvidia-fs --------------------------------------------------------------------------

TEST_F(FileFacts, LookForTheUdevRecordOfThePartition) {
  expect_fact(read(directory_ + "/a.bin").udev_record, false);
  host_.tree.text("/run/udev/data/b259:0", "E:ID_FS_TYPE=ext4\n");
  expect_fact(read(directory_ + "/a.bin").udev_record, false);
  host_.tree.text("/run/udev/data/b259:1", "E:ID_FS_TYPE=ext4\n");
  const StorageFileFacts facts = read(directory_ + "/a.bin");
  expect_fact(facts.udev_record, true);
  EXPECT_EQ(facts.udev_record.source, "/run/udev/data/b259:1");
}

TEST_F(FileFacts, LookForTheDrivesRecordWhereTheMountHasANumberOfItsOwn) {
  host_.tree.text("/proc/self/mountinfo", "22 21 0:44 / " + directory_ + " rw - btrfs /dev/x rw\n");
  EXPECT_EQ(read(directory_ + "/a.bin").udev_record.source, "/run/udev/data/b259:0");
}

TEST_F(FileFacts, KnowWhetherTheDriverRegistered) {
  const std::string path = "/proc/driver/nvidia-fs/modules";
  expect_fact(read(directory_ + "/a.bin").driver_registered, std::nullopt);
  host_.tree.text(path, "lustre\nnvme_rdma\n");
  expect_fact(read(directory_ + "/a.bin").driver_registered, false);
  host_.tree.text(path, "lustre\nnvme : 1.0\n");
  expect_fact(read(directory_ + "/a.bin").driver_registered, true);
  host_.tree.text(path, "rpcrdma\n");
  machine_.drives[0].driver = "nfs";
  expect_fact(read(directory_ + "/a.bin").driver_registered, true);
}

}  // namespace
}  // namespace nobounce::preconditions
