// A server at work.
#include "session/server_state.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "session/crowd.hpp"
#include "session/transfer_state.hpp"
#include "wire/bytes.hpp"

namespace nobounce::session {

namespace {

constexpr int backlog = 128;
// In the handshake, or on their way out, at a time; the oldest makes room.
constexpr std::size_t greeting_max = 128;
constexpr std::size_t accepted_at_once = 64;
constexpr std::size_t events_max = 8192;
constexpr std::uint64_t serve_idle_wait_ns = 250'000'000;
constexpr std::uint64_t withdraw_patience_ns = 2 * provider::copy_patience_ns;
constexpr std::uint64_t serve_poll_wait_ns = 1'000'000;  // where a wait cannot sleep

}  // namespace

ServerState::ServerState(SessionState& session, const ListenOptions& options, wire::Token token)
    : session_(session),
      options_(options),
      token_(std::move(token)),
      share_{session_, options_, token_, exports_,
             [this](ServerEvent event) { tell(std::move(event)); }} {
  ++session_.handles;
  const std::scoped_lock lock(session_.regions_mutex);
  session_.servers.push_back(this);
}

Result<std::unique_ptr<ServerState>> ServerState::open(SessionState& session,
                                                       const ListenOptions& options) {
  const Result<system::SocketAddress> at = system::parse_socket_address(options.address);
  if (!at.ok()) return at.error();
  if (options.token.empty() && !is_loopback(*at)) {
    return Error{
        .origin = ErrorOrigin::input,
        .attempted = "listen at " + options.address,
        .cause = Cause::remote_authentication_failed,
        .detail = "other machines can connect there, and no token was given",
        .remedy = "a token, the same at both sides (--token-file FILE); or listen at 127.0.0.1"};
  }
  const Result<wire::Token> token = options.token.empty()
                                        ? wire::Token::random(session.host.entropy())
                                        : wire::Token::from_text(options.token);
  if (!token.ok()) return token.error();
  std::unique_ptr<ServerState> server(new ServerState(session, options, *token));
  if (const Status listening = server->listen(*at); !listening.ok()) return listening.error();
  return server;
}

Status ServerState::listen(const system::SocketAddress& at) {
  const Result<system::Network*> network = session_.host.network();
  if (!network.ok()) return network.error();
  network_ = *network;
  const Result<system::SocketHandle> waker = network_->make_waker();
  if (!waker.ok()) return waker.error();
  waker_ = *waker;
  const Result<system::SocketHandle> listener = network_->listen(at, backlog);
  if (!listener.ok()) return listener.error();
  listener_ = *listener;
  const Result<system::SocketAddress> own = network_->own_address(listener_);
  if (!own.ok()) return own.error();
  address_ = to_string(*own);
  if (options_.token.empty()) {
    Result<LeftToken> left = LeftToken::leave(session_.host, *own, token_);
    if (!left.ok()) return left.error();
    left_token_ = std::move(*left);
  }
  const Result<system::WorkerId> worker = session_.host.workers().start(*this, "server");
  if (!worker.ok()) return worker.error();
  worker_ = *worker;
  return {};
}

ServerState::~ServerState() {
  if (worker_.has_value()) {
    stopping_ = true;
    wake();
    session_.host.workers().stop(*worker_);
  }
  // One patience for all of them together.
  const std::uint64_t deadline_ns = session_.host.clock().now_ns() + drop_patience_ns;
  for (ServerConnection& connection : connections_) connection.end_by(deadline_ns);
  connections_.clear();
  for (const auto& [number, entry] : exports_) entry.gone->store(true);
  if (listener_.valid()) network_->close(listener_);
  if (waker_.valid()) network_->close(waker_);
  {
    const std::scoped_lock lock(session_.regions_mutex);
    std::erase(session_.servers, this);
  }
  --session_.handles;
}

void ServerState::wake() {
  network_->wake(waker_);
  session_.host.workers().wake(*worker_);
}

void ServerState::tell(ServerEvent event) {
  {
    const std::scoped_lock lock(events_mutex_);
    if (events_.size() >= events_max) {
      events_.pop_front();
      ++dropped_;
    }
    events_.push_back(std::move(event));
  }
  session_.host.workers().notify();
}

std::optional<ServerEvent> ServerState::next_event(std::uint64_t timeout_ns) {
  std::optional<ServerEvent> event;
  const auto take = [&] {
    const std::scoped_lock lock(events_mutex_);
    if (events_.empty()) return false;
    if (dropped_ > 0) {
      event =
          ServerEvent{.kind = ServerEvent::Kind::refused,
                      .error = Error{.origin = ErrorOrigin::session,
                                     .attempted = "keep what happened at the server",
                                     .detail = std::to_string(dropped_) +
                                               " older events are gone: nobody asked for them"}};
      dropped_ = 0;
      return true;
    }
    event = std::move(events_.front());
    events_.pop_front();
    return true;
  };
  if (take() || timeout_ns == 0) return event;
  (void)session_.host.workers().wait(take, session_.host.clock().now_ns() + timeout_ns);
  return event;
}

Result<std::uint32_t> ServerState::add_export(const Place& place, AllocationKind kind,
                                              std::string_view name, RemoteAccess access) {
  const auto wrong = [&](std::string detail) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "serve \"" + std::string(name.substr(0, 80)) + "\"",
                 .detail = std::move(detail)};
  };
  if (name.empty() || name.size() > wire::name_length_max ||
      !std::all_of(name.begin(), name.end(), wire::is_printable) ||
      name.find('/') != std::string_view::npos) {
    return wrong("a name has 1 to " + std::to_string(wire::name_length_max) +
                 " printable characters and no /");
  }
  const auto* gpu = std::get_if<GpuMemory>(&place);
  provider::RdmaProvider* const rdma = session_.providers.rdma.get();
  if (gpu != nullptr && rdma != nullptr) {
    // Not when a client asks: the worker that serves all of them would wait for it.
    rdma->rehearse({.near = {DeviceRef::Kind::gpu, static_cast<std::uint16_t>(gpu->gpu)},
                    .adapters = options_.adapters});
  }
  const std::scoped_lock lock(mutex_);
  for (const auto& [number, entry] : exports_) {
    if (entry.name == name && !entry.withdrawn) return wrong("that name is served already");
  }
  const std::uint32_t number = next_export_++;
  exports_[number] =
      ExportEntry{.number = number,
                  .name = std::string(name),
                  .place = place,
                  .kind = kind,
                  .access = access,
                  .device = gpu == nullptr ? "host" : "gpu:" + std::to_string(gpu->gpu)};
  return number;
}

