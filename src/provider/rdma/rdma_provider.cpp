// The RDMA provider: connections, the memory registered for them, and the worker that drives them.
#include "provider/rdma/rdma_provider.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "core/adapter_distance.hpp"
#include "core/device_refs.hpp"
#include "core/remote_segment.hpp"
#include "provider/rdma/adapters.hpp"
#include "provider/rdma/connection.hpp"
#include "provider/rdma/enrolment.hpp"
#include "provider/rdma/mover.hpp"
#include "provider/rdma/statuses.hpp"

namespace nobounce::provider {

namespace {

using rdma::Connection;
using rdma::ConnectionPointer;

namespace cuda = system::cuda;
namespace verbs = system::verbs;

constexpr std::uint64_t look_again_ns = 20'000;
constexpr std::uint64_t destructor_patience_ns = 5'000'000'000;
/// How long a failed queue pair may take to flush what was posted.
constexpr std::uint64_t flush_patience_ns = 1'000'000'000;
constexpr std::ptrdiff_t tries_max = 128;

using core::gpu_ref;

Error no_connection(std::string attempted) {
  return Error{.origin = ErrorOrigin::session,
               .attempted = std::move(attempted),
               .cause = Cause::remote_peer_lost,
               .detail = "there is no connection of that number"};
}

class OneSidedProvider final : public RdmaProvider {
 public:
  OneSidedProvider(system::Host& host, system::CudaContexts* contexts, const Machine& machine)
      : host_(host),
        contexts_(contexts),
        machine_(machine),
        adapters_(host, machine),
        enroller_(host, contexts, machine, adapters_),
        mover_({.landed = [this](const Place& memory) { return make_visible(memory); }}),
        watch_(*this) {}
  ~OneSidedProvider() override {
    if (!closed_) (void)close(host_.clock().now_ns() + destructor_patience_ns);
  }

  [[nodiscard]] ProviderKind kind() const override { return ProviderKind::rdma; }
  [[nodiscard]] Assessment assess(const Segment& segment) override;
  [[nodiscard]] Status attach(const core::RegionView&) override { return {}; }
  void detach(const core::RegionView& region) override;
  void submit(std::span<const core::Operation> operations) override;
  [[nodiscard]] std::size_t poll(std::uint64_t now_ns,
                                 std::span<core::Completion> completions) override;
  void cancel(core::OperationId operation) override;
  bool close(std::uint64_t deadline_ns) override;

  [[nodiscard]] Result<std::vector<wire::QueuePairEndpoint>> open_connection(
      RdmaPeer peer, const RdmaConnectionOptions& options) override;
  [[nodiscard]] Status establish(RdmaPeer peer,
                                 std::span<const wire::QueuePairEndpoint> remote) override;
  void close_connection(RdmaPeer peer, const std::optional<Error>& why) override;
  [[nodiscard]] std::optional<Error> lost(RdmaPeer peer) override;
  [[nodiscard]] Result<RdmaExport> export_region(RdmaPeer peer, std::uint64_t id,
                                                 const core::RegionView& region, RdmaAccess access,
                                                 Policy policy) override;
  [[nodiscard]] Status revoke(RdmaPeer peer, std::uint64_t id) override;
  void rehearse(const RdmaConnectionOptions& options) override;
  [[nodiscard]] Status import_region(RdmaPeer peer, const RdmaExport& offered) override;
  void forget_import(RdmaPeer peer, std::uint64_t id) override;
  void prepare(RdmaPeer peer, const core::RegionView& local, bool kept) override;
  [[nodiscard]] Status make_visible(const Place& memory) override;
  [[nodiscard]] std::vector<Finding> findings(RdmaPeer peer) override;
  [[nodiscard]] std::vector<std::uint32_t> adapters(RdmaPeer peer) override;

 private:
  /// Polls adapters while anything is under way.
  class Watch final : public system::Worker {
   public:
    explicit Watch(OneSidedProvider& owner) : owner_(owner) {}
    [[nodiscard]] system::Step step() override { return owner_.step(); }

   private:
    OneSidedProvider& owner_;
  };

  [[nodiscard]] ConnectionPointer find(RdmaPeer peer);
  /// The local memory of an operation, registered for it alone where that is needed.
  [[nodiscard]] std::shared_ptr<const Connection::Local> enroll_for(
      const core::Operation& operation);
  static void forget_tries(Connection& connection);
  [[nodiscard]] system::Step step();
  [[nodiscard]] Status wake_watch();
  bool advance_all(std::uint64_t now_ns);
  void watch_over(Connection& connection, std::uint64_t now_ns);
  [[nodiscard]] Link link_of(const Connection& connection, const Segment& segment) const;
  void end(const ConnectionPointer& connection, const Error& why);
  [[nodiscard]] std::uint32_t draw_packet_number();

