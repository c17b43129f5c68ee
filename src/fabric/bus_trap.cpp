// The SIGSEGV handler behind BusTrap. A handler can reach nothing but process-wide data, so its
// table is process-wide.
#include "fabric/bus_trap.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>

namespace nobounce::fabric {

namespace {

struct Watched {
  std::atomic<std::uintptr_t> begin{0};  ///< 0: free
  std::atomic<std::uintptr_t> end{0};
  std::atomic<std::atomic<std::uint64_t>*> touches{nullptr};
  std::atomic<std::atomic<bool>*> opened{nullptr};
};

/// What the handler may touch: lock-free atomics only. Written under `mutex`, read by the handler
/// without it.
struct Table {
  std::array<Watched, 4096> ranges;
  std::atomic<std::size_t> used{0};
  struct sigaction before {};
  std::mutex mutex;
  unsigned traps = 0;
};

Table& table() {
  static Table instance;
  return instance;
}

void pass_on(int number, siginfo_t* info, void* context) {
  const struct sigaction& before = table().before;
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
    before.sa_sigaction(number, info, context);
    return;
  }
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
    return;
  }
  // The default: the same instruction faults again, now without a handler.
  struct sigaction fallback {};
  fallback.sa_handler = SIG_DFL;
  sigaction(number, &fallback, nullptr);
}

void on_fault(int number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  Table& all = table();
  const std::size_t used = all.used.load();
  for (std::size_t i = 0; i < used; ++i) {
    Watched& range = all.ranges[i];
    const std::uintptr_t begin = range.begin.load();
    if (begin == 0 || address < begin || address >= range.end.load()) continue;
    constexpr std::uintptr_t page = 4096;
    if (mprotect(reinterpret_cast<void*>(address & ~(page - 1)), page, PROT_READ | PROT_WRITE) !=
        0) {
      break;
    }
    range.touches.load()->fetch_add(1);
    range.opened.load()->store(true);
    errno = saved_errno;
    return;
  }
  errno = saved_errno;
  pass_on(number, info, context);
}

}  // namespace

BusTrap::BusTrap() {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  if (all.traps++ > 0) return;
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &all.before);
}

BusTrap::~BusTrap() {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  for (std::size_t i = 0; i < all.used.load(); ++i) {
    if (all.ranges[i].touches.load() == &touches_) all.ranges[i].begin.store(0);
  }
  if (--all.traps > 0) return;
  sigaction(SIGSEGV, &all.before, nullptr);
}

bool BusTrap::watch(std::byte* begin, std::size_t length_bytes) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  std::size_t slot = 0;
  while (slot < all.used.load() && all.ranges[slot].begin.load() != 0) ++slot;
  if (slot == all.ranges.size()) return false;
  Watched& range = all.ranges[slot];
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  range.end.store(address + length_bytes);
  range.touches.store(&touches_);
  range.opened.store(&opened_);
  range.begin.store(address);
  if (slot == all.used.load()) all.used.store(slot + 1);
  return true;
}

void BusTrap::unwatch(std::byte* begin) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  for (std::size_t i = 0; i < all.used.load(); ++i) {
    if (all.ranges[i].begin.load() == reinterpret_cast<std::uintptr_t>(begin)) {
      all.ranges[i].begin.store(0);
    }
  }
}

void BusTrap::reseal() {
  if (!opened_.exchange(false)) return;
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  for (std::size_t i = 0; i < all.used.load(); ++i) {
    const std::uintptr_t begin = all.ranges[i].begin.load();
    if (begin == 0 || all.ranges[i].touches.load() != &touches_) continue;
    mprotect(reinterpret_cast<void*>(begin), all.ranges[i].end.load() - begin, PROT_NONE);
  }
}

}  // namespace nobounce::fabric
