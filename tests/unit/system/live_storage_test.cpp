// File I/O on a temporary directory: every method, and what must not hang, leak or lie.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "support/temporary_directory.hpp"
#include "system/live_host.hpp"

namespace nobounce::system {
namespace {

class LiveStorage : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.file(name); }

  /// Opens or fails the test.
  FileHandle open(const std::string& name, const OpenOptions& options) {
    const auto file = storage_->open(path(name), options);
    EXPECT_TRUE(file) << to_string(file.error());
    return file ? *file : FileHandle{};
  }
  FileHandle create(const std::string& name, unsigned mode = 0666) {
    return open(name, {.access = FileAccess::read_write, .create = true, .mode = mode});
  }

  test::TemporaryDirectory folder_;
  std::unique_ptr<Storage> storage_ = make_live_storage();
};

TEST_F(LiveStorage, WritesAndReadsAtOffsets) {
  const FileHandle file = create("data");
  const auto bytes = test::random_bytes(10'000, 1);
  const auto put = storage_->write(file, bytes.data(), bytes.size(), FileOffset{4096});
  ASSERT_TRUE(put) << to_string(put.error());
  EXPECT_EQ(*put, bytes.size());
  std::vector<std::byte> back(bytes.size());
  const auto got = storage_->read(file, back.data(), back.size(), FileOffset{4096});
  ASSERT_TRUE(got);
  EXPECT_EQ(*got, bytes.size());
  EXPECT_EQ(back, bytes);
  const auto end = storage_->read(file, back.data(), back.size(), FileOffset{14'096});
  ASSERT_TRUE(end);
  EXPECT_EQ(*end, 0u);
  EXPECT_TRUE(storage_->close(file));
}

TEST_F(LiveStorage, NamesTheFileAndTheRangeWhenAReadFails) {
  test::write_file(path("data"), test::random_bytes(10, 1));
  const FileHandle file = open("data", {.access = FileAccess::read});
  std::byte byte{};
  const auto put = storage_->write(file, &byte, 1, FileOffset{3});
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().origin, ErrorOrigin::os);
  EXPECT_EQ(put.error().code, EBADF);
  EXPECT_EQ(put.error().attempted, "write 1 bytes at 3 of " + path("data"));
  const auto far = storage_->read(file, &byte, 1, FileOffset{~std::uint64_t{0}});
  ASSERT_FALSE(far);
  EXPECT_EQ(far.error().code, EINVAL);
  EXPECT_TRUE(storage_->close(file));
}

TEST_F(LiveStorage, OpensWithTheFlagsAskedFor) {
  const FileHandle file = create("new", 0640);
  EXPECT_NE(::fcntl(file.descriptor, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(::fcntl(file.descriptor, F_GETFL) & O_NONBLOCK, 0) << "libcufile refuses O_NONBLOCK";
  EXPECT_TRUE(storage_->close(file));
  const auto again =
      storage_->open(path("new"), {.access = FileAccess::write, .create = true, .exclusive = true});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, EEXIST);
  EXPECT_EQ(again.error().attempted, "create " + path("new") + " for writing");
  test::write_file(path("full"), test::random_bytes(10, 2));
  const FileHandle cut = open("full", {.access = FileAccess::write, .truncate = true});
  const auto status = storage_->status(cut);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->size_bytes, 0u);
  EXPECT_TRUE(storage_->close(cut));
}

TEST_F(LiveStorage, OpensWithDirectIoOrSaysThatTheFileSystemRefuses) {
  test::write_file(path("data"), test::random_bytes(8192, 3));
  const auto file = storage_->open(path("data"), {.access = FileAccess::read, .direct = true});
  if (!file) {
    EXPECT_EQ(file.error().code, EINVAL);
    EXPECT_NE(file.error().attempted.find("O_DIRECT"), std::string::npos);
    GTEST_SKIP() << "this file system refuses O_DIRECT";
  }
  EXPECT_NE(::fcntl(file->descriptor, F_GETFL) & O_DIRECT, 0);
  EXPECT_TRUE(storage_->close(*file));
}

TEST_F(LiveStorage, RefusesPathsWithANulInside) {
  test::write_file(path("data"), {});
  std::string hidden = path("data");
  hidden.push_back('\0');
  hidden += "more";
  const auto file = storage_->open(hidden, {});
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, EINVAL);
  EXPECT_FALSE(storage_->status_of(hidden));
  EXPECT_FALSE(storage_->real_path(hidden));
  EXPECT_FALSE(storage_->remove(hidden).ok());
  EXPECT_FALSE(storage_->rename(hidden, path("other")).ok());
  EXPECT_EQ(::access(path("data").c_str(), F_OK), 0);
}

TEST_F(LiveStorage, DoesNotHangOnAFifo) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  const auto writer = storage_->open(path("fifo"), {.access = FileAccess::write});
  ASSERT_FALSE(writer) << "nobody reads";
  EXPECT_EQ(writer.error().code, ENXIO);
  const FileHandle reader = open("fifo", {.access = FileAccess::read});
  const auto status = storage_->status(reader);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->type, FileType::fifo);
  std::byte byte{};
  const auto got = storage_->read(reader, &byte, 1, FileOffset{0});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ESPIPE);
  EXPECT_TRUE(storage_->close(reader));
}

