// An ordered pair of GPUs as a program without nobounce uses it, and what NVLink's counters say.
#pragma once

#include <cstdint>

#include "support/cuda_driver.hpp"
#include "system/nvml.hpp"

namespace nobounce::bench {

/// Contexts, memory and a stream of the source, for the plain calls.
class Pair {
 public:
  Pair(const test::CudaDriver& driver, int source, int target, std::uint64_t bytes)
      : driver_(driver), devices_{source, target} {
    for (int i = 0; i < 2; ++i) {
      (void)driver.retain(&contexts[i], devices_[i]);
      const Current current(*this, i);
      good = good && driver.allocate(&memory[i], bytes) == 0;
    }
    const Current current(*this, 0);
    good = good && driver.create_stream(&stream, 1) == 0;
  }
  ~Pair() {
    for (int i = 0; i < 2; ++i) {
      const Current current(*this, i);
      (void)driver_.free(memory[i]);
    }
    for (const int device : devices_) (void)driver_.release(device);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  class Current {
   public:
    Current(const Pair& pair, int index) : pair_(pair) {
      (void)pair.driver_.push(pair.contexts[index]);
    }
    ~Current() {
      void* popped = nullptr;
      (void)pair_.driver_.pop(&popped);
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    const Pair& pair_;
  };

  /// cuMemcpyPeerAsync in a stream of the source, waited for.
  [[nodiscard]] bool copy(std::uint64_t bytes) const {
    const Current current(*this, 0);
    return driver_.peer_copy(memory[1], contexts[1], memory[0], contexts[0], bytes, stream) == 0 &&
           driver_.synchronize(stream) == 0;
  }
  /// Both ways, as applications do.
  void enable(bool on) const {
    for (int i = 0; i < 2; ++i) {
      const Current current(*this, i);
      (void)(on ? driver_.enable_peer(contexts[1 - i], 0) : driver_.disable_peer(contexts[1 - i]));
    }
  }

  void* contexts[2] = {nullptr, nullptr};
  test::Pointer memory[2] = {0, 0};
  void* stream = nullptr;
  bool good = true;

 private:
  const test::CudaDriver& driver_;
  int devices_[2];
};

/// Data bytes that NVLink carried, by NVML: out of the source and into the target.
struct LinkBytes {
  double sent = 0;
  double received = 0;
};
[[nodiscard]] LinkBytes link_bytes(system::Nvml& table, int source, int target);

}  // namespace nobounce::bench
