// LiveProcess: this process, others by number, and one line to standard error.
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <string>

#include "system/live_host.hpp"

namespace nobounce::system {
namespace {

class LiveProcess final : public Process {
 public:
  std::uint64_t id() override { return static_cast<std::uint64_t>(::getpid()); }
  bool alive(std::uint64_t process_id) override {
    // 0 and what would be negative name groups of processes, not one.
    if (process_id == 0 || process_id > std::numeric_limits<pid_t>::max()) return false;
    return ::kill(static_cast<pid_t>(process_id), 0) == 0 || errno == EPERM;
  }
  std::uint32_t user() override { return ::geteuid(); }
  void warn(std::string_view line) override;
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
