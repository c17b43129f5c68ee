// What a session does when its context, its memory, its stream or its process breaks: a clear error
// in time, and nothing left behind.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <thread>

#include "device/device_rig.hpp"

namespace nobounce::device {
namespace {

class BreakingTest : public DeviceTest {
 protected:
  static void expect_good(const std::string& name) {
    const Ended ended = run_scenario(name, {}, std::chrono::seconds(90));
    EXPECT_EQ(ended.code, 0) << (ended.code == -1 ? "it hung\n" : "") << ended.said;
    std::printf("%s", ended.said.c_str());
  }
};

TEST_F(BreakingTest, AContextResetUnderASessionIsAClearError) {
  expect_good("context_reset");
}

TEST_F(BreakingTest, AStreamInErrorIsAClearError) {
  expect_good("stream_error");
}

TEST_F(BreakingTest, AFullGpuIsNamedAndTheSessionGoesOn) {
  expect_good("out_of_memory");
}

TEST_F(BreakingTest, ASessionOpenedOnAFullGpuWorksOrSaysWhatIsMissing) {
  expect_good("opened_on_a_full_gpu");
}

TEST_F(BreakingTest, ASessionEndsWhileTransfersRunAndLeavesNothing) {
  expect_good("teardown");
}

TEST_F(BreakingTest, ADeadlineIsHonoured) {
  expect_good("deadline");
}

TEST_F(BreakingTest, AForkedChildIsTold) {
  expect_good("forked");
}

/// Waits for a condition; false after the limit.
template <typename Condition>
bool eventually(Condition&& holds, std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

TEST_F(BreakingTest, AKilledProcessLeavesNoMemoryBehind) {
  const test::TemporaryDirectory directory;
  const std::string marker = directory.file("moving");
  const std::int64_t gpu_before = gpu_bytes_used();
  const std::int64_t host_before = host_bytes_used();
  ASSERT_GE(gpu_before, 0) << "NVML does not tell what is used";
  const pid_t child = start_scenario("transfer_forever", {marker}, 2);
  const bool moving =
      eventually([&] { return std::filesystem::exists(marker); }, std::chrono::seconds(60));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::int64_t gpu_during = gpu_bytes_used();
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(moving) << "it never moved anything";
  EXPECT_TRUE(WIFSIGNALED(status)) << "it had ended by itself";
  EXPECT_GT(gpu_during, gpu_before + (512 << 20)) << "it held no GPU memory";
  constexpr std::int64_t noise = 32 << 20;
  EXPECT_TRUE(
      eventually([&] { return gpu_bytes_used() <= gpu_before + noise; }, std::chrono::seconds(20)))
      << "GPU memory still used: " << gpu_bytes_used() - gpu_before;
  EXPECT_TRUE(eventually([&] { return host_bytes_used() <= host_before + 4 * noise; },
                         std::chrono::seconds(20)))
      << "host memory still used: " << host_bytes_used() - host_before;
}

}  // namespace
}  // namespace nobounce::device
