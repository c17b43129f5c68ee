// LiveProcess: this process, others by number, and one line to standard error.
#include <signal.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <limits>
#include <string>

#include "system/live_host.hpp"

namespace nobounce::system {
namespace {

/// The process's number in a page that the kernel empties in a forked child: asking is a load
/// there, and a system call only once per process.
class ProcessNumber {
 public:
  ProcessNumber() {
    void* page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return;
    if (::madvise(page, bytes, MADV_WIPEONFORK) != 0) {  // before Linux 4.14
      ::munmap(page, bytes);
      return;
    }
    number_ = static_cast<std::atomic<std::uint64_t>*>(page);  // zero is a valid empty one
  }
  ~ProcessNumber() {
    if (number_ != nullptr) ::munmap(number_, bytes);
  }
  ProcessNumber(const ProcessNumber&) = delete;
  ProcessNumber& operator=(const ProcessNumber&) = delete;
  [[nodiscard]] std::uint64_t get() {
    if (number_ == nullptr) return static_cast<std::uint64_t>(::getpid());
    std::uint64_t number = number_->load(std::memory_order_relaxed);
    if (number != 0) return number;
    number = static_cast<std::uint64_t>(::getpid());
    number_->store(number, std::memory_order_relaxed);
    return number;
  }

 private:
  static constexpr std::size_t bytes = 4096;
  std::atomic<std::uint64_t>* number_ = nullptr;
};

class LiveProcess final : public Process {
 public:
  std::uint64_t id() override { return number_.get(); }
  bool alive(std::uint64_t process_id) override {
    // 0 and what would be negative name groups of processes, not one.
    if (process_id == 0 || process_id > std::numeric_limits<pid_t>::max()) return false;
    return ::kill(static_cast<pid_t>(process_id), 0) == 0 || errno == EPERM;
  }
  std::uint32_t user() override { return ::geteuid(); }
  void warn(std::string_view line) override;

 private:
  ProcessNumber number_;
};

void LiveProcess::warn(std::string_view line) {
  std::string whole(line);
  for (char& character : whole) {
    // Names of files may carry anything; a warning stays one line and steers no terminal.
    if (static_cast<unsigned char>(character) < 0x20 || character == 0x7f) character = ' ';
  }
  whole += '\n';
  // One write, so that lines of several processes do not mix. If standard error is closed or full
  // there is nobody left to tell.
  while (::write(STDERR_FILENO, whole.data(), whole.size()) < 0 && errno == EINTR) {
  }
}

}  // namespace

std::unique_ptr<Process> make_live_process() {
  return std::make_unique<LiveProcess>();
}

}  // namespace nobounce::system
