// Workers on threads, one each. Waking, notifying and waiting take no lock and allocate nothing.
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "system/host.hpp"
#include "system/live_host.hpp"
#include "system/signal.hpp"
#include "system/signals_blocked.hpp"

namespace nobounce::system {
namespace {

constexpr std::uint64_t seat_limit = 1024;
constexpr unsigned seat_bits = 16;  // of a WorkerId; the rest counts how often the seat was taken
constexpr int spins = 200;
constexpr int looks_per_reading = 32;  // of the clock, while looking closely
constexpr std::uint64_t first_sleep_ns = 20'000;
constexpr std::uint64_t longest_sleep_ns = 1'000'000;
// An idle worker looks at the clock at least this often: a borrowed clock may run unlike the
// kernel's.
constexpr std::uint64_t longest_idle_ns = 100'000'000;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// One worker's place. Seats are never freed while the Workers live, so a late wake() is harmless.
struct Seat {
  std::atomic<std::uint64_t> id{0};  // 0: empty
  std::atomic<bool> stopping{false};
  Signal signal;
  std::mutex joining;
  std::thread thread;
};

void run_worker(Seat& seat, Worker& worker, Clock& clock) {
  while (!seat.stopping.load(std::memory_order_acquire)) {
    const std::uint32_t observed = seat.signal.observe();  // before the step: a wake in it counts
    const Step step = worker.step();
    if (step.kind == Step::Kind::done) return;
    if (step.kind == Step::Kind::busy) continue;
    while (seat.signal.observe() == observed) {
      const std::uint64_t now_ns = step.until_ns == 0 ? 0 : clock.now_ns();
      if (step.until_ns != 0 && now_ns >= step.until_ns) break;
      const std::uint64_t rest_ns = step.until_ns - now_ns;
      seat.signal.sleep(observed, step.until_ns == 0 ? 0 : std::min(rest_ns, longest_idle_ns));
    }
  }
}

class ThreadedWorkers final : public Workers {
 public:
  explicit ThreadedWorkers(Clock& clock) : clock_(clock), process_(::getpid()) {}
  ~ThreadedWorkers() override;
  Result<WorkerId> start(Worker& worker, std::string_view name) override;
  void wake(WorkerId id) override;
  void stop(WorkerId id) override;
  bool wait(core::FunctionRef<bool()> ready, std::uint64_t deadline_ns) override;
  bool wait_closely(core::FunctionRef<bool()> ready, std::uint64_t deadline_ns,
                    std::uint64_t closely_ns) override;
  void notify() override { changed_.raise(); }
  unsigned concurrency() const override;

 private:
  [[nodiscard]] bool sleep_between(core::FunctionRef<bool()> ready, std::uint64_t deadline_ns,
                                   std::uint64_t longest_ns);
  [[nodiscard]] Seat* seat_of(WorkerId id);
  [[nodiscard]] Seat* free_seat(std::uint64_t& index);