TEST_F(LiveStorage, ReportsTheStatusOfFilesAndDirectories) {
  test::write_file(path("data"), test::random_bytes(5000, 4));
  ASSERT_EQ(::chmod(path("data").c_str(), 0640), 0);
  ASSERT_EQ(::link(path("data").c_str(), path("second").c_str()), 0);
  ASSERT_EQ(::symlink("data", path("link").c_str()), 0);
  struct stat expected {};
  ASSERT_EQ(::stat(path("data").c_str(), &expected), 0);
  const auto status = storage_->status_of(path("link"));
  ASSERT_TRUE(status) << to_string(status.error());
  EXPECT_EQ(status->type, FileType::regular);
  EXPECT_EQ(status->size_bytes, 5000u);
  EXPECT_EQ(status->mode, 0640u);
  EXPECT_EQ(status->owner, ::geteuid());
  EXPECT_EQ(status->link_count, 2u);
  EXPECT_EQ(status->inode, expected.st_ino);
  EXPECT_EQ(makedev(status->device_major, status->device_minor), expected.st_dev);
  EXPECT_EQ(status->modified_ns,
            expected.st_mtim.tv_sec * 1'000'000'000 + expected.st_mtim.tv_nsec);
  const FileHandle file = open("data", {});
  const auto same = storage_->status(file);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->inode, status->inode);
  EXPECT_EQ(same->direct_io_offset_alignment, status->direct_io_offset_alignment);
  EXPECT_TRUE(storage_->close(file));
  const auto directory = storage_->status_of(folder_.path().string());
  ASSERT_TRUE(directory);
  EXPECT_EQ(directory->type, FileType::directory);
  const auto device = storage_->status_of("/dev/null");
  ASSERT_TRUE(device);
  EXPECT_EQ(device->type, FileType::character_device);
  EXPECT_EQ(storage_->status_of(path("none")).error().code, ENOENT);
  EXPECT_EQ(storage_->status_of("").error().code, ENOENT);
  EXPECT_EQ(storage_->status(FileHandle{}).error().code, EBADF);
}

TEST_F(LiveStorage, ResolvesLinks) {
  test::write_file(path("data"), {});
  ASSERT_EQ(::symlink("data", path("link").c_str()), 0);
  const auto real = storage_->real_path(path("link"));
  const auto folder = storage_->real_path(folder_.path().string());
  ASSERT_TRUE(real && folder);
  EXPECT_EQ(*real, *folder + "/data");
  EXPECT_EQ(storage_->real_path(path("none")).error().code, ENOENT);
}

TEST_F(LiveStorage, ReservesSpaceWithoutChangingTheSize) {
  const FileHandle file = create("data");
  const Status reserved = storage_->allocate(file, 1 << 20);
  if (!reserved) {
    EXPECT_EQ(reserved.error().code, EOPNOTSUPP);
    GTEST_SKIP() << "this file system cannot reserve space";
  }
  const auto status = storage_->status(file);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->size_bytes, 0u);
  struct stat blocks {};
  ASSERT_EQ(::fstat(file.descriptor, &blocks), 0);
  EXPECT_GE(blocks.st_blocks * 512, 1 << 20);
  EXPECT_TRUE(storage_->allocate(file, 0));
  EXPECT_EQ(storage_->allocate(file, ~std::uint64_t{0}).error().code, EFBIG);
  EXPECT_TRUE(storage_->close(file));
}

