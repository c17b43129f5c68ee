// isatty and signal handlers.
#include "system/terminal.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <initializer_list>

namespace nobounce::system {

namespace {

// A handler has nowhere else to put what it saw.
std::atomic<int> noted_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

void note_signal(int number) {
  noted_signal.store(number);
}

void set_handlers(void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
}

}  // namespace

bool is_terminal(StandardStream stream) {
  return isatty(stream == StandardStream::output ? STDOUT_FILENO : STDERR_FILENO) == 1;
}

Result<std::optional<std::size_t>> read_standard_input(std::byte* target, std::size_t length_bytes,
                                                       unsigned wait_ms) {
  const auto failed = [](int code) -> Result<std::optional<std::size_t>> {
    if (code == EINTR || code == EAGAIN) return std::optional<std::size_t>();
    return os_error(code, "read standard input");
  };
  // A wait of its own: reads go on behind signals.
  pollfd input{STDIN_FILENO, POLLIN, 0};
  const int ready = poll(&input, 1, static_cast<int>(wait_ms));
  if (ready < 0) return failed(errno);
  if (ready == 0) return std::optional<std::size_t>();
  const ssize_t got = ::read(STDIN_FILENO, target, length_bytes);
  if (got < 0) return failed(errno);
  return std::optional<std::size_t>(static_cast<std::size_t>(got));
}

void refuse_files_over_the_limit() {
  struct sigaction action {};
  action.sa_handler = SIG_IGN;
  sigemptyset(&action.sa_mask);
  sigaction(SIGXFSZ, &action, nullptr);
}

InterruptWatch::InterruptWatch() {
  noted_signal.store(0);
  // SA_RESETHAND: whoever presses Ctrl-C twice means it. SA_RESTART: our reads and writes go on.
  set_handlers(note_signal, SA_RESTART | static_cast<int>(SA_RESETHAND));
}

InterruptWatch::~InterruptWatch() {
  set_handlers(SIG_DFL, 0);
}

int InterruptWatch::signal() const {
  return noted_signal.load();
}

}  // namespace nobounce::system