  Clock& clock_;
  const pid_t process_;
  Signal changed_;
  std::mutex seating_;  // held to fill or empty a seat, never to wake, notify or wait
  std::uint64_t taken_ = 0;
  std::array<std::atomic<Seat*>, seat_limit> seats_{};
};

ThreadedWorkers::~ThreadedWorkers() {
  for (auto& place : seats_) {
    Seat* const seat = place.load();
    if (seat == nullptr) break;
    // In a forked child the thread does not exist: it can be neither joined nor destroyed.
    if (process_ != ::getpid()) continue;
    stop(seat->id.load());
    delete seat;
  }
}

Seat* ThreadedWorkers::seat_of(WorkerId id) {
  const std::uint64_t index = id & ((1u << seat_bits) - 1);
  if (id == 0 || index >= seat_limit) return nullptr;
  Seat* const seat = seats_[index].load(std::memory_order_acquire);
  return seat != nullptr && seat->id.load(std::memory_order_acquire) == id ? seat : nullptr;
}

Seat* ThreadedWorkers::free_seat(std::uint64_t& index) {
  for (index = 0; index < seat_limit; ++index) {
    Seat* seat = seats_[index].load();
    if (seat != nullptr && seat->id.load() != 0) continue;
    if (seat == nullptr) {
      seat = new Seat;  // owned by seats_
      seats_[index].store(seat, std::memory_order_release);
    }
    return seat;
  }
  return nullptr;
}

Result<WorkerId> ThreadedWorkers::start(Worker& worker, std::string_view name) {
  const auto failed = [&](int code) {
    return os_error(code, "start the worker " + std::string(name));
  };
  const std::lock_guard lock(seating_);
  std::uint64_t index = 0;
  Seat* const seat = free_seat(index);
  if (seat == nullptr) return failed(EAGAIN);
  const WorkerId id = (++taken_ << seat_bits) | index;
  seat->stopping.store(false);
  try {
    const SignalsBlocked blocked;  // inherited by the new thread
    seat->thread = std::thread([seat, &worker, this] { run_worker(*seat, worker, clock_); });
  } catch (const std::system_error& error) {
    return failed(error.code().value());
  }
  // The kernel keeps 15 characters; a name is for debuggers, so a refusal does not matter.
  (void)::pthread_setname_np(seat->thread.native_handle(), std::string(name.substr(0, 15)).c_str());
  seat->id.store(id, std::memory_order_release);
  return id;
}

void ThreadedWorkers::wake(WorkerId id) {
  if (Seat* const seat = seat_of(id); seat != nullptr) seat->signal.raise();
}

void ThreadedWorkers::stop(WorkerId id) {
  Seat* const seat = seat_of(id);
  if (seat == nullptr || process_ != ::getpid()) return;
  // A second stop() of the same worker waits here until the first has joined it.
  const std::lock_guard joining(seat->joining);
  if (seat->id.load() != id) return;
  seat->stopping.store(true, std::memory_order_release);
  seat->signal.raise();
  seat->thread.join();
  const std::lock_guard lock(seating_);
  seat->id.store(0, std::memory_order_release);
}

bool ThreadedWorkers::wait(core::FunctionRef<bool()> ready, std::uint64_t deadline_ns) {
  for (int spin = 0; spin < spins; ++spin) {
    if (ready()) return true;
    relax();
  }
  return sleep_between(ready, deadline_ns, longest_sleep_ns);
}

bool ThreadedWorkers::wait_closely(core::FunctionRef<bool()> ready, std::uint64_t deadline_ns,
                                   std::uint64_t closely_ns) {
  std::uint64_t until_ns = 0;
  for (;;) {
    for (int look = 0; look < looks_per_reading; ++look) {
      if (ready()) return true;
      relax();
    }
    const std::uint64_t now_ns = clock_.now_ns();
    if (until_ns == 0) until_ns = now_ns + closely_ns;
    if (deadline_ns != 0 && now_ns >= deadline_ns) return ready();
    if (now_ns >= until_ns) break;
  }
  return sleep_between(ready, deadline_ns, first_sleep_ns);
}

bool ThreadedWorkers::sleep_between(core::FunctionRef<bool()> ready, std::uint64_t deadline_ns,
                                    std::uint64_t longest_ns) {
  std::uint64_t sleep_ns = first_sleep_ns;
  for (;;) {
    const std::uint32_t observed = changed_.observe();
    if (ready()) return true;
    std::uint64_t rest_ns = sleep_ns;
    if (deadline_ns != 0) {
      const std::uint64_t now_ns = clock_.now_ns();
      if (now_ns >= deadline_ns) return false;
      rest_ns = std::min(rest_ns, deadline_ns - now_ns);
    }
    changed_.sleep(observed, rest_ns);
    // Bounded, because a GPU finishes without telling; short again when somebody told.
    sleep_ns = changed_.observe() != observed ? first_sleep_ns : std::min(sleep_ns * 2, longest_ns);
  }
}

unsigned ThreadedWorkers::concurrency() const {
  for (int cpus = CPU_SETSIZE; cpus <= (1 << 20); cpus *= 4) {
    cpu_set_t* const set = CPU_ALLOC(cpus);
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
    const int failed = ::sched_getaffinity(0, bytes, set);
    const int code = errno;
    const int count = failed == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (failed == 0) return static_cast<unsigned>(std::max(count, 1));
    if (code != EINVAL) break;  // EINVAL: the set is too small for this kernel
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

std::unique_ptr<Workers> make_threaded_workers(Clock& clock) {
  return std::make_unique<ThreadedWorkers>(clock);
}

}  // namespace nobounce::system
