// Relay: memory of this process <-> memory of another one, through bounce slots in host memory at
// either end and a TCP connection between them. Staged, and always says so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include <nobounce/error.hpp>
#include "core/provider.hpp"
#include "system/cuda_contexts.hpp"
#include "system/host.hpp"
#include "wire/link.hpp"

namespace nobounce::provider {

/// The active end: RemoteMemory{peer, offset into the export, its key, length}. Thread-safe. Its
/// work is done by whoever calls step, the worker of the connection.
class RelayProvider : public core::Provider {
 public:
  /// From now on operations with this peer can be submitted. The link must outlive remove().
  /// `wake` makes somebody call step; it is called under the provider's lock.
  virtual void add(std::uint32_t peer, wire::Link& link, std::function<void()> wake) = 0;
  /// Operations with it fail with `why` from now on. Never waits.
  virtual void lose(std::uint32_t peer, const Error& why) = 0;
  /// The same, and forgets it; returns when none of them touches memory any more, or copies that
  /// hang have been given up on: then what they use stays until they have landed.
  virtual void remove(std::uint32_t peer, const Error& why) = 0;

  /// StageData, StageDone and StageFailed of a peer. An answer that fits nothing that was asked is
  /// refused (remote.handshake_invalid): the connection is to be ended then.
  [[nodiscard]] virtual Status take(std::uint32_t peer, wire::Link::Incoming answer) = 0;
  /// Goes on with a peer's operations. Answers when to be called again at the latest: now for
  /// copies under way, 0 for never.
  [[nodiscard]] virtual std::uint64_t step(std::uint32_t peer) = 0;
};

/// `contexts` may be null on a machine without GPU. References must outlive the provider.
[[nodiscard]] std::unique_ptr<RelayProvider> make_relay_provider(system::Host& host,
                                                                 system::CudaContexts* contexts);

}  // namespace nobounce::provider
