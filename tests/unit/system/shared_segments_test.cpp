// Shared segments: private, exclusive, listed by prefix, and never taken from another user.
#include "system/shared_segments.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "support/temporary_directory.hpp"
#include "system/live_host.hpp"

namespace nobounce::system {
namespace {

class Segments : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_.file("nobounce." + name); }
  test::TemporaryDirectory folder_;
  SharedSegments segments_{folder_.path().string()};
};

TEST_F(Segments, AreSharedBetweenCreatorAndOpener) {
  const auto created = segments_.create("one", 8192);
  ASSERT_TRUE(created) << to_string(created.error());
  EXPECT_EQ(created->name, "one");
  ASSERT_EQ(created->bytes.size(), 8192u);
  const auto opened = segments_.open("one");
  ASSERT_TRUE(opened) << to_string(opened.error());
  ASSERT_EQ(opened->bytes.size(), 8192u);
  created->bytes[8191] = std::byte{42};
  EXPECT_EQ(opened->bytes[8191], std::byte{42});
  EXPECT_EQ(opened->bytes[0], std::byte{0});
  SharedSegments::unmap(*created);
  SharedSegments::unmap(*opened);
}

TEST_F(Segments, HaveMode0600WhateverTheUmask) {
  const mode_t before = ::umask(0377);
  const auto created = segments_.create("one", 100);
  ::umask(before);
  ASSERT_TRUE(created) << to_string(created.error());
  struct stat status {};
  ASSERT_EQ(::stat(file("one").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777u, 0600u);
  SharedSegments::unmap(*created);
}

TEST_F(Segments, AreCreatedOnceAndRemoved) {
  const auto created = segments_.create("one", 100);
  ASSERT_TRUE(created);
  const auto again = segments_.create("one", 100);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, EEXIST);
  segments_.remove("one");
  EXPECT_EQ(segments_.open("one").error().code, ENOENT);
  created->bytes[99] = std::byte{1};  // still mapped
  SharedSegments::unmap(*created);
}

TEST_F(Segments, FollowNoLinks) {
  test::write_file(folder_.file("victim"), test::random_bytes(100, 1));
  ASSERT_EQ(::symlink("victim", file("link").c_str()), 0);
  EXPECT_EQ(segments_.create("link", 100).error().code, EEXIST);
  EXPECT_EQ(segments_.open("link").error().code, ELOOP);
  const auto names = segments_.list("");
  ASSERT_TRUE(names);
  EXPECT_TRUE(names->empty());
}

TEST_F(Segments, OfOtherUsersAreRefusedAndNotListed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's file";
  test::write_file(file("foreign"), test::random_bytes(100, 1));
  ASSERT_EQ(::chown(file("foreign").c_str(), 1234, 1234), 0);
  EXPECT_EQ(segments_.open("foreign").error().code, EPERM);
  EXPECT_TRUE(segments_.list("")->empty());
}

TEST_F(Segments, ThatOthersMayWriteAreRefused) {
  test::write_file(file("open"), test::random_bytes(100, 1));
  ASSERT_EQ(::chmod(file("open").c_str(), 0666), 0);
  EXPECT_EQ(segments_.open("open").error().code, EPERM);
}

TEST_F(Segments, DoNotHangOnAFifoAndRefuseEmptyFiles) {
  ASSERT_EQ(::mkfifo(file("fifo").c_str(), 0600), 0);
  EXPECT_EQ(segments_.open("fifo").error().code, EINVAL);
  test::write_file(file("empty"), {});
  ASSERT_EQ(::chmod(file("empty").c_str(), 0600), 0);
  EXPECT_EQ(segments_.open("empty").error().code, EINVAL);
}

TEST_F(Segments, RefuseNamesThatLeaveTheFolder) {
  for (const std::string name : {"", "../one", "a/b"}) {
    EXPECT_EQ(segments_.create(name, 100).error().code, EINVAL) << name;
    EXPECT_EQ(segments_.open(name).error().code, EINVAL) << name;
  }
  EXPECT_EQ(segments_.create(std::string(250, 'n'), 100).error().code, ENAMETOOLONG);
}

TEST_F(Segments, LeaveNoFileBehindWhenTheyCannotBeSized) {
  EXPECT_EQ(segments_.create("one", 0).error().code, EINVAL);
  EXPECT_FALSE(segments_.create("two", ~std::size_t{0} >> 1));
  EXPECT_TRUE(folder_.names().empty());
}

TEST_F(Segments, AreListedSortedByPrefix) {
  for (const char* name : {"7.b", "7.a", "8.a"}) {
    const auto created = segments_.create(name, 10);
    ASSERT_TRUE(created);
    SharedSegments::unmap(*created);
  }
  test::write_file(folder_.file("7.other"), {});
  EXPECT_EQ(*segments_.list("7."), (std::vector<std::string>{"7.a", "7.b"}));
  EXPECT_EQ(segments_.list("")->size(), 3u);
}

TEST(LiveStorageSegments, AreReachableThroughStorage) {
  const auto storage = make_live_storage();
  const std::string name = "test." + std::to_string(::getpid());
  const auto created = storage->create_segment(name, 64);
  ASSERT_TRUE(created) << to_string(created.error());
  EXPECT_EQ(*storage->list_segments(name), std::vector<std::string>{name});
  const auto opened = storage->open_segment(name);
  EXPECT_TRUE(opened);
  if (opened) storage->unmap_segment(*opened);
  storage->unmap_segment(*created);
  storage->remove_segment(name);
  EXPECT_TRUE(storage->list_segments(name)->empty());
}

}  // namespace
}  // namespace nobounce::system