  system::Host& host_;
  system::CudaContexts* contexts_;
  const Machine& machine_;
  rdma::Adapters adapters_;
  rdma::Enroller enroller_;
  mutable std::mutex mutex_;  ///< of what follows
  std::map<RdmaPeer, ConnectionPointer> connections_;
  rdma::Mover mover_;
  bool closed_ = false;
  Watch watch_;
  std::mutex watch_mutex_;
  std::optional<system::WorkerId> watch_id_;
};

ConnectionPointer OneSidedProvider::find(RdmaPeer peer) {
  const std::lock_guard lock(mutex_);
  const auto found = connections_.find(peer);
  return found == connections_.end() ? nullptr : found->second;
}

std::uint32_t OneSidedProvider::draw_packet_number() {
  std::array<std::byte, 4> drawn{};
  host_.entropy().fill(drawn);
  std::uint32_t number = 0;
  for (const std::byte byte : drawn) number = number << 8 | std::to_integer<std::uint32_t>(byte);
  return number & 0xffffff;
}

Result<std::vector<wire::QueuePairEndpoint>> OneSidedProvider::open_connection(
    RdmaPeer peer, const RdmaConnectionOptions& options) {
  const std::string attempted = "open an RDMA connection";
  if (find(peer) != nullptr) {
    return Error{.origin = ErrorOrigin::session,
                 .attempted = attempted,
                 .detail = "there is a connection of that number already"};
  }
  Result<rdma::ChosenAdapters> chosen = adapters_.choose(options);
  if (!chosen.ok()) return std::move(chosen).error();
  Result<system::Verbs*> table = adapters_.table();
  if (!table.ok()) return std::move(table).error();
  auto connection = std::make_shared<Connection>();
  connection->peer = peer;
  connection->silence_ns = options.silence_ns;
  connection->findings = std::move(chosen->findings);
  std::vector<wire::QueuePairEndpoint> endpoints;
  for (const std::shared_ptr<const rdma::Adapter>& adapter : chosen->adapters) {
    Result<std::unique_ptr<rdma::QueuePair>> pair =
        rdma::QueuePair::create(**table, adapter, draw_packet_number(),
                                {.sends = 64, .receives = 1, .silence_ns = options.silence_ns});
    if (!pair.ok()) return std::move(pair).error();
    endpoints.push_back((*pair)->endpoint());
    connection->lanes.push_back({std::move(pair).value(), 0});
  }
  const std::lock_guard lock(mutex_);
  connections_[peer] = std::move(connection);
  return endpoints;
}

Status OneSidedProvider::establish(RdmaPeer peer, std::span<const wire::QueuePairEndpoint> remote) {
  const std::string attempted = "establish an RDMA connection";
  const ConnectionPointer connection = find(peer);
  if (connection == nullptr) return no_connection(attempted);
  const std::lock_guard lock(mutex_);
  if (connection->state != Connection::State::opened || remote.empty()) {
    return Error{
        .origin = ErrorOrigin::session,
        .attempted = attempted,
        .cause = remote.empty() ? Cause::remote_handshake_invalid : Cause::none,
        .detail = remote.empty() ? "the other end has no queue pair" : "it stands already"};
  }
  if (connection->lanes.size() > remote.size()) connection->lanes.resize(remote.size());
  for (std::size_t lane = 0; lane < connection->lanes.size(); ++lane) {
    if (Status joined = connection->lanes[lane].pair->join(remote[lane]); !joined.ok()) {
      return joined;
    }
  }
  connection->state = Connection::State::established;
  return {};
}

void OneSidedProvider::end(const ConnectionPointer& connection, const Error& why) {
  {
    const std::lock_guard lock(mutex_);
    connection->state = Connection::State::ending;
    if (!connection->lost.has_value()) connection->lost = why;
    for (rdma::Lane& lane : connection->lanes) lane.pair->fail();
  }
  // What was posted is flushed; an adapter that tells nothing is not waited for longer than that.
  const auto flushed = [this, &connection] {
    const std::lock_guard lock(mutex_);
    (void)mover_.advance(*connection, host_.clock().now_ns());
    return connection->in_flight() == 0;
  };
  (void)host_.workers().wait(flushed, host_.clock().now_ns() + flush_patience_ns);
  const std::lock_guard lock(mutex_);
  for (rdma::Lane& lane : connection->lanes) lane.pair->destroy();
  mover_.abandon(*connection, *connection->lost);
  connection->imports.clear();
  connection->exports.clear();
  connection->locals.clear();
  const auto found = connections_.find(connection->peer);
  if (found != connections_.end() && found->second == connection) connections_.erase(found);
}

void OneSidedProvider::close_connection(RdmaPeer peer, const std::optional<Error>& why) {
  const ConnectionPointer connection = find(peer);
  if (connection == nullptr) return;
  end(connection, why.value_or(Error{.origin = ErrorOrigin::remote,
                                     .attempted = "move by RDMA",
                                     .cause = Cause::remote_peer_lost,
                                     .detail = "the connection was closed"}));
  host_.workers().notify();
}

std::optional<Error> OneSidedProvider::lost(RdmaPeer peer) {
  const std::lock_guard lock(mutex_);
  const auto found = connections_.find(peer);
  return found == connections_.end() ? no_connection("use an RDMA connection")
                                     : found->second->lost;
}

Result<RdmaExport> OneSidedProvider::export_region(RdmaPeer peer, std::uint64_t id,
                                                   const core::RegionView& region,
                                                   RdmaAccess access, Policy policy) {
  const std::string attempted = "offer memory to a peer";
  const ConnectionPointer connection = find(peer);
  if (connection == nullptr) return no_connection(attempted);
  RdmaExport offered;
  offered.id = id;
  offered.length_bytes = length_bytes(region.place);
  offered.access = access;
  offered.gpu = std::holds_alternative<GpuMemory>(region.place);
  int flags = verbs::access_local_write | verbs::access_remote_read;
  if (access == RdmaAccess::read_write) flags |= verbs::access_remote_write;
  rdma::LaneRegistrations registered = enroller_.enroll(*connection, region, flags);
  for (const std::shared_ptr<rdma::Registration>& each : registered.by_lane) {
    offered.keys.push_back({each->address(), offered.length_bytes, each->remote_key()});
  }
  if (offered.keys.empty()) offered.causes = rdma::causes_of(registered.findings);
  const std::lock_guard lock(mutex_);
  if (connection->state != Connection::State::established) return no_connection(attempted);
  if (connection->lost.has_value()) return *connection->lost;
  connection->note(registered.findings);
  if (offered.keys.empty() && policy == Policy::direct_required) {
    return Error{
        .origin = ErrorOrigin::policy,
        .attempted = attempted,
        .cause = offered.causes.empty() ? Cause::policy_direct_required : offered.causes.front(),
        .detail = "no adapter reaches it, and only direct transfers are allowed"};
  }
  connection->exports[id] = std::move(registered);
  return offered;
}

Status OneSidedProvider::revoke(RdmaPeer peer, std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = connections_.find(peer);
  if (found == connections_.end()) return {};
  Connection& connection = *found->second;
  const auto offered = connection.exports.find(id);
  if (offered == connection.exports.end()) return {};
  std::optional<Error> kept;
  for (const std::shared_ptr<rdma::Registration>& each : offered->second.by_lane) {
    const int code = each->release();
    if (code == verbs::success || kept.has_value()) continue;
    kept = rdma::call_error(code, "take memory back from a peer", Cause::rdma_completion_error);
  }
  if (kept.has_value()) {
    kept->detail += "; the connection's queue pairs were ended instead";
    // Its key would go on to open the memory: without queue pairs nobody can use it.
    for (rdma::Lane& lane : connection.lanes) {
      lane.pair->fail();
      lane.pair->destroy();
    }
  }
  connection.exports.erase(offered);  // and what was kept is tried again
  if (!kept.has_value()) return {};
  if (!connection.lost.has_value()) connection.lost = *kept;
  mover_.abandon(connection, *connection.lost);
  connection.note({rdma::finding_of(*kept, "memory that was withdrawn")});
  return *kept;
}

void OneSidedProvider::rehearse(const RdmaConnectionOptions& options) {
  if (options.near.kind != DeviceRef::Kind::gpu) return;  // host memory needs no probe
  const Result<rdma::ChosenAdapters> chosen = adapters_.choose(options);
  if (!chosen.ok()) return;
  for (const auto& adapter : chosen->adapters) enroller_.rehearse(options.near.index, adapter);
}

Status OneSidedProvider::import_region(RdmaPeer peer, const RdmaExport& offered) {
  const std::lock_guard lock(mutex_);
  const auto found = connections_.find(peer);
  if (found == connections_.end()) return no_connection("use memory of a peer");
  Connection& connection = *found->second;
  const bool lanes = offered.keys.empty() || offered.keys.size() == connection.lanes.size();
  const bool lengths =
      std::all_of(offered.keys.begin(), offered.keys.end(), [&offered](const wire::RemoteKey& key) {
        return key.length_bytes == offered.length_bytes &&
               key.address + key.length_bytes >= key.address;
      });
  if (!lanes || !lengths || connection.state != Connection::State::established) {
    return Error{.origin = ErrorOrigin::remote,
                 .attempted = "use memory of a peer",
                 .cause = Cause::remote_handshake_invalid,
                 .detail = "what the other end offers does not fit its queue pairs"};
  }
  connection.imports[offered.id] = offered;
  return {};
}

void OneSidedProvider::forget_import(RdmaPeer peer, std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = connections_.find(peer);
  if (found != connections_.end()) found->second->imports.erase(id);
}

void OneSidedProvider::prepare(RdmaPeer peer, const core::RegionView& local, bool kept) {
  const ConnectionPointer connection = find(peer);
  if (connection == nullptr || length_bytes(local.place) == 0) return;
  const std::uint64_t buffer = enroller_.buffer_of(local.place);
  const bool for_each = !kept && buffer == 0;
  {
    const std::lock_guard lock(mutex_);
    const Connection::Local* known = connection->local_of(local.place);
    // Other memory behind the same address is other memory.
    if (known != nullptr && known->reachable && known->for_each == for_each &&
        known->registered.buffer == buffer) {
      return;
    }
  }
  rdma::LaneRegistrations registered =
      enroller_.enroll(*connection, local, verbs::access_local_write);
  registered.buffer = buffer;
  const std::lock_guard lock(mutex_);
  if (connection->state != Connection::State::established) return;
  connection->note(registered.findings);
  const bool reachable = registered.usable();
  if (for_each) {
    registered.by_lane.clear();
    forget_tries(*connection);
  }
  connection->locals[rdma::address_of(local.place)] = {local, std::move(registered), for_each,
                                                       reachable};
}

/// With mutex_ held. How registering went for memory that may be gone is worth only so much room.
void OneSidedProvider::forget_tries(Connection& connection) {
  const auto is_try = [](const auto& one) { return one.second.for_each; };
  const auto tries = std::count_if(connection.locals.begin(), connection.locals.end(), is_try);
  if (tries >= tries_max) std::erase_if(connection.locals, is_try);
}

std::shared_ptr<const Connection::Local> OneSidedProvider::enroll_for(
    const core::Operation& operation) {
  const RemoteMemory* remote = core::peer_memory_of(operation.segment);
  if (remote == nullptr) return nullptr;
  const Place& local = core::own_end_of(operation.segment);
  core::RegionView view{local, AllocationKind::unknown};
  const ConnectionPointer connection = find(remote->peer);
  if (connection == nullptr) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (connection->state != Connection::State::established) return nullptr;
    const Connection::Local* known = connection->local_of(local);
    const bool host = std::holds_alternative<HostMemory>(local);
    if (known == nullptr ? !host : !known->for_each) return nullptr;
    if (known != nullptr) view.kind = known->region.kind;
  }
  auto own = std::make_shared<Connection::Local>();
  own->region = view;
  own->registered = enroller_.enroll(*connection, view, verbs::access_local_write);
  own->reachable = own->registered.usable();
  return own;
}

void OneSidedProvider::detach(const core::RegionView& region) {
  const std::uint64_t begin = rdma::address_of(region.place);
  const std::uint64_t end = begin + length_bytes(region.place);
  const std::lock_guard lock(mutex_);
  for (const auto& [peer, connection] : connections_) {
    auto at = connection->locals.lower_bound(begin);
    while (at != connection->locals.end() && at->first < end) at = connection->locals.erase(at);
  }
}

Assessment OneSidedProvider::assess(const Segment& segment) {
  Assessment assessment;
  const RemoteMemory* remote = core::peer_memory_of(segment);
  if (remote == nullptr) return assessment;
  if (segment.expected != Carriage::direct) return assessment;  // others stage
  const Place& local = core::own_end_of(segment);
  const std::lock_guard lock(mutex_);
  const auto found = connections_.find(remote->peer);
  if (found == connections_.end()) return assessment;
  const Connection& connection = *found->second;
  assessment.usable = connection.state == Connection::State::established;
  const auto add = [&assessment](Finding finding) {
    if (finding.state == FindingState::unmet) assessment.usable = false;
    assessment.findings.push_back(std::move(finding));
  };
  if (connection.lost.has_value()) add(rdma::finding_of(*connection.lost, "the connection"));
  const auto import = connection.imports.find(remote->key);
  if (import == connection.imports.end()) {
    assessment.usable = false;
    return assessment;
  }
  for (const Cause cause :
       import->second.keys.empty() ? import->second.causes : std::vector<Cause>{}) {
    add(rdma::far_finding(cause));
  }
  if (import->second.keys.empty() && segment.length_bytes > 0) assessment.usable = false;
  if (segment.length_bytes == 0) return assessment;
  const Connection::Local* memory = connection.local_of(local);
  if (memory == nullptr) {
    assessment.findings.push_back(rdma::not_tried(local));
    return assessment;
  }
  for (const Finding& each : memory->registered.findings) {
    Finding copied = each;
    // An attempt that failed beside another that went well forbids nothing.
    if (memory->reachable && copied.state == FindingState::unmet) continue;
    add(std::move(copied));
  }
  if (!memory->reachable) assessment.usable = false;
  return assessment;
}

Link OneSidedProvider::link_of(const Connection& connection, const Segment& segment) const {
  const Place& local = core::own_end_of(segment);
  const auto* gpu = std::get_if<GpuMemory>(&local);
  const std::optional<std::uint32_t> nic =
      connection.lanes.empty() ? std::nullopt : connection.lanes[0].pair->adapter().nic;
  if (!nic.has_value()) return Link::none;
  const DeviceRef adapter{DeviceRef::Kind::nic, static_cast<std::uint16_t>(*nic)};
  if (gpu == nullptr) {
    const DeviceRef memory{DeviceRef::Kind::host,
                           static_cast<std::uint16_t>(numa_of(machine_, adapter))};
    return core::adapter_link(machine_, *nic, memory);
  }
  return gpu->gpu < machine_.gpus.size() ? path_between(machine_, adapter, gpu_ref(gpu->gpu)).link
                                         : Link::none;
}

void OneSidedProvider::submit(std::span<const core::Operation> operations) {
  const Status watched = wake_watch();
  std::vector<std::shared_ptr<const Connection::Local>> own;
  for (const core::Operation& operation : operations) own.push_back(enroll_for(operation));
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const core::Operation& operation = operations[i];
      const RemoteMemory* remote = core::peer_memory_of(operation.segment);
      const auto found = remote == nullptr ? connections_.end() : connections_.find(remote->peer);
      const ConnectionPointer connection = found == connections_.end() ? nullptr : found->second;
      if (!watched.ok()) {
        mover_.refuse(operation.id, watched.error());
        continue;
      }
      mover_.add(operation, connection,
                 connection == nullptr ? Link::none : link_of(*connection, operation.segment),
                 std::move(own[i]));
    }
    (void)advance_all(host_.clock().now_ns());
  }
  (void)wake_watch();
  host_.workers().notify();
}