TEST_F(LiveStorage, SetsTheSizeAndMakesDurable) {
  const FileHandle file = create("data");
  EXPECT_TRUE(storage_->truncate(file, 12'345));
  EXPECT_EQ(storage_->status(file)->size_bytes, 12'345u);
  EXPECT_TRUE(storage_->sync(file));
  EXPECT_TRUE(storage_->sync_directory(folder_.path().string()));
  EXPECT_EQ(storage_->sync_directory(path("data")).error().code, ENOTDIR);
  EXPECT_TRUE(storage_->close(file));
  EXPECT_EQ(storage_->sync(FileHandle{}).error().code, EBADF);
  EXPECT_EQ(storage_->truncate(FileHandle{}, 1).error().code, EBADF);
  EXPECT_EQ(storage_->close(FileHandle{}).error().code, EBADF);
}

TEST_F(LiveStorage, RenamesOverAndRemoves) {
  test::write_file(path("new"), test::random_bytes(3, 5));
  test::write_file(path("old"), test::random_bytes(9, 6));
  EXPECT_TRUE(storage_->rename(path("new"), path("old")));
  EXPECT_EQ(test::read_file(path("old")), test::random_bytes(3, 5));
  EXPECT_TRUE(storage_->remove(path("old")));
  EXPECT_TRUE(folder_.names().empty());
  EXPECT_EQ(storage_->remove(path("old")).error().code, ENOENT);
  const Status renamed = storage_->rename(path("a"), path("b"));
  ASSERT_FALSE(renamed);
  EXPECT_EQ(renamed.error().attempted, "rename " + path("a") + " to " + path("b"));
}

TEST_F(LiveStorage, CopiesModeOwnerAndAttributes) {
  const FileHandle source = create("source");
  const FileHandle target = create("target", 0600);
  if (::fsetxattr(source.descriptor, "user.nobounce", "kept", 4, 0) != 0) {
    GTEST_SKIP() << "this file system has no user attributes";
  }
  if (::geteuid() == 0) {
    ASSERT_EQ(::fchown(source.descriptor, 1234, 2345), 0);
  }
  ASSERT_EQ(::fchmod(source.descriptor, 04444), 0);
  const Status copied = storage_->copy_attributes(source, target);
  ASSERT_TRUE(copied) << to_string(copied.error());
  const auto status = storage_->status(target);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->mode, 04444u) << "chown after chmod would have cleared the set-id bit";
  if (::geteuid() == 0) {
    EXPECT_EQ(status->owner, 1234u);
    EXPECT_EQ(status->group, 2345u);
  }
  char value[8] = {};
  EXPECT_EQ(::fgetxattr(target.descriptor, "user.nobounce", value, sizeof value), 4);
  EXPECT_STREQ(value, "kept");
  EXPECT_TRUE(storage_->close(source));
  EXPECT_TRUE(storage_->close(target));
}

TEST_F(LiveStorage, ReportsAttributesThatCannotBeCopied) {
  const FileHandle source = create("source");
  const Status copied = storage_->copy_attributes(source, FileHandle{});
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().code, EBADF);
  EXPECT_TRUE(storage_->close(source));
}

TEST_F(LiveStorage, CountsResidentBytesWithinTheRangeAndTheFile) {
  const auto bytes = test::random_bytes(64 << 10, 7);
  const FileHandle file = create("data");
  ASSERT_TRUE(storage_->write(file, bytes.data(), bytes.size(), FileOffset{0}));
  const auto all = storage_->resident_bytes(file, FileOffset{0}, bytes.size());
  ASSERT_TRUE(all) << to_string(all.error());
  EXPECT_EQ(*all, bytes.size()) << "just written";
  const auto beyond = storage_->resident_bytes(file, FileOffset{0}, 1 << 30);
  ASSERT_TRUE(beyond);
  EXPECT_EQ(*beyond, bytes.size());
  const auto part = storage_->resident_bytes(file, FileOffset{100}, 1000);
  ASSERT_TRUE(part);
  EXPECT_EQ(*part, 1000u);
  EXPECT_EQ(*storage_->resident_bytes(file, FileOffset{1 << 20}, 1000), 0u);
  EXPECT_EQ(*storage_->resident_bytes(file, FileOffset{0}, 0), 0u);
  ASSERT_TRUE(storage_->sync(file));
  ASSERT_EQ(::posix_fadvise(file.descriptor, 0, 0, POSIX_FADV_DONTNEED), 0);
  const auto dropped = storage_->resident_bytes(file, FileOffset{0}, bytes.size());
  ASSERT_TRUE(dropped);
  EXPECT_LE(*dropped, bytes.size());
  EXPECT_EQ(storage_->resident_bytes(FileHandle{}, FileOffset{0}, 1).error().code, EBADF);
  EXPECT_TRUE(storage_->close(file));
}

TEST_F(LiveStorage, MakesMemoryFilesReadableByPath) {
  const std::string content(100'000, 'x');
  const auto made = storage_->memory_file("configuration", content);
  ASSERT_TRUE(made) << to_string(made.error());
  const auto bytes = test::read_file(made->path);
  ASSERT_EQ(bytes.size(), content.size());
  EXPECT_EQ(bytes.back(), std::byte{'x'});
  EXPECT_NE(::fcntl(made->file.descriptor, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_TRUE(storage_->close(made->file));
  EXPECT_FALSE(storage_->memory_file(std::string(1000, 'n'), ""));
}

}  // namespace
}  // namespace nobounce::system
