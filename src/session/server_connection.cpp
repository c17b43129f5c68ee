// One peer of a server.
#include "session/server_connection.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "session/remotes.hpp"

namespace nobounce::session {

namespace {

constexpr std::size_t under_way_max = 4096;
constexpr std::size_t granted_max = 256;

wire::LinkOptions link_options(const ServerShare& share) {
  wire::LinkOptions options{
      .role = wire::Role::server,
      .name = share.options.name,
      .deadline_ns = share.session.host.clock().now_ns() + share.options.handshake_ns};
  share.session.host.entropy().fill(options.nonce);
  return options;
}

DeviceRef device_of(const Place& place) {
  if (const auto* gpu = std::get_if<GpuMemory>(&place))
    return {DeviceRef::Kind::gpu, static_cast<std::uint16_t>(gpu->gpu)};
  return {DeviceRef::Kind::host, 0};
}

}  // namespace

ServerConnection::ServerConnection(const ServerShare& share, std::uint64_t serial,
                                   system::Network& network, system::SocketHandle socket,
                                   std::string address)
    : share_(share),
      serial_(serial),
      number_(share.session.remotes->next_number()),
      address_(std::move(address)),
      link_(network, socket, share.token, link_options(share)),
      relay_(
          share.session.host, share.session.contexts.get(), link_,
          [this](std::uint64_t key, std::uint64_t offset, std::uint64_t length,
                 wire::Direction direction) { return resolve(key, offset, length, direction); }) {}

ServerConnection::~ServerConnection() {
  if (lanes_open_) share_.session.providers.rdma->close_connection(number_);
}

void ServerConnection::end_by(std::uint64_t deadline_ns) {
  relay_.drop_waiting();
  // A copy engine may still be at it.
  (void)share_.session.host.workers().wait([this] { return !relay_.step(); }, deadline_ns);
}

bool ServerConnection::greeting() const {
  const wire::LinkState state = link_.state();
  return state == wire::LinkState::closing || (!welcomed_ && state == wire::LinkState::greeting);
}

ServerEvent ServerConnection::event(ServerEvent::Kind kind) const {
  return ServerEvent{
      .kind = kind, .connection = serial_, .address = address_, .peer = link_.peer_name()};
}

void ServerConnection::refuse(const Error& error) {
  link_.refuse(error, share_.session.host.clock().now_ns());
}

bool ServerConnection::step(bool full) {
  if (over_) return false;
  bool moved = link_.pump(share_.session.host.clock().now_ns());
  if (!welcomed_ && !lost_ && link_.state() == wire::LinkState::standing) {
    welcomed_ = true;
    if (full) {
      refuse(wire::remote_error(Cause::remote_too_many_connections, "accept one more connection",
                                "there are " + std::to_string(share_.options.connections_max)));
    } else {
      share_.tell(event(ServerEvent::Kind::connected));
    }
  }
  while (std::optional<wire::Link::Incoming> message = link_.take()) {
    moved = true;
    handle(std::move(*message));
  }
  copying_ = relay_.step();
  forget_closed();
  const wire::LinkState state = link_.state();
  if (state == wire::LinkState::closing || state == wire::LinkState::ended) lose();
  over_ = state == wire::LinkState::ended && !copying_;
  return moved;
}

void ServerConnection::handle(wire::Link::Incoming message) {
  if (std::holds_alternative<wire::StageRead>(message.message) ||
      std::holds_alternative<wire::StageWrite>(message.message)) {
    if (const Status taken = relay_.take(std::move(message)); !taken.ok()) refuse(taken.error());
  } else if (const auto* wanted = std::get_if<wire::Open>(&message.message)) {
    open(*wanted);
  } else if (const auto* asked = std::get_if<wire::List>(&message.message)) {
    list(*asked);
  } else if (const auto* lanes = std::get_if<wire::Attach>(&message.message)) {
    attach(*lanes);
  } else if (const auto* begun = std::get_if<wire::Begin>(&message.message)) {
    begin(*begun);
  } else if (const auto* closed = std::get_if<wire::Close>(&message.message)) {
    close(*closed);
  } else if (const auto* ended = std::get_if<wire::Report>(&message.message)) {
    report(*ended);
  } else {
    refuse(wire::remote_error(Cause::remote_handshake_invalid, "read what the peer sent",
                              "a message that only a server sends"));
  }
}

void ServerConnection::refuse_request(std::uint32_t request, const Error& error,
                                      const std::string& name) {
  (void)link_.send(wire::refusal_of(request, error));
  ServerEvent told = event(ServerEvent::Kind::refused);
  told.name = name;
  told.error = error;
  share_.tell(std::move(told));
}

ExportEntry* ServerConnection::export_of(std::uint64_t key) {
  const auto granted = granted_.find(key);
  if (granted == granted_.end() || granted->second.closed) return nullptr;
  const auto found = share_.exports.find(granted->second.number);
  return found == share_.exports.end() || found->second.withdrawn ? nullptr : &found->second;
}

void ServerConnection::open(const wire::Open& wanted) {
  const std::string attempted = "open " + wanted.name;
  const auto found =
      std::find_if(share_.exports.begin(), share_.exports.end(), [&](const auto& entry) {
        return entry.second.name == wanted.name && !entry.second.withdrawn;
      });
  if (found == share_.exports.end()) {
    return refuse_request(wanted.request,
                          wire::remote_error(Cause::remote_name_unknown, attempted,
                                             "nothing of that name is served here"),
                          wanted.name);
  }
  const ExportEntry& entry = found->second;
  if (wanted.access == wire::Access::write && entry.access != RemoteAccess::write) {
    return refuse_request(
        wanted.request,
        wire::remote_error(Cause::remote_access_denied, attempted + " for writing",
                           entry.name + " is read-only"),
        entry.name);
  }
  if (granted_.size() >= granted_max) {
    // Keys of what was withdrawn are kept only to say so; they make room for what is served.
    const auto withdrawn = std::find_if(granted_.begin(), granted_.end(),
                                        [](const auto& one) { return one.second.number == 0; });
    if (withdrawn != granted_.end()) granted_.erase(withdrawn);
  }
  if (granted_.size() >= granted_max) {
    return refuse_request(
        wanted.request,
        wire::remote_error(Cause::remote_too_many_connections, attempted,
                           "this connection has opened " + std::to_string(granted_max)),
        entry.name);
  }
  std::uint64_t key = 0;
  while (key == 0 || granted_.contains(key))
    share_.session.host.entropy().fill(std::as_writable_bytes(std::span(&key, 1)));
  const bool write = wanted.access == wire::Access::write;
  granted_[key].number = entry.number;
  granted_[key].access = write ? RemoteAccess::write : RemoteAccess::read;
  (void)link_.send(wire::Opened{.request = wanted.request,
                                .key = key,
                                .length_bytes = length_bytes(entry.place),
                                .access = wanted.access,
                                .place = std::holds_alternative<GpuMemory>(entry.place)
                                             ? wire::PlaceKind::gpu
                                             : wire::PlaceKind::host,
                                .device = entry.device});
  ServerEvent told = event(ServerEvent::Kind::opened);
  told.name = entry.name;
  share_.tell(std::move(told));
}

void ServerConnection::list(const wire::List& asked) {
  wire::Listed listed{.request = asked.request, .exports = {}};
  for (const auto& [number, entry] : share_.exports) {
    if (entry.withdrawn || listed.exports.size() == wire::listed_max) continue;
    listed.exports.push_back(
        {entry.name, entry.device, length_bytes(entry.place),
         entry.access == RemoteAccess::write ? wire::Access::write : wire::Access::read});
  }
  (void)link_.send(listed);
}

void ServerConnection::attach(const wire::Attach& lanes) {
  const auto granted = granted_.find(lanes.key);
  const ExportEntry* const entry = export_of(lanes.key);
  if (entry == nullptr) {
    return refuse_request(
        lanes.request,
        wire::remote_error(granted == granted_.end() || granted->second.closed
                               ? Cause::remote_name_unknown
                               : Cause::remote_revoked,
                           "join adapters", "this connection has no export with that key"),
        "");
  }
  Result<wire::Attached> joined = join(lanes, granted->second);
  if (!joined.ok()) granted->second.not_direct = joined.error().cause;
  if (!joined.ok()) return refuse_request(lanes.request, joined.error(), entry->name);
  (void)link_.send(*joined);
}

Result<wire::Attached> ServerConnection::join(const wire::Attach& lanes, Granted& granted) {
  provider::RdmaProvider* const rdma = share_.session.providers.rdma.get();
  const ExportEntry& entry = share_.exports.at(granted.number);
  if (rdma == nullptr) {
    return wire::remote_error(Cause::rdma_verbs_absent, "join adapters",
                              "this end uses no adapters");
  }
  wire::Attached answer{.request = lanes.request};
  if (lanes.lanes.empty() != lanes_open_) {
    return wire::remote_error(Cause::remote_handshake_invalid, "join adapters",
                              lanes_open_ ? "they are joined already" : "they are not joined yet");
  }
  if (!lanes_open_) {
    Result<std::vector<wire::QueuePairEndpoint>> own = rdma->open_connection(
        number_, {.near = device_of(entry.place), .adapters = share_.options.adapters});
    if (!own.ok()) return std::move(own).error();
    if (const Status ready = rdma->establish(number_, lanes.lanes); !ready.ok()) {
      rdma->close_connection(number_);
      return ready.error();
    }
    lanes_open_ = true;
    answer.lanes = std::move(*own);
  }
  Result<provider::RdmaExport> offered =
      rdma->export_region(number_, lanes.key, {entry.place, entry.kind},
                          granted.access == RemoteAccess::write ? provider::RdmaAccess::read_write
                                                                : provider::RdmaAccess::read,
                          share_.options.policy);
  if (!offered.ok()) {
    if (!answer.lanes.empty()) {  // the peer will not join them either
      rdma->close_connection(number_);
      lanes_open_ = false;
    }
    return std::move(offered).error();
  }
  granted.registered = true;
  answer.keys = offered->keys;
  answer.causes = offered->causes;
  return answer;
}

Result<Place> ServerConnection::resolve(std::uint64_t key, std::uint64_t offset_bytes,
                                        std::uint64_t length, wire::Direction direction) {
  const bool write = direction == wire::Direction::write;
  const auto fail = [&](Cause cause, std::string detail, const std::string& name) -> Error {
    ServerEvent told = event(ServerEvent::Kind::refused);
    told.name = name;
    told.error = wire::remote_error(cause, write ? "take a staged piece" : "give a staged piece",
                                    std::move(detail));
    share_.tell(told);
    return *told.error;
  };
  const auto granted = granted_.find(key);
  if (granted == granted_.end() || granted->second.closed) {
    return fail(Cause::remote_name_unknown, "this connection has no export with that key", "");
  }
  const ExportEntry* const entry = export_of(key);
  if (entry == nullptr) return fail(Cause::remote_revoked, "it was withdrawn", "");
  const std::uint64_t whole = length_bytes(entry->place);
  if (offset_bytes > whole || length > whole - offset_bytes) {
    return fail(Cause::remote_out_of_bounds,
                std::to_string(length) + " bytes from byte " + std::to_string(offset_bytes) +
                    " on, of " + std::to_string(whole),
                entry->name);
  }
  if (write && granted->second.access != RemoteAccess::write)
    return fail(Cause::remote_access_denied, "it was opened for reading", entry->name);
  // Whatever a transfer was expected to be: what it reads by pieces is staged. Reads while none is
  // under way verify one.
  if (share_.options.policy == Policy::direct_required && (write || is_read(key))) {
    const Cause why = granted->second.not_direct;
    return fail(Cause::remote_refused_by_peer,
                "this end admits direct transfers only" +
                    (why == Cause::none ? "" : ": " + std::string(to_string(why))),
                entry->name);
  }
  return part_of(entry->place, offset_bytes, length);
}

bool ServerConnection::is_read(std::uint64_t key) const {
  return std::any_of(under_way_.begin(), under_way_.end(), [&](const auto& transfer) {
    const wire::Begin& begun = transfer.second;
    return begun.key == key && begun.direction == wire::Direction::read;
  });
}

Receipt ServerConnection::receipt_of(const wire::Begin& begun) const {
  Receipt receipt;
  receipt.transfer_id = begun.transfer;
  receipt.requested_bytes = begun.length_bytes;
  receipt.member = Member::rdma;
  receipt.software_machine = share_.session.host.kind() == HostKind::soft;
  receipt.known = Known::claimed;
  for (const Cause cause : begun.causes) receipt.add_cause(cause);
  return receipt;
}

ServerEvent ServerConnection::transfer_event(ServerEvent::Kind kind, std::uint64_t key,
                                             wire::Direction direction) {
  ServerEvent told = event(kind);
  const ExportEntry* const entry = export_of(key);
  const bool write = direction == wire::Direction::write;
  const std::string own = entry == nullptr ? "a withdrawn export" : entry->device;
  told.name = entry == nullptr ? "" : entry->name;
  told.source = write ? "peer:" + address_ : own;
  told.target = write ? own : "peer:" + address_;
  return told;
}

void ServerConnection::tell_end(ServerEvent::Kind kind, const Receipt& receipt, std::uint64_t key,
                                wire::Direction direction, std::optional<Error> error) {
  ServerEvent told = transfer_event(kind, key, direction);
  const ExportEntry* const entry = export_of(key);
  told.requested_bytes = receipt.requested_bytes;
  told.receipt = receipt;
  const DeviceRef here = entry == nullptr ? DeviceRef{} : device_of(entry->place);
  const DeviceRef there{DeviceRef::Kind::remote, 0};
  const bool write = direction == wire::Direction::write;
  told.receipt->source = write ? there : here;
  told.receipt->target = write ? here : there;
  told.error = std::move(error);
  share_.tell(std::move(told));
}

void ServerConnection::begin(const wire::Begin& begun) {
  if (under_way_.size() >= under_way_max) {
    return refuse(
        wire::remote_error(Cause::remote_handshake_invalid, "note a transfer",
                           "it has begun " + std::to_string(under_way_max) + " and ended none"));
  }
  if (!under_way_.emplace(begun.transfer, begun).second) {
    return refuse(wire::remote_error(
        Cause::remote_handshake_invalid, "note a transfer",
        "it says of transfer " + std::to_string(begun.transfer) + " twice that it begins"));
  }
  ServerEvent told = transfer_event(ServerEvent::Kind::began, begun.key, begun.direction);
  told.requested_bytes = begun.length_bytes;
  share_.tell(std::move(told));
}

/// Nothing moves before it is announced, and what was announced is what is reported.
bool ServerConnection::fits(const wire::Report& said) const {
  const auto found = under_way_.find(said.transfer);
  if (found == under_way_.end()) return said.bytes.total() == 0;
  const wire::Begin& begun = found->second;
  return begun.key == said.key && begun.direction == said.direction &&
         begun.length_bytes == said.requested_bytes;
}

void ServerConnection::report(const wire::Report& said) {
  if (!fits(said)) {
    return refuse(wire::remote_error(
        Cause::remote_handshake_invalid, "note how a transfer ended",
        "it reports a transfer " + std::to_string(said.transfer) + " that it did not begin"));
  }
  Receipt receipt;
  receipt.transfer_id = said.transfer;
  receipt.requested_bytes = said.requested_bytes;
  receipt.bytes = said.bytes;
  receipt.elapsed_ns = said.elapsed_ns;
  receipt.member = Member::rdma;
  receipt.state = said.state;
  receipt.policy = said.policy;
  receipt.link = said.link;
  receipt.known = Known::claimed;
  receipt.software_machine = share_.session.host.kind() == HostKind::soft;
  for (const Cause cause : said.causes) receipt.add_cause(cause);
  under_way_.erase(said.transfer);
  std::optional<Error> error;
  if (said.direction == wire::Direction::write) {
    if (const Status seen = make_visible(said.key); !seen.ok()) {
      error = seen.error();
      receipt.add_cause(error->cause);
    }
  }
  const std::uint64_t not_direct =
      said.bytes[Carriage::staged] + said.bytes[Carriage::unattributed];
  if (share_.options.policy == Policy::direct_required && not_direct > 0) {
    error =
        wire::remote_error(Cause::policy_direct_required,
                           "serve a transfer of " + std::to_string(said.requested_bytes) + " bytes",
                           "this end admits direct transfers only, and the peer says that " +
                               std::to_string(not_direct) + " bytes were not");
    receipt.add_cause(Cause::policy_direct_required);
  }
  if (said.state != TransferState::done && !error.has_value()) {
    error =
        wire::remote_error(said.causes.empty() ? Cause::none : said.causes.front(),
                           "serve a transfer of " + std::to_string(said.requested_bytes) + " bytes",
                           std::to_string(said.bytes.total()) + " bytes arrived, the peer says");
  }
  tell_end(ServerEvent::Kind::ended, receipt, said.key, said.direction, std::move(error));
}

/// What adapters wrote is seen by the GPU's own work before anybody is told of it.
Status ServerConnection::make_visible(std::uint64_t key) {
  const ExportEntry* const entry = export_of(key);
  if (entry == nullptr || !granted_.at(key).registered) return {};
  return share_.session.providers.rdma->make_visible(entry->place);
}

void ServerConnection::withdraw_keys(std::uint64_t key, Granted& granted) {
  if (!granted.registered || !lanes_open_) return;
  const Status revoked = share_.session.providers.rdma->revoke(number_, key);
  if (!revoked.ok()) granted.stuck = revoked.error();
  granted.registered = false;
}

void ServerConnection::close(const wire::Close& closed) {
  const auto granted = granted_.find(closed.key);
  if (granted == granted_.end() || granted->second.closed) return;
  withdraw_keys(closed.key, granted->second);
  granted->second.closed = true;
  forget_closed();
}

/// A grant stays while copies touch its memory: withdrawing the export waits for them.
void ServerConnection::forget_closed() {
  for (auto granted = granted_.begin(); granted != granted_.end();) {
    if (!granted->second.closed || relay_.refuse_waiting(granted->first)) {
      ++granted;
      continue;
    }
    if (granted->second.stuck.has_value() && !lost_) {
      ServerEvent told = event(ServerEvent::Kind::refused);
      told.error = granted->second.stuck;
      share_.tell(std::move(told));
    }
    granted = granted_.erase(granted);
  }
}

void ServerConnection::lose() {
  if (lost_) return;
  lost_ = true;
  relay_.drop_waiting();
  const std::optional<Error> why = link_.error();
  if (lanes_open_) {
    share_.session.providers.rdma->close_connection(number_);
    lanes_open_ = false;
  }
  for (const auto& [transfer, begun] : under_way_) {
    Receipt receipt = receipt_of(begun);
    receipt.state = TransferState::failed;
    receipt.add_cause(Cause::remote_peer_lost);
    const bool write = begun.direction == wire::Direction::write;
    if (write) {
      receipt.add_cause(Cause::remote_partial_arrival);
      (void)make_visible(begun.key);  // it is told as lost anyway
    }
    tell_end(
        ServerEvent::Kind::lost, receipt, begun.key, begun.direction,
        wire::remote_error(Cause::remote_peer_lost,
                           "serve a transfer of " + std::to_string(begun.length_bytes) + " bytes",
                           write ? "it may have arrived in part, and nobody can say how much"
                                 : "nobody can say how much of it arrived"));
  }
  under_way_.clear();
  const bool refusal = !welcomed_ || link_.state() == wire::LinkState::closing;
  ServerEvent told = event(refusal ? ServerEvent::Kind::refused : ServerEvent::Kind::disconnected);
  told.error = why;
  share_.tell(std::move(told));
}

bool ServerConnection::revoke(std::uint32_t export_number) {
  bool quiet = true;
  for (auto granted = granted_.begin(); granted != granted_.end();) {
    if (granted->second.number != export_number) {
      ++granted;
      continue;
    }
    const std::uint64_t key = granted->first;
    withdraw_keys(key, granted->second);
    if (relay_.refuse_waiting(key)) {
      ++granted;
      quiet = false;
      continue;
    }
    if (!lost_) {
      (void)link_.send(wire::Revoked{key});
      ServerEvent told = event(ServerEvent::Kind::revoked);
      told.name = share_.exports.at(export_number).name;
      told.error = granted->second.stuck;
      share_.tell(std::move(told));
    }
    // Its key stays, so that later requests are told that it was withdrawn.
    granted->second.number = 0;
    ++granted;
  }
  return quiet;
}

}  // namespace nobounce::session
