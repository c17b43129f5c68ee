// Two GPUs with their primary contexts, and what a peer test needs of them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "device/device_rig.hpp"

namespace nobounce::device {

constexpr auto peer_limit = std::chrono::seconds(30);

/// A primary context of each of two GPUs, retained for a test; none is current.
class TwoContexts {
 public:
  TwoContexts(int first, int second) : devices_{first, second} {
    for (int i = 0; i < 2; ++i) (void)driver().retain(&contexts_[i], devices_[i]);
  }
  ~TwoContexts() {
    for (const int device : devices_) (void)driver().release(device);
  }
  TwoContexts(const TwoContexts&) = delete;
  TwoContexts& operator=(const TwoContexts&) = delete;
  [[nodiscard]] void* of(int index) const { return contexts_[index]; }

 private:
  int devices_[2];
  void* contexts_[2] = {nullptr, nullptr};
};

/// Makes a context current for its lifetime.
class Current {
 public:
  explicit Current(void* context) { (void)driver().push(context); }
  ~Current() {
    void* popped = nullptr;
    (void)driver().pop(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
};

[[nodiscard]] inline std::vector<std::pair<int, int>> ordered_pairs() {
  std::vector<std::pair<int, int>> pairs;
  const int count = driver().gpus();
  for (int source = 0; source < count; ++source) {
    for (int target = 0; target < count; ++target) {
      if (source != target) pairs.emplace_back(source, target);
    }
  }
  return pairs;
}

[[nodiscard]] inline bool possible(int source, int target) {
  int can = 0;
  return driver().can_access_peer(&can, source, target) == 0 && can == 1;
}

}  // namespace nobounce::device
