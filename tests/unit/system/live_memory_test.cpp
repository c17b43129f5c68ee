// Host memory: zeroed, registered under a context that lives as long as the buffer, and given back.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "system/live_parts.hpp"
#include "unit/system/scripted_host.hpp"

namespace nobounce::system {
namespace {

class LiveMemory : public testing::Test {
 protected:
  LiveMemory() { host_.driver.devices.resize(1); }
  test::ScriptedCuda& driver() { return host_.driver; }
  test::ScriptedHost host_;
  std::unique_ptr<Memory> memory_ = make_live_memory(host_);
};

TEST_F(LiveMemory, GivesPlainPagesThatAreZeroedAndAligned) {
  const auto buffer = memory_->allocate_plain(10'000, 0);
  ASSERT_TRUE(buffer) << to_string(buffer.error());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->address) % 4096, 0u);
  EXPECT_EQ(buffer->length_bytes, 10'000u);
  EXPECT_FALSE(buffer->pinned);
  for (std::size_t at = 0; at < 10'000; ++at) ASSERT_EQ(buffer->address[at], std::byte{0});
  EXPECT_TRUE(driver().registered.empty());
  memory_->free(*buffer);
}

TEST_F(LiveMemory, RegistersPinnedPagesPortablyUnderThePrimaryContextAndKeepsItUntilFree) {
  const auto buffer = memory_->allocate_pinned(10'000, 0, MemoryUse::bounce);
  ASSERT_TRUE(buffer) << to_string(buffer.error());
  EXPECT_TRUE(buffer->pinned);
  ASSERT_EQ(driver().registered.size(), 1u);
  EXPECT_EQ(driver().registered.begin()->first, buffer->address);
  EXPECT_EQ(driver().registered.begin()->second % 4096, 0u);
  EXPECT_EQ(driver().last_register_flags, cuda::host_register_portable);
  EXPECT_EQ(driver().retained[50], 1) << "with the context its registrations would go";
  EXPECT_TRUE(driver().current.empty()) << "what was current is restored";
  memory_->free(*buffer);
  EXPECT_TRUE(driver().registered.empty());
  EXPECT_EQ(driver().retained[50], 0);
  EXPECT_TRUE(driver().current.empty());
}

TEST_F(LiveMemory, UsesTheContextThatIsCurrent) {
  driver().initialised = true;
  const auto current = reinterpret_cast<cuda::CUcontext>(0x77);
  driver().current.push_back(current);
  const auto buffer = memory_->allocate_pinned(4096, 0, MemoryUse::user);
  ASSERT_TRUE(buffer);
  EXPECT_EQ(driver().registered_under[buffer->address], current);
  EXPECT_TRUE(driver().retained.empty());
  EXPECT_EQ(driver().current, std::vector<cuda::CUcontext>{current});
  memory_->free(*buffer);
  EXPECT_TRUE(driver().registered.empty());
}

TEST_F(LiveMemory, ReportsTheDriversRefusalAndKeepsNothing) {
  driver().register_code = cuda::error_out_of_memory;
  const auto buffer = memory_->allocate_pinned(4096, 0, MemoryUse::bounce);
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().origin, ErrorOrigin::cuda);
  EXPECT_EQ(buffer.error().code, cuda::error_out_of_memory);
  EXPECT_EQ(buffer.error().detail, "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_EQ(driver().retained[50], 0);
  EXPECT_TRUE(driver().current.empty());
}

TEST_F(LiveMemory, ReportsWhatIsMissingBeforeMemoryCanBePinned) {
  driver().retain_code = cuda::error_out_of_memory;
  EXPECT_EQ(memory_->allocate_pinned(4096, 0, MemoryUse::bounce).error().origin, ErrorOrigin::cuda);
  driver().init_code = cuda::error_no_device;
  EXPECT_EQ(memory_->allocate_pinned(4096, 0, MemoryUse::bounce).error().cause,
            Cause::machine_no_gpu);
  host_.driver_absent = true;
  EXPECT_EQ(memory_->allocate_pinned(4096, 0, MemoryUse::bounce).error().origin, ErrorOrigin::os);
}

TEST_F(LiveMemory, RefusesNothingAndTooMuch) {
  EXPECT_EQ(memory_->allocate_plain(0, 0).error().code, EINVAL);
  EXPECT_EQ(memory_->allocate_plain(~std::uint64_t{0}, 0).error().code, ENOMEM);
  EXPECT_EQ(memory_->allocate_plain(std::uint64_t{1} << 62, 0).error().code, ENOMEM);
  EXPECT_TRUE(driver().registered.empty());
}

TEST_F(LiveMemory, LeavesTheDriverAloneInAForkedChild) {
  const auto buffer = memory_->allocate_pinned(4096, 0, MemoryUse::bounce);
  ASSERT_TRUE(buffer);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    memory_->free(*buffer);
    ::_exit(driver().registered.size() == 1 && driver().retained[50] == 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  memory_->free(*buffer);
}

TEST_F(LiveMemory, CopiesBytes) {
  const auto source = memory_->allocate_plain(4096, 0);
  const auto target = memory_->allocate_plain(4096, 0);
  ASSERT_TRUE(source && target);
  source->address[4095] = std::byte{9};
  memory_->copy(target->address, source->address, 4096);
  EXPECT_EQ(target->address[4095], std::byte{9});
  memory_->free(*source);
  memory_->free(*target);
}

}  // namespace
}  // namespace nobounce::system