void ServerState::withdraw(std::uint32_t number) {
  ExportEntry withdrawn;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = exports_.find(number);
    if (found == exports_.end()) return;
    found->second.withdrawn = true;
    withdrawn = found->second;
  }
  wake();
  // The worker gives up on copies that hang, so it is waited for longer than that.
  const auto gone = [&] { return withdrawn.gone->load(); };
  if (session_.host.workers().wait(gone, session_.host.clock().now_ns() + withdraw_patience_ns)) {
    return;
  }
  give_up(session_, withdrawn.gone, [gone = withdrawn.gone.get()] { return gone->load(); }, {},
          {withdrawn.place});
  const std::scoped_lock lock(mutex_);
  const auto found = exports_.find(number);
  if (found != exports_.end()) found->second.given_up = true;
}

bool ServerState::exports_any_of(const Place& place) {
  const std::scoped_lock lock(mutex_);
  return std::any_of(exports_.begin(), exports_.end(), [&](const auto& entry) {
    return !entry.second.given_up && overlaps(entry.second.place, place);
  });
}

void ServerState::withdraw_some() {
  for (auto entry = exports_.begin(); entry != exports_.end();) {
    bool quiet = true;
    if (entry->second.withdrawn) {
      for (ServerConnection& connection : connections_)
        quiet = connection.revoke(entry->first) && quiet;
    }
    if (entry->second.withdrawn && quiet) {
      entry->second.gone->store(true);
      entry = exports_.erase(entry);
      session_.host.workers().notify();
    } else {
      ++entry;
    }
  }
}

/// Somebody who only knocks and says nothing must not keep others out.
void ServerState::make_room() {
  std::vector<ServerConnection*> greeting;
  std::vector<std::string_view> hosts;
  for (ServerConnection& connection : connections_) {
    if (!connection.greeting()) continue;
    greeting.push_back(&connection);
    hosts.push_back(connection.host());
  }
  if (greeting.size() < greeting_max) return;
  greeting[oldest_of_the_most(hosts)]->hang_up(wire::remote_error(
      Cause::remote_handshake_invalid, "shake hands with a peer",
      "it made room for a newer one, of " + std::to_string(greeting_max) + " in their handshake"));
}

bool ServerState::accept_some() {
  bool moved = false;
  for (std::size_t i = 0; i < accepted_at_once; ++i) {
    Result<std::optional<system::SocketHandle>> socket = network_->accept(listener_);
    if (!socket.ok()) {
      // Out of descriptors, say: told once, tried again when something has changed.
      if (!accept_failed_) {
        tell(ServerEvent{.kind = ServerEvent::Kind::refused, .error = socket.error()});
      }
      accept_failed_ = true;
      make_room();
      return moved;
    }
    accept_failed_ = false;
    if (!socket->has_value()) return moved;
    moved = true;
    make_room();
    const Result<system::SocketAddress> from = network_->peer_address(**socket);
    connections_.emplace_back(share_, next_serial_++, *network_, **socket,
                              from.ok() ? to_string(*from) : std::string("somebody"));
  }
  return moved;
}

bool ServerState::step_connections() {
  bool moved = false;
  std::size_t standing = 0;
  for (const ServerConnection& connection : connections_) standing += connection.standing() ? 1 : 0;
  for (ServerConnection& connection : connections_) {
    const bool stood = connection.standing();
    moved = connection.step(standing >= options_.connections_max) || moved;
    if (!stood && connection.standing()) ++standing;
    if (stood && !connection.standing()) --standing;
  }
  connections_.remove_if([](const ServerConnection& connection) { return connection.over(); });
  standing_ = standing;
  return moved;
}

system::Step ServerState::step() {
  if (stopping_) return system::Step::done();
  bool moved = false;
  {
    const std::scoped_lock lock(mutex_);
    moved = accept_some();
    moved = step_connections() || moved;
    withdraw_some();
  }
  if (moved) return system::Step::busy();
  const std::uint64_t now_ns = session_.host.clock().now_ns();
  std::uint64_t wait_ns = serve_idle_wait_ns;
  std::vector<system::Network::Watch> watched{{.socket = waker_, .waker = true}};
  if (!accept_failed_) watched.push_back({.socket = listener_});
  for (const ServerConnection& connection : connections_) {
    watched.push_back(connection.watch());
    const std::uint64_t look_ns = connection.copying() ? connection.look_again_ns(now_ns) : 0;
    for (const std::uint64_t until_ns : {connection.wait_until_ns(), look_ns})
      if (until_ns != 0) wait_ns = std::min(wait_ns, until_ns > now_ns ? until_ns - now_ns : 0);
  }
  if (network_->wait(watched, wait_ns)) return system::Step::busy();
  return system::Step::idle_until(now_ns + std::min(wait_ns, serve_poll_wait_ns));
}

}  // namespace nobounce::session
