// What a session owns, in the order in which it is taken down.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nobounce/session.hpp>
#include "core/facts.hpp"
#include "core/provider.hpp"
#include "provider/nvme/nvme_provider.hpp"
#include "provider/peer/peer_provider.hpp"
#include "provider/rdma/rdma_provider.hpp"
#include "provider/relay/relay_provider.hpp"
#include "provider/storage/storage_provider.hpp"
#include "session/check.hpp"
#include "session/completion_sink.hpp"
#include "session/file_table.hpp"
#include "session/given_up.hpp"
#include "session/plan_cache.hpp"
#include "session/session_ledger.hpp"
#include "system/cuda_contexts.hpp"
#include "system/host.hpp"

namespace nobounce::session {

/// The movers of a session. Null where this machine has nothing for them to work with.
struct Providers {
  std::unique_ptr<core::Provider> storage;
  std::unique_ptr<provider::PeerProvider> peer;
  std::unique_ptr<core::Provider> host;
  std::unique_ptr<provider::NvmeProvider> nvme;
  std::unique_ptr<core::Provider> staged;
  std::unique_ptr<provider::RdmaProvider> rdma;
  std::unique_ptr<provider::RelayProvider> relay;  ///< staged, too: where an end is a peer's

  [[nodiscard]] std::vector<core::Provider*> all() const;
  [[nodiscard]] core::Provider* of(ProviderKind kind) const;
  /// Of a segment: who stages depends on where its ends are.
  [[nodiscard]] core::Provider* of(const Segment& segment) const;
};

/// GPU memory that this session may transfer, and whether the storage provider knows it.
struct RegionEntry {
  GpuMemory memory;
  AllocationKind kind = AllocationKind::device;
  bool attached = false;
};

/// An ordered pair of places' devices, as a probe transfer found it.
struct PairKey {
  Member member = Member::storage;
  std::string source;  ///< a drive's name (a mount point where there is none), or `gpu:0 device`
  std::string target;
  auto operator<=>(const PairKey&) const = default;
};

struct TransferState_;
class Remotes;
class ServerState;

struct Belief {
  bool believed = false;
  Finding finding;  ///< why not
};

struct SessionState {
  SessionState(system::Host& opened_on, const SessionOptions& chosen);
  ~SessionState();

  system::Host& host;
  SessionOptions options;
  std::uint64_t process_id = 0;
  Machine machine;
  core::HostFacts facts;
  std::optional<Error> cuda_error;  ///< why there are no contexts
  std::unique_ptr<system::CudaContexts> contexts;
  std::optional<provider::CufileConfiguration> cufile_configuration;
  FileTable files;
  Providers providers;
  std::unique_ptr<Dispatcher> dispatcher;
  std::unique_ptr<SessionLedger> ledger;
  std::unique_ptr<Remotes> remotes;

  std::mutex regions_mutex;
  std::map<std::uint64_t, RegionEntry> gpu_regions;           ///< by device address
  std::map<std::uint64_t, system::HostBuffer> host_regions;   ///< allocated ones, by address
  std::vector<HostMemory> host_places;                        ///< of all regions of host memory
  std::map<std::uint32_t, provider::OwnedDriveFacts> drives;  ///< taken ones, by machine drive
  std::vector<ServerState*> servers;                          ///< under regions_mutex
  std::mutex attach_mutex;
  std::mutex probe_mutex;  ///< one probe at a time
  std::mutex beliefs_mutex;
  std::map<PairKey, Belief> beliefs;
  std::atomic<std::uint64_t> beliefs_learnt{0};
  PlanCache plans;
  std::map<std::uint32_t, GpuMemory> probe_memory;  ///< one small buffer per GPU, under probe_mutex

  /// What kernels use by themselves, by their queue; under the dispatcher's lock.
  std::map<const void*, std::vector<Place>> used_by_kernels;
  std::vector<TransferState_*> running;  ///< not ended; under the dispatcher's lock
  GivenUp given_up;

  std::atomic<std::uint64_t> next_transfer{1};
  std::atomic<std::uint64_t> handles{0};  ///< regions, files, transfers and batches alive

  [[nodiscard]] bool forked() const { return host.process().id() != process_id; }
};

/// The error of every call made in a child of the process that opened the session.
[[nodiscard]] Error forked_error(std::string attempted);

/// Who reads or writes a place: nobody, only transfers that were given up, or others, too.
enum class Use : std::uint8_t { none, given_up, live };
/// By transfers and queues of kernels; of files and drives, of any part.
[[nodiscard]] Use use_of(SessionState& state, const Place& place);
/// Ends a handle's state, which must not be in use (`sentence`). Where transfers that were given up
/// use its place it is kept with them.
template <typename State>
void drop(std::unique_ptr<State> state, const Place& place, const char* sentence) {
  SessionState& session = state->session;
  const Use use = session.forked() ? Use::none : use_of(session, place);
  check(use != Use::live, sentence);
  if (use == Use::given_up) session.given_up.keep(std::shared_ptr<State>(std::move(state)));
}

/// Lists the providers, the only place that does. Needs machine, facts, contexts and files.
[[nodiscard]] Providers make_providers(SessionState& state);

/// Stops providers, frees probe memory; regions, files and transfers must be gone.
void close_session(SessionState& state);

/// The region that holds all of `memory`, or null. Under regions_mutex.
[[nodiscard]] RegionEntry* find_region(SessionState& state, const GpuMemory& memory);

/// The same for host memory.
[[nodiscard]] std::optional<HostMemory> host_region_of(const SessionState& state,
                                                       const HostMemory& memory);

/// Allocates GPU memory as cuMemAlloc does, in whole 2 MiB so that its start is aligned for direct
/// storage.
[[nodiscard]] Result<GpuMemory> allocate_gpu(SessionState& state, std::uint32_t gpu,
                                             std::uint64_t length_bytes);
/// While a copy that was given up on still flies nothing is freed before the session's end.
void free_gpu(SessionState& state, const GpuMemory& memory);
void free_host(SessionState& state, const system::HostBuffer& buffer);

}  // namespace nobounce::session
