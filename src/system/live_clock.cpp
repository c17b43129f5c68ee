// LiveClock: the kernel's monotonic clock.
#include <ctime>

#include "system/live_host.hpp"

namespace nobounce::system {
namespace {

class LiveClock final : public Clock {
 public:
  std::uint64_t now_ns() override {
    std::timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);  // cannot fail for this clock
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(now.tv_nsec);
  }
};

}  // namespace

std::unique_ptr<Clock> make_live_clock() {
  return std::make_unique<LiveClock>();
}

}  // namespace nobounce::system