std::size_t OneSidedProvider::poll(std::uint64_t now_ns, std::span<core::Completion> completions) {
  const std::lock_guard lock(mutex_);
  (void)advance_all(now_ns);
  return mover_.take(completions);
}

void OneSidedProvider::cancel(core::OperationId operation) {
  const std::lock_guard lock(mutex_);
  mover_.cancel(operation);
}

/// With mutex_ held. An adapter that owes completions and tells none is given up.
void OneSidedProvider::watch_over(Connection& connection, std::uint64_t now_ns) {
  if (connection.in_flight() == 0) return;
  const std::uint64_t patience_ns = 4 * connection.silence_ns + flush_patience_ns;
  if (!connection.lost.has_value()) {
    if (now_ns < connection.progress_ns + patience_ns) return;
    connection.lost = Error{.origin = ErrorOrigin::verbs,
                            .attempted = "move by RDMA",
                            .cause = Cause::rdma_completion_error,
                            .detail = "the adapter completed nothing for " +
                                      std::to_string(patience_ns / 1'000'000) + " ms"};
  }
  if (connection.failing_since_ns == 0) {
    connection.failing_since_ns = now_ns;
    for (rdma::Lane& lane : connection.lanes) lane.pair->fail();
    return;
  }
  if (now_ns < connection.failing_since_ns + flush_patience_ns) return;
  // Not even flushed: without its queue pairs it moves nothing any more.
  for (rdma::Lane& lane : connection.lanes) lane.pair->destroy();
  mover_.abandon(connection, *connection.lost);
}

