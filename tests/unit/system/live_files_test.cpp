// Small files below a root: whole content, listings, links, and what must be refused.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "support/temporary_directory.hpp"
#include "system/live_host.hpp"

namespace nobounce::system {
namespace {

class LiveFiles : public testing::Test {
 protected:
  LiveFiles() { test::write_file(folder_.file("greeting"), {std::byte{'h'}, std::byte{'i'}}); }
  Files& files() { return host_->files(); }

  test::TemporaryDirectory folder_;
  std::unique_ptr<Host> host_ = make_live_host({.root = folder_.path().string() + "/"});
};

TEST_F(LiveFiles, ReadsBelowItsRoot) {
  const auto content = files().read("/greeting");
  ASSERT_TRUE(content) << to_string(content.error());
  EXPECT_EQ(*content, "hi");
  EXPECT_TRUE(files().exists("/greeting"));
  EXPECT_FALSE(files().exists("/etc"));
}

TEST_F(LiveFiles, ReadsAFileLongerThanOneStepWhole) {
  const auto bytes = test::random_bytes(200'001, 7);
  test::write_file(folder_.file("long"), bytes);
  const auto content = files().read("/long");
  ASSERT_TRUE(content);
  ASSERT_EQ(content->size(), bytes.size());
  EXPECT_EQ(std::memcmp(content->data(), bytes.data(), bytes.size()), 0);
}

TEST_F(LiveFiles, RefusesAFileBeyondItsBound) {
  test::write_file(folder_.file("huge"), {});
  ASSERT_EQ(::truncate(folder_.file("huge").c_str(), (16 << 20) + 1), 0);
  const auto content = files().read("/huge");
  ASSERT_FALSE(content);
  EXPECT_EQ(content.error().code, EFBIG);
  ASSERT_EQ(::truncate(folder_.file("huge").c_str(), 16 << 20), 0);
  EXPECT_TRUE(files().read("/huge"));
}

TEST_F(LiveFiles, DoesNotHangOnAFifo) {
  ASSERT_EQ(::mkfifo(folder_.file("fifo").c_str(), 0600), 0);
  const auto content = files().read("/fifo");
  if (content) {
    EXPECT_EQ(*content, "");
  }
}

TEST_F(LiveFiles, ListsSortedWithoutDots) {
  test::write_file(folder_.file("b"), {});
  test::write_file(folder_.file("a"), {});
  const auto names = files().list("/");
  ASSERT_TRUE(names);
  EXPECT_EQ(*names, (std::vector<std::string>{"a", "b", "greeting"}));
}

TEST_F(LiveFiles, ResolvesLinksWithinTheRootAndRefusesThoseThatLeaveIt) {
  ASSERT_EQ(::mkdir(folder_.file("dir").c_str(), 0700), 0);
  ASSERT_EQ(::symlink("../greeting", folder_.file("dir/link").c_str()), 0);
  ASSERT_EQ(::symlink("/etc", folder_.file("outside").c_str()), 0);
  const auto target = files().read_link("/dir/link");
  ASSERT_TRUE(target);
  EXPECT_EQ(*target, "../greeting");
  const auto real = files().real_path("/dir/link");
  ASSERT_TRUE(real) << to_string(real.error());
  EXPECT_EQ(*real, "/greeting");
  const auto root = files().real_path("/");
  ASSERT_TRUE(root);
  EXPECT_EQ(*root, "/");
  const auto outside = files().real_path("/outside");
  ASSERT_FALSE(outside);
  EXPECT_EQ(outside.error().code, EXDEV);
}

TEST_F(LiveFiles, SaysWhatItAttemptedWhenAFileIsMissing) {
  for (const auto& error :
       {files().read("/none").error(), files().list("/none").error(),
        files().read_link("/none").error(), files().real_path("/none").error()}) {
    EXPECT_EQ(error.origin, ErrorOrigin::os);
    EXPECT_EQ(error.code, ENOENT);
    EXPECT_NE(error.attempted.find("/none"), std::string::npos);
  }
  const auto directory = files().read("/");
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code, EISDIR);
}

TEST(LiveFilesOfTheKernel, AreReadWholeAlthoughTheyReportSizeZero) {
  const auto host = make_live_host();
  const auto content = host->files().read("/proc/self/status");
  ASSERT_TRUE(content) << to_string(content.error());
  EXPECT_NE(content->find("Pid:"), std::string::npos);
  const auto real = host->files().real_path("/proc/self");
  ASSERT_TRUE(real);
  EXPECT_EQ(*real, "/proc/" + std::to_string(::getpid()));
}

}  // namespace
}  // namespace nobounce::system
