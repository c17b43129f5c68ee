// The fallbacks for older kernels, by a child that a seccomp filter keeps from the newer calls.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "support/temporary_directory.hpp"
#include "system/live_host.hpp"

namespace nobounce::system {
namespace {

/// From now on these two calls answer with that errno in this process.
bool forbid(unsigned first, unsigned second, unsigned code) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | code),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog filter{sizeof program / sizeof program[0], program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/// Runs the check in a child; 0 is success, 77 means that this host allows no filter.
template <typename Check>
int in_child(Check check) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(check());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

constexpr unsigned cachestat_number = 451;

class OldKernel : public testing::TestWithParam<unsigned> {
 protected:
  OldKernel() {
    const auto bytes = test::random_bytes(100'000, 11);
    test::write_file(path_, bytes);
    file_ = *storage_->open(path_, {.access = FileAccess::read_write});
    EXPECT_TRUE(storage_->sync(file_));
  }
  ~OldKernel() override { EXPECT_TRUE(storage_->close(file_)); }

  test::TemporaryDirectory folder_;
  std::string path_ = folder_.file("data");
  std::unique_ptr<Storage> storage_ = make_live_storage();
  FileHandle file_;
};

TEST_P(OldKernel, WithoutStatxAnswersTheSameStatusWithoutAlignments) {
  const auto expected = storage_->status(file_);
  ASSERT_TRUE(expected);
  const int answer = in_child([&] {
    if (!forbid(SYS_statx, SYS_statx, GetParam())) return 77;
    for (const auto& status : {storage_->status(file_), storage_->status_of(path_)}) {
      if (!status || status->size_bytes != expected->size_bytes) return 1;
      if (status->inode != expected->inode || status->modified_ns != expected->modified_ns)
        return 2;
      if (status->device_major != expected->device_major) return 3;
      if (status->device_minor != expected->device_minor) return 4;
      if (status->mode != expected->mode || status->type != FileType::regular) return 5;
      if (status->direct_io_memory_alignment != 0) return 6;
    }
    return storage_->status_of(path_ + "x").error().code == ENOENT ? 0 : 7;
  });
  if (answer == 77) GTEST_SKIP() << "no seccomp filters on this host";
  EXPECT_EQ(answer, 0);
}

TEST_P(OldKernel, WithoutCachestatCountsTheSamePagesByMincore) {
  std::byte byte{};
  ASSERT_TRUE(storage_->read(file_, &byte, 1, FileOffset{50'000}));
  const int answer = in_child([&] {
    const auto all = storage_->resident_bytes(file_, FileOffset{0}, 1 << 20);
    const auto part = storage_->resident_bytes(file_, FileOffset{49'999}, 2);
    if (!forbid(cachestat_number, cachestat_number, GetParam())) return 77;
    const auto old_all = storage_->resident_bytes(file_, FileOffset{0}, 1 << 20);
    const auto old_part = storage_->resident_bytes(file_, FileOffset{49'999}, 2);
    if (!all || !part || !old_all || !old_part) return 1;
    if (*old_part != 2 || *old_part != *part) return 2;
    return *old_all == *all ? 0 : 3;
  });
  if (answer == 77) GTEST_SKIP() << "no seccomp filters on this host";
  EXPECT_EQ(answer, 0);
}

TEST_P(OldKernel, WithoutCachestatDoesNotPassOnWhatMincoreTellsStrangers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become a stranger";
  const int answer = in_child([&] {
    const FileHandle reader = *storage_->open(path_, {.access = FileAccess::read});
    if (::setresuid(65'534, 65'534, 65'534) != 0) return 77;
    if (!forbid(cachestat_number, cachestat_number, GetParam())) return 77;
    const auto resident = storage_->resident_bytes(reader, FileOffset{0}, 1 << 20);
    return !resident && resident.error().code == EPERM ? 0 : 1;
  });
  if (answer == 77) GTEST_SKIP() << "this host does not let us play a stranger";
  EXPECT_EQ(answer, 0);
}

INSTANTIATE_TEST_SUITE_P(Answers, OldKernel, testing::Values(ENOSYS, EPERM));

}  // namespace
}  // namespace nobounce::system
