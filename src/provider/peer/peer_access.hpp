// Peer access between the contexts of two GPUs: it cannot be queried, only tried.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <nobounce/finding.hpp>
#include <nobounce/result.hpp>
#include "system/cuda_contexts.hpp"

namespace nobounce::provider::peer {

/// Remembers what the driver answered last for each ordered pair. What was enabled stays so: others
/// in this process may rely on it by now. Thread-safe.
class PeerAccess {
 public:
  explicit PeerAccess(system::CudaContexts& contexts) : contexts_(contexts) {}

  /// Lets `gpu` reach the memory of `owner`. Asks the driver each time, since somebody may have
  /// disabled it meanwhile. Cause p2p_peer_access_not_enabled where it refuses.
  [[nodiscard]] Status enable(std::uint32_t gpu, std::uint32_t owner);
  /// Both ways, as a copy needs it.
  [[nodiscard]] Status enable_both(std::uint32_t source, std::uint32_t target);
  /// The contexts of a pair that was enabled both ways; empty before, and where the driver refused.
  struct Contexts {
    system::cuda::CUcontext source = nullptr;
    system::cuda::CUcontext target = nullptr;
  };
  [[nodiscard]] std::optional<Contexts> enabled(std::uint32_t source, std::uint32_t target) const;
  /// Lets the current context reach `peer` once more; enable explains why where it does not.
  [[nodiscard]] bool enable_again(system::cuda::CUcontext peer);
  /// What is known of the pair's access by trying; unknown before.
  [[nodiscard]] Finding finding(std::uint32_t source, std::uint32_t target) const;
  /// Another number whenever finding may answer otherwise.
  [[nodiscard]] std::uint64_t lessons() const { return lessons_.load(std::memory_order_acquire); }

 private:
  using Pair = std::pair<std::uint32_t, std::uint32_t>;
  struct Answer {
    std::optional<Error> refusal;  ///< empty: enabled
    system::cuda::CUcontext own = nullptr;
    system::cuda::CUcontext peer = nullptr;
  };
  /// Under the lock.
  void learn(const Pair& pair, std::optional<Answer> answer);

  system::CudaContexts& contexts_;
  mutable std::mutex mutex_;
  std::map<Pair, Answer> answers_;
  std::atomic<std::uint64_t> lessons_{0};
};

}  // namespace nobounce::provider::peer
