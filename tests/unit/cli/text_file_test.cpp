// Files of the user are replaced whole; what is no regular file is never replaced.
#include "cli/text_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "support/temporary_directory.hpp"
#include "system/live_host.hpp"

namespace nobounce::cli {
namespace {

namespace fs = std::filesystem;

class TextFile : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_.path() / name).string();
  }
  [[nodiscard]] static std::string content(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] std::size_t entries() const {
    const fs::directory_iterator all(folder_.path());
    return static_cast<std::size_t>(std::distance(fs::begin(all), fs::end(all)));
  }
  Status write(const std::string& name) {
    return write_text_file(console_, *host_, path(name), "new\n");
  }

  test::TemporaryDirectory folder_;
  Console console_{ConsoleOptions{}};
  std::unique_ptr<system::Host> host_ = system::make_live_host();
};

TEST_F(TextFile, MakesAFileAndReplacesOne) {
  ASSERT_TRUE(write("a").ok());
  EXPECT_EQ(content(path("a")), "new\n");
  std::ofstream(path("b")) << "old, and longer\n";
  ASSERT_TRUE(write("b").ok());
  EXPECT_EQ(content(path("b")), "new\n");
  EXPECT_EQ(entries(), 2u) << "no temporary stays";
}

/// A pipe with its reading end open, so that writing to it waits for nobody.
class Reader {
 public:
  explicit Reader(const std::string& path)
      : number_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { ::close(number_); }
  [[nodiscard]] std::string content() const {
    char text[64];
    const ssize_t got = ::read(number_, text, sizeof text);
    return got > 0 ? std::string(text, static_cast<std::size_t>(got)) : std::string();
  }

 private:
  int number_;
};

TEST_F(TextFile, WritesIntoAPipeWhichStaysOne) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const Reader reader(path("pipe"));
  const Status status = write("pipe");
  EXPECT_TRUE(status.ok()) << to_string(status.error());
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  EXPECT_EQ(reader.content(), "new\n");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(TextFile, WritesIntoAPipeBehindALinkToo) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", path("link"));
  const Reader reader(path("pipe"));
  EXPECT_TRUE(write("link").ok());
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(reader.content(), "new\n");
}

TEST_F(TextFile, WaitsForNoReader) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const Status status = write("pipe");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ENXIO);
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
}

TEST_F(TextFile, LeavesDevicesDevices) {
  fs::create_symlink("/dev/null", path("link"));
  const Status status = write("link");
  EXPECT_TRUE(status.ok()) << to_string(status.error());
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(TextFile, PrintsWhatGoesToStandardOutput) {
  testing::internal::CaptureStdout();
  console_.text("before\n");
  const Status status = write_text_file(console_, *host_, "/dev/stdout", "new\n");
  console_.text("after\n");
  console_.flush();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "before\nnew\nafter\n");
  EXPECT_TRUE(status.ok()) << to_string(status.error());
}

TEST_F(TextFile, KeepsThePermissionsOfWhatItReplaces) {
  std::ofstream(path("a")) << "old\n";
  fs::permissions(path("a"), fs::perms::owner_read | fs::perms::owner_write);
  ASSERT_TRUE(write("a").ok());
  EXPECT_EQ(fs::status(path("a")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(TextFile, RefusesAFolder) {
  fs::create_directory(path("folder"));
  const Status status = write("folder");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().origin, ErrorOrigin::input);
  EXPECT_TRUE(fs::is_directory(path("folder")));
}

TEST_F(TextFile, WritesWhereALinkLeads) {
  fs::create_directory(path("folder"));
  std::ofstream(path("folder/file")) << "old\n";
  fs::create_symlink("folder/file", path("link"));
  ASSERT_TRUE(write("link").ok());
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(content(path("folder/file")), "new\n");
}

TEST_F(TextFile, RefusesALinkThatLeadsNowhere) {
  fs::create_symlink("nothing", path("link"));
  const Status status = write("link");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().detail, "it is a link that leads nowhere");
  EXPECT_TRUE(fs::is_symlink(path("link")));
}

}  // namespace
}  // namespace nobounce::cli
