// Signal's two ways into the kernel.
#include "system/signal.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace nobounce::system {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

constexpr std::uint64_t second_ns = 1'000'000'000;

}  // namespace

// Both sides write their own variable and then read the other's, in one total order: either raise()
// sees the sleeper and wakes it, or the kernel sees the raised counter and does not let it sleep.
void Signal::raise() {
  raised_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  ::syscall(SYS_futex, &raised_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void Signal::sleep(std::uint32_t observed, std::uint64_t timeout_ns) {
  std::timespec timeout{};
  timeout.tv_sec = static_cast<std::time_t>(timeout_ns / second_ns);
  timeout.tv_nsec = static_cast<long>(timeout_ns % second_ns);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  if (raised_.load(std::memory_order_seq_cst) == observed) {
    ::syscall(SYS_futex, &raised_, FUTEX_WAIT_PRIVATE, observed,
              timeout_ns == 0 ? nullptr : &timeout, nullptr, 0);
  }
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace nobounce::system