/// With mutex_ held.
bool OneSidedProvider::advance_all(std::uint64_t now_ns) {
  bool any = mover_.expire(now_ns);
  for (const auto& [peer, connection] : connections_) {
    any = mover_.advance(*connection, now_ns) || any;
    watch_over(*connection, now_ns);
  }
  return any;
}

system::Step OneSidedProvider::step() {
  const std::uint64_t now_ns = host_.clock().now_ns();
  bool idle = false;
  bool any = false;
  {
    const std::lock_guard lock(mutex_);
    any = advance_all(now_ns);
    idle = mover_.idle();
  }
  if (any) host_.workers().notify();
  if (idle) return system::Step::idle();
  return any ? system::Step::busy() : system::Step::idle_until(now_ns + look_again_ns);
}

Status OneSidedProvider::wake_watch() {
  const std::lock_guard lock(watch_mutex_);
  if (watch_id_.has_value()) {
    host_.workers().wake(*watch_id_);
    return {};
  }
  Result<system::WorkerId> id = host_.workers().start(watch_, "rdma");
  if (!id.ok()) return std::move(id).error();
  watch_id_ = *id;
  return {};
}

Status OneSidedProvider::make_visible(const Place& memory) {
  const auto* gpu = std::get_if<GpuMemory>(&memory);
  if (gpu == nullptr || contexts_ == nullptr) return {};
  const Result<cuda::CUcontext> context = contexts_->context(gpu->gpu);
  const Result<cuda::CUdevice> device = contexts_->device(gpu->gpu);
  if (!context.ok()) return context.error();
  if (!device.ok()) return device.error();
  system::Cuda& table = contexts_->table();
  int ordering = 0;
  const cuda::CUresult code = table.device_get_attribute(
      &ordering, cuda::attribute_gpu_direct_rdma_writes_ordering, *device);
  if (code == cuda::success && ordering >= cuda::flush_to_owner) return {};  // so it is by itself
  const system::ContextGuard guard(table, *context);
  const cuda::CUresult flushed =
      table.flush_gpu_direct_rdma_writes(cuda::flush_target_current_context, cuda::flush_to_owner);
  if (flushed == cuda::success) return {};
  Error error = system::cuda_error(
      table, flushed, "make what adapters wrote visible to gpu:" + std::to_string(gpu->gpu));
  if (error.cause == Cause::none) error.cause = Cause::rdma_completion_error;
  return error;
}

