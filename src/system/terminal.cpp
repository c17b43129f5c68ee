// isatty and signal handlers.
#include "system/terminal.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
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
