// Session::listen and Session::connect, and the handles that they give out.
#include <nobounce/peer.hpp>

#include <utility>

#include "session/peer_connection.hpp"
#include "session/region_state.hpp"
#include "session/server_state.hpp"

namespace nobounce {

using session::PeerConnection;
using session::ServerState;

std::string_view to_string(RemoteAccess value) {
  return value == RemoteAccess::write ? "write" : "read";
}

std::string_view to_string(ServerEvent::Kind value) {
  switch (value) {
    case ServerEvent::Kind::connected:
      return "connected";
    case ServerEvent::Kind::refused:
      return "refused";
    case ServerEvent::Kind::opened:
      return "opened";
    case ServerEvent::Kind::began:
      return "began";
    case ServerEvent::Kind::ended:
      return "ended";
    case ServerEvent::Kind::lost:
      return "lost";
    case ServerEvent::Kind::revoked:
      return "revoked";
    case ServerEvent::Kind::disconnected:
      return "disconnected";
  }
  return "invalid";
}

Result<Server> Session::listen(const ListenOptions& options) {
  if (state_->forked()) return session::forked_error("listen");
  Result<std::unique_ptr<ServerState>> server = ServerState::open(*state_, options);
  if (!server.ok()) return std::move(server).error();
  return Server(std::move(*server));
}

Result<Peer> Session::connect(std::string_view address, const ConnectOptions& options) {
  if (state_->forked()) return session::forked_error("connect");
  Result<std::unique_ptr<PeerConnection>> connection =
      PeerConnection::open(*state_, address, options);
  if (!connection.ok()) return std::move(connection).error();
  return Peer(std::move(*connection));
}

// --- the passive end ----------------------------------------------------------------------------

Export::Export(ServerState& server, std::uint32_t number) : server_(&server), number_(number) {}
Export::Export(Export&& other) noexcept
    : server_(std::exchange(other.server_, nullptr)), number_(other.number_) {}
Export& Export::operator=(Export&& other) noexcept {
  if (this != &other) {
    withdraw();
    server_ = std::exchange(other.server_, nullptr);
    number_ = other.number_;
  }
  return *this;
}
Export::~Export() {
  withdraw();
}
void Export::withdraw() {
  if (server_ != nullptr && !server_->session().forked()) server_->withdraw(number_);
  server_ = nullptr;
}

Server::Server(std::unique_ptr<ServerState> state) : state_(std::move(state)) {}
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;
Server::~Server() {
  // A forked child has none of its threads.
  if (state_ != nullptr && state_->session().forked()) (void)state_.release();
}

Result<Export> Server::serve(const Region& region, std::string_view name, RemoteAccess access) {
  if (state_->session().forked()) return session::forked_error("serve a region");
  Result<std::uint32_t> number = state_->add_export(region.place(), region.kind(), name, access);
  if (!number.ok()) return std::move(number).error();
  return Export(*state_, *number);
}

const std::string& Server::address() const {
  return state_->address();
}
std::optional<ServerEvent> Server::next_event(std::uint64_t timeout_ns) {
  if (state_->session().forked()) return std::nullopt;
  return state_->next_event(timeout_ns);
}
std::size_t Server::connections() const {
  return state_->connections();
}

// --- the active end -----------------------------------------------------------------------------

Peer::Peer(std::unique_ptr<PeerConnection> connection) : connection_(std::move(connection)) {}
Peer::Peer(Peer&&) noexcept = default;
Peer& Peer::operator=(Peer&&) noexcept = default;
Peer::~Peer() {
  if (connection_ != nullptr && connection_->session().forked()) (void)connection_.release();
}

Result<RemoteRegion> Peer::open(std::string_view name, RemoteAccess access) {
  if (connection_->session().forked()) return session::forked_error("open a peer's export");
  const Result<PeerConnection::Opened> opened = connection_->open_export(name, access);
  if (!opened.ok()) return opened.error();
  return RemoteRegion(*connection_, opened->memory, opened->access);
}

Result<std::vector<ExportDescription>> Peer::exports() {
  if (connection_->session().forked()) return session::forked_error("ask a peer what it serves");
  return connection_->list();
}

const std::string& Peer::address() const {
  return connection_->address();
}
std::string Peer::name() const {
  return connection_->name();
}
std::optional<Error> Peer::error() const {
  return connection_->error();
}

RemoteRegion::RemoteRegion(PeerConnection& connection, const RemoteMemory& memory,
                           RemoteAccess access)
    : connection_(&connection), memory_(memory), access_(access) {}
RemoteRegion::RemoteRegion(RemoteRegion&& other) noexcept
    : connection_(std::exchange(other.connection_, nullptr)),
      memory_(other.memory_),
      access_(other.access_) {}
RemoteRegion& RemoteRegion::operator=(RemoteRegion&& other) noexcept {
  std::swap(connection_, other.connection_);
  std::swap(memory_, other.memory_);
  std::swap(access_, other.access_);
  return *this;
}
RemoteRegion::~RemoteRegion() {
  if (connection_ != nullptr && !connection_->session().forked())
    connection_->close_export(memory_.key);
}

Place RemoteRegion::place(std::uint64_t offset_bytes, std::uint64_t length) const {
  return part_of(memory_, offset_bytes, length);
}

}  // namespace nobounce