std::vector<Finding> OneSidedProvider::findings(RdmaPeer peer) {
  const std::lock_guard lock(mutex_);
  const auto found = connections_.find(peer);
  return found == connections_.end() ? std::vector<Finding>{} : found->second->findings;
}

std::vector<std::uint32_t> OneSidedProvider::adapters(RdmaPeer peer) {
  std::vector<std::uint32_t> nics;
  const std::lock_guard lock(mutex_);
  const auto found = connections_.find(peer);
  if (found == connections_.end()) return nics;
  for (const rdma::Lane& lane : found->second->lanes) {
    if (lane.pair->adapter().nic.has_value()) nics.push_back(*lane.pair->adapter().nic);
  }
  return nics;
}

bool OneSidedProvider::close(std::uint64_t deadline_ns) {
  if (closed_) return true;
  closed_ = true;
  {
    const std::lock_guard lock(mutex_);
    mover_.cancel_all();
  }
  const auto ended = [this] {
    const std::lock_guard lock(mutex_);
    (void)advance_all(host_.clock().now_ns());
    return mover_.idle();
  };
  const bool in_time = host_.workers().wait(ended, deadline_ns);
  std::vector<ConnectionPointer> left;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [peer, connection] : connections_) left.push_back(connection);
  }
  for (const ConnectionPointer& connection : left) {
    end(connection, Error{.attempted = "move by RDMA",
                          .cause = Cause::session_closed,
                          .detail = "the session is closing"});
  }
  const std::lock_guard lock(watch_mutex_);
  if (watch_id_.has_value()) host_.workers().stop(*watch_id_);
  watch_id_.reset();
  return in_time;
}

}  // namespace

std::unique_ptr<RdmaProvider> make_rdma_provider(system::Host& host, system::CudaContexts* contexts,
                                                 const Machine& machine) {
  return std::make_unique<OneSidedProvider>(host, contexts, machine);
}

}  // namespace nobounce::provider
