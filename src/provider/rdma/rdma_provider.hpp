// RDMA: memory of this process <-> memory of another one by network adapters that read and write it
// themselves (direct).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nobounce/machine.hpp>
#include <nobounce/receipt.hpp>
#include <nobounce/result.hpp>
#include "core/provider.hpp"
#include "system/cuda_contexts.hpp"
#include "system/host.hpp"
#include "wire/endpoint.hpp"

namespace nobounce::provider {

/// A connection of the session, as it numbers them: RemoteMemory::peer.
using RdmaPeer = std::uint32_t;

inline constexpr std::size_t rdma_lanes_max = 8;
inline constexpr std::size_t rdma_causes_max = 4;

struct RdmaConnectionOptions {
  /// Whose memory will travel: adapters are chosen by their distance to it (gpu:N; host: any).
  DeviceRef near{DeviceRef::Kind::host, 0};
  /// By name, used as asked for and judged; empty: chosen by distance.
  std::vector<std::string> adapters;
  /// Equally near adapters that share the work; 0: as many as there are, at most rdma_lanes_max.
  std::uint32_t lanes_max = 0;
  /// How long an adapter may wait for an acknowledgement, all its retries together, before the
  /// other end counts as lost.
  std::uint64_t silence_ns = 4'000'000'000;
};

enum class RdmaAccess : std::uint8_t { read, read_write };

/// Memory that one end offers to the other, on one connection.
struct RdmaExport {
  std::uint64_t id = 0;  ///< chosen by the offering end; RemoteMemory::key at the other one
  std::uint64_t length_bytes = 0;
  RdmaAccess access = RdmaAccess::read;
  bool gpu = false;
  /// One per lane where adapters reach the memory itself; empty: staged at the offering end.
  std::vector<wire::RemoteKey> keys;
  std::vector<Cause> causes;  ///< why it is staged, the first first; at most rdma_causes_max
  bool operator==(const RdmaExport&) const = default;
};

/// Beside what every provider does, connections. Each has queue pairs, protection domains and
/// memory regions of its own, so that a key of one is of no use on another.
///
///   both ends:   open_connection -> exchange the endpoints -> establish
///   offering:    export_region -> tell the other end      (any number of them)
///   using:       import_region -> prepare -> submit       (RemoteMemory{peer, 0.., id, length})
///
/// RemoteMemory::address is an offset into the export. It moves directly or not at all: an end
/// whose memory no adapter reaches is served by other movers.
class RdmaProvider : public core::Provider {
 public:
  /// Chooses adapters and makes a queue pair on each (INIT): what the other end must be told, lane
  /// by lane. Refuses with rdma.verbs_absent, no_rdma_device, device_unreadable, port_down, no_gid,
  /// no_reliable_connection.
  [[nodiscard]] virtual Result<std::vector<wire::QueuePairEndpoint>> open_connection(
      RdmaPeer peer, const RdmaConnectionOptions& options) = 0;
  /// Joins them to those of the other end (RTR, RTS). Lanes beyond the shorter list are given up.
  [[nodiscard]] virtual Status establish(RdmaPeer peer,
                                         std::span<const wire::QueuePairEndpoint> remote) = 0;
  /// Ends everything of a connection: operations under way fail with remote.peer_lost, or with
  /// `why`. Its number may be used again.
  virtual void close_connection(RdmaPeer peer, const std::optional<Error>& why = std::nullopt) = 0;
  /// Why the other end counts as lost, once it does: an adapter gave up, or a queue pair failed.
  [[nodiscard]] virtual std::optional<Error> lost(RdmaPeer peer) = 0;

  /// Registers memory with every lane: dma-buf, then nvidia_peermem, each probed once per GPU and
  /// adapter before it is believed; else it is offered staged, and says why. `direct_required`
  /// refuses that instead (policy, with the cause).
  [[nodiscard]] virtual Result<RdmaExport> export_region(RdmaPeer peer, std::uint64_t id,
                                                         const core::RegionView& region,
                                                         RdmaAccess access, Policy policy) = 0;
  /// Nobody reaches it by its keys any more when this returns. An adapter that does not give a
  /// registration back costs the connection its queue pairs, which the answer says. Unknown ids are
  /// nothing to do.
  [[nodiscard]] virtual Status revoke(RdmaPeer peer, std::uint64_t id) = 0;
  /// Probes the pairs that a connection with these options would have to probe before it offers
  /// memory of `near`, so that nobody waits for it then. Blocks. Moves nothing of the user's.
  virtual void rehearse(const RdmaConnectionOptions& options) = 0;
  /// What export_region answered at the other end. Refuses what contradicts itself or the lanes.
  [[nodiscard]] virtual Status import_region(RdmaPeer peer, const RdmaExport& offered) = 0;
  virtual void forget_import(RdmaPeer peer, std::uint64_t id) = 0;

  /// Registers and probes the local memory of transfers, so that assess() knows. Blocks for a
  /// probe. Moves nothing of the user's. What is `kept` stays registered until detach, or while the
  /// connection stands: its owner says when it goes. Other host memory may be freed, and its
  /// address mean other pages, without a word: it is registered for each operation alone.
  virtual void prepare(RdmaPeer peer, const core::RegionView& local, bool kept = true) = 0;
  /// Bytes that adapters have written into this memory are seen by all work that its GPU starts
  /// from now on, unless it answers why not. For the end that was written to; completions of reads
  /// have it done.
  [[nodiscard]] virtual Status make_visible(const Place& memory) = 0;

  /// Every attempt at registering memory and every choice of an adapter so far, for a connection:
  /// each once, and of very many the latest.
  [[nodiscard]] virtual std::vector<Finding> findings(RdmaPeer peer) = 0;
  /// The adapters of a connection, by lane: indices into Machine::nics.
  [[nodiscard]] virtual std::vector<std::uint32_t> adapters(RdmaPeer peer) = 0;
};

/// `contexts` may be null on a machine without GPU. All references must outlive the provider.
/// Thread-safe.
[[nodiscard]] std::unique_ptr<RdmaProvider> make_rdma_provider(system::Host& host,
                                                               system::CudaContexts* contexts,
                                                               const Machine& machine);

}  // namespace nobounce::provider
