// LiveEntropy: the kernel's random bytes.
#include <sys/random.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "system/live_host.hpp"

namespace nobounce::system {
namespace {

class LiveEntropy final : public Entropy {
 public:
  void fill(std::span<std::byte> target) override {
    while (!target.empty()) {
      const ssize_t got = ::getrandom(target.data(), target.size(), 0);
      if (got > 0) {
        target = target.subspan(static_cast<std::size_t>(got));
      } else if (errno != EINTR) {
        // Names and seeds that repeat would be worse than stopping.
        std::fputs("nobounce: the kernel gives no random bytes (getrandom)\n", stderr);
        std::abort();
      }
    }
  }
};

}  // namespace

std::unique_ptr<Entropy> make_live_entropy() {
  return std::make_unique<LiveEntropy>();
}

}  // namespace nobounce::system
