// The process, its environment, its clock and its random numbers.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "system/live_host.hpp"

namespace nobounce::system {
namespace {

/// What `act` writes to standard error, in one read per write.
template <typename Act>
std::string written_to_standard_error(Act act) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const int before = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  act();
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  ::close(ends[1]);
  std::string text(4096, '\0');
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(::read(ends[0], text.data(), 4096), 0)));
  ::close(ends[0]);
  return text;
}

TEST(LiveProcess, KnowsItselfAlsoInAForkedChild) {
  const auto process = make_live_process();
  EXPECT_EQ(process->id(), static_cast<std::uint64_t>(::getpid()));
  EXPECT_EQ(process->user(), ::geteuid());
  const std::uint64_t parent = process->id();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(process->id() != parent ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(process->alive(static_cast<std::uint64_t>(child))) << "it was waited for";
}

TEST(LiveProcess, TellsWhoLives) {
  const auto process = make_live_process();
  EXPECT_TRUE(process->alive(process->id()));
  EXPECT_TRUE(process->alive(1)) << "also where we may not signal it";
  EXPECT_FALSE(process->alive(0)) << "a group, not a process";
  EXPECT_FALSE(process->alive(~std::uint64_t{0})) << "-1 would mean everybody";
  EXPECT_FALSE(process->alive(std::uint64_t{1} << 32));
}

TEST(LiveProcess, WarnsWithOneWholeLine) {
  const auto process = make_live_process();
  EXPECT_EQ(written_to_standard_error([&] { process->warn("staged 5 bytes"); }),
            "staged 5 bytes\n");
  EXPECT_EQ(written_to_standard_error([&] { process->warn("a\nb\033[2Jc"); }), "a b [2Jc\n");
}

TEST(LiveEnvironment, GetsAndSetsWhileAlone) {
  const auto host = make_live_host();
  Environment& environment = host->environment();
  EXPECT_FALSE(environment.get("NOBOUNCE_TEST_VARIABLE").has_value());
  const auto threads = host->files().list("/proc/self/task");
  ASSERT_TRUE(threads);
  if (threads->size() > 1) GTEST_SKIP() << "this build runs a thread of its own";
  const Status set = environment.set("NOBOUNCE_TEST_VARIABLE", "first");
  ASSERT_TRUE(set) << to_string(set.error());
  EXPECT_EQ(environment.get("NOBOUNCE_TEST_VARIABLE"), "first");
  EXPECT_TRUE(environment.set("NOBOUNCE_TEST_VARIABLE", "second"));
  EXPECT_EQ(environment.get("NOBOUNCE_TEST_VARIABLE"), "second");
  EXPECT_EQ(environment.set("", "value").error().code, EINVAL);
  EXPECT_EQ(environment.set("A=B", "value").error().code, EINVAL);
  EXPECT_EQ(environment.set("NAME", std::string_view("a\0b", 3)).error().code, EINVAL);
}

TEST(LiveClock, NeverGoesBack) {
  const auto clock = make_live_clock();
  std::uint64_t before = clock->now_ns();
  EXPECT_GT(before, 0u);
  for (int round = 0; round < 1000; ++round) {
    const std::uint64_t now = clock->now_ns();
    ASSERT_GE(now, before);
    before = now;
  }
}

TEST(LiveEntropy, FillsWithDifferentBytes) {
  const auto host = make_live_host();
  std::array<std::byte, 64> first{};
  std::array<std::byte, 64> second{};
  host->entropy().fill(first);
  host->entropy().fill(second);
  EXPECT_NE(first, second);
  EXPECT_NE(first, (std::array<std::byte, 64>{}));
  host->entropy().fill({});
}

}  // namespace
}  // namespace nobounce::system
