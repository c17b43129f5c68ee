// Peer access between the contexts of two GPUs: it cannot be queried, only tried.
#pragma once

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
  /// What is known of the pair's access by trying; unknown before.
  [[nodiscard]] Finding finding(std::uint32_t source, std::uint32_t target) const;

 private:
  using Pair = std::pair<std::uint32_t, std::uint32_t>;
  struct Answer {
    std::optional<Error> refusal;  ///< empty: enabled
  };

  system::CudaContexts& contexts_;
  mutable std::mutex mutex_;
  std::map<Pair, Answer> answers_;
};

}  // namespace nobounce::provider::peer
