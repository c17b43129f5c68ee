// A client's connection.
#include "session/peer_connection.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "session/check.hpp"
#include "session/remotes.hpp"
#include "session/shared_token.hpp"
#include "session/transfer_state.hpp"

namespace nobounce::session {

namespace {

constexpr const char* far_side = "the far side";
constexpr std::uint64_t idle_wait_ns = 250'000'000;
constexpr std::uint64_t poll_wait_ns = 1'000'000;  // where a wait cannot sleep

using wire::remote_error;

std::uint32_t request_of(const wire::Message& message) {
  if (const auto* opened = std::get_if<wire::Opened>(&message)) return opened->request;
  if (const auto* attached = std::get_if<wire::Attached>(&message)) return attached->request;
  if (const auto* listed = std::get_if<wire::Listed>(&message)) return listed->request;
  if (const auto* refusal = std::get_if<wire::Refusal>(&message)) return refusal->request;
  return 0;
}

}  // namespace

PeerConnection::PeerConnection(SessionState& session, std::string address,
                               const ConnectOptions& options, wire::Token token)
    : session_(session),
      number_(session.remotes->next_number()),
      address_(std::move(address)),
      options_(options),
      token_(std::move(token)) {
  ++session_.handles;
}

Result<std::unique_ptr<PeerConnection>> PeerConnection::open(SessionState& session,
                                                             std::string_view address,
                                                             const ConnectOptions& options) {
  Result<system::SocketAddress> to = system::parse_socket_address(address);
  if (!to.ok()) return std::move(to).error();
  Result<wire::Token> token =
      options.token.empty() ? find_token(session.host, *to) : wire::Token::from_text(options.token);
  if (!token.ok()) return std::move(token).error();
  std::unique_ptr<PeerConnection> connection(
      new PeerConnection(session, std::string(address), options, std::move(*token)));
  if (Status connected = connection->connect(*to); !connected.ok()) {
    Error error = connected.error();
    error.attempted = "connect to " + std::string(address);
    return error;
  }
  return connection;
}

Status PeerConnection::connect(const system::SocketAddress& to) {
  Result<system::Network*> network = session_.host.network();
  if (!network.ok()) return network.error();
  network_ = *network;
  Result<system::SocketHandle> waker = network_->make_waker();
  if (!waker.ok()) return waker.error();
  waker_ = *waker;
  // A name is looked up first, which counts too.
  const std::uint64_t deadline_ns = session_.host.clock().now_ns() + options_.deadline_ns;
  Result<system::SocketHandle> socket = network_->connect(to);
  if (!socket.ok()) return socket.error();
  wire::LinkOptions link{
      .role = wire::Role::client, .name = options_.name, .deadline_ns = deadline_ns};
  session_.host.entropy().fill(link.nonce);
  link_ = std::make_unique<wire::Link>(*network_, *socket, token_, link);
  session_.remotes->add(number_, *this);
  session_.providers.relay->add(number_, *link_, [this] { wake(); });
  Result<system::WorkerId> worker = session_.host.workers().start(*this, "peer");
  if (!worker.ok()) return worker.error();
  worker_ = *worker;
  (void)session_.host.workers().wait([this] { return link_->state() != wire::LinkState::greeting; },
                                     0);
  if (link_->state() == wire::LinkState::standing) return {};
  const std::optional<Error> why = link_->error();
  return why.has_value() ? *why : remote_error(Cause::remote_unreachable, "", "it hung up");
}

PeerConnection::~PeerConnection() {
  {
    const std::scoped_lock lock(session_.dispatcher->mutex());
    for (const TransferState_* transfer : session_.running)
      // One that was given up ends with its connection.
      session::check(transfer->given_up || !transfer->uses_peer(number_),
                     "a Peer was destroyed while a transfer used it");
  }
  const Error gone = remote_error(Cause::session_cancelled, "use a connection",
                                  "this end has closed the connection");
  if (link_ != nullptr) {
    (void)link_->send(wire::Bye{});
    session_.providers.relay->remove(number_, gone);
    if (session_.providers.rdma != nullptr && lanes_open_)
      session_.providers.rdma->close_connection(number_, gone);
  }
  if (worker_.has_value()) {
    stopping_ = true;
    wake();
    session_.host.workers().stop(*worker_);
  }
  session_.remotes->remove(number_);
  if (waker_.valid()) network_->close(waker_);
  --session_.handles;
}

void PeerConnection::wake() {
  network_->wake(waker_);
  if (worker_.has_value()) session_.host.workers().wake(*worker_);
}

system::Step PeerConnection::step() {
  if (stopping_) return system::Step::done();
  const bool was_greeting = link_->state() == wire::LinkState::greeting;
  const bool moved = link_->pump(session_.host.clock().now_ns());
  while (std::optional<wire::Link::Incoming> message = link_->take()) handle(std::move(*message));
  const wire::LinkState state = link_->state();
  if (was_greeting && state != wire::LinkState::greeting) session_.host.workers().notify();
  if (state == wire::LinkState::ended || state == wire::LinkState::closing) lose();
  const std::uint64_t again_ns = session_.providers.relay->step(number_);
  if (moved) return system::Step::busy();
  const std::uint64_t now_ns = session_.host.clock().now_ns();
  std::uint64_t wait_ns = idle_wait_ns;
  for (const std::uint64_t until_ns : {again_ns, link_->wait_until_ns()}) {
    if (until_ns != 0) wait_ns = std::min(wait_ns, until_ns > now_ns ? until_ns - now_ns : 0);
  }
  if (state == wire::LinkState::ended && again_ns == 0) return system::Step::idle();
  std::vector<system::Network::Watch> watched{{.socket = waker_, .waker = true}};
  if (state != wire::LinkState::ended) watched.push_back(link_->watch());
  if (network_->wait(watched, wait_ns)) return system::Step::busy();
  return system::Step::idle_until(now_ns + std::min(wait_ns, poll_wait_ns));
}

void PeerConnection::handle(wire::Link::Incoming message) {
  if (std::holds_alternative<wire::StageData>(message.message) ||
      std::holds_alternative<wire::StageDone>(message.message) ||
      std::holds_alternative<wire::StageFailed>(message.message)) {
    const Status taken = session_.providers.relay->take(number_, std::move(message));
    if (!taken.ok()) link_->refuse(taken.error(), session_.host.clock().now_ns());
    return;
  }
  {
    const std::scoped_lock lock(mutex_);
    if (const auto* revoked = std::get_if<wire::Revoked>(&message.message)) {
      const auto found = exports_.find(revoked->key);
      if (found != exports_.end()) found->second.revoked = true;
    } else if (const auto answer = answers_.find(request_of(message.message));
               answer != answers_.end()) {
      answer->second = std::move(message.message);
    }
  }
  session_.host.workers().notify();
}

/// Everything that needs the other end fails now: also what its adapter would still wait for.
void PeerConnection::lose() {
  {
    const std::scoped_lock lock(mutex_);
    if (lost_) return;
    lost_ = true;
  }
  const Error why = *error();
  session_.providers.relay->lose(number_, why);
  // Its adapter would wait for acknowledgements for seconds.
  if (lanes_open_) session_.providers.rdma->close_connection(number_, why);
  {
    const std::scoped_lock lock(session_.dispatcher->mutex());
    const std::vector<TransferState_*> running = session_.running;
    for (TransferState_* transfer : running) {
      if (transfer->uses_peer(number_)) transfer->fail(why);
    }
  }
  session_.host.workers().notify();
}

std::optional<Error> PeerConnection::error() const {
  const wire::LinkState state = link_->state();
  if (state == wire::LinkState::standing || state == wire::LinkState::greeting) return std::nullopt;
  std::optional<Error> error = link_->error();
  if (error.has_value()) return error;
  return remote_error(Cause::remote_peer_lost, "use the connection to " + address_,
                      "the server has ended");
}

Result<wire::Message> PeerConnection::ask(const wire::Message& request, std::uint32_t number,
                                          const std::string& attempted) {
  {
    const std::scoped_lock lock(mutex_);
    answers_[number].reset();
  }
  const std::uint64_t deadline_ns = session_.host.clock().now_ns() + options_.deadline_ns;
  const Status sent = link_->send(request);
  wake();
  if (sent.ok()) {
    (void)session_.host.workers().wait(
        [&] {
          const std::scoped_lock lock(mutex_);
          return lost_ || answers_[number].has_value();
        },
        deadline_ns);
  }
  const std::scoped_lock lock(mutex_);
  std::optional<wire::Message> answer = std::move(answers_[number]);
  answers_.erase(number);
  if (answer.has_value()) {
    if (const auto* refusal = std::get_if<wire::Refusal>(&*answer))
      return wire::error_of(*refusal, attempted);
    return std::move(*answer);
  }
  Error why =
      !sent.ok() ? sent.error()
      : lost_    ? *error()
              : remote_error(Cause::remote_unreachable, attempted, "no answer until the deadline");
  why.attempted = attempted;
  return why;
}

std::uint32_t PeerConnection::next_request() {
  const std::scoped_lock lock(mutex_);
  return next_request_++;
}

Result<std::vector<ExportDescription>> PeerConnection::list() {
  const std::uint32_t request = next_request();
  const std::string attempted = "ask " + address_ + " what it serves";
  const Result<wire::Message> answer = ask(wire::List{request}, request, attempted);
  if (!answer.ok()) return answer.error();
  const auto* listed = std::get_if<wire::Listed>(&*answer);
  if (listed == nullptr) {
    return remote_error(Cause::remote_handshake_invalid, attempted,
                        "the server answered something else than was asked");
  }
  std::vector<ExportDescription> exports;
  for (const wire::ListedExport& one : listed->exports) {
    exports.push_back(
        {one.name, one.device, one.length_bytes,
         one.access == wire::Access::write ? RemoteAccess::write : RemoteAccess::read});
  }
  return exports;
}

Result<PeerConnection::Opened> PeerConnection::open_export(std::string_view name,
                                                           RemoteAccess access) {
  const std::string attempted = "open " + std::string(name) + " at " + address_ + " for " +
                                (access == RemoteAccess::write ? "writing" : "reading");
  if (name.empty() || name.size() > wire::name_length_max) {
    return Error{
        .origin = ErrorOrigin::input,
        .attempted = attempted,
        .cause = Cause::remote_name_unknown,
        .detail = "a name has 1 to " + std::to_string(wire::name_length_max) + " characters"};
  }
  const std::uint32_t request = next_request();
  const wire::Access wanted =
      access == RemoteAccess::write ? wire::Access::write : wire::Access::read;
  Result<wire::Message> answer =
      ask(wire::Open{request, std::string(name), wanted}, request, attempted);
  if (!answer.ok()) return std::move(answer).error();
  const auto* opened = std::get_if<wire::Opened>(&*answer);
  if (opened == nullptr || opened->access != wanted) {
    return remote_error(Cause::remote_handshake_invalid, attempted,
                        "the server answered something else than was asked");
  }
  const std::scoped_lock lock(mutex_);
  exports_[opened->key] = ExportEntry{.name = std::string(name),
                                      .length_bytes = opened->length_bytes,
                                      .access = access,
                                      .gpu = opened->place == wire::PlaceKind::gpu};
  const RemoteMemory memory{number_, 0, opened->key, opened->length_bytes};
  session_.remotes->name(memory, "rdma://" + address_ + "/" + std::string(name));
  return Opened{memory, access};
}

void PeerConnection::close_export(std::uint64_t key) {
  bool attached = false;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = exports_.find(key);
    if (found == exports_.end()) return;
    attached = found->second.attached;
    exports_.erase(found);
  }
  session_.remotes->forget(number_, key);
  if (attached) session_.providers.rdma->forget_import(number_, key);
  (void)link_->send(wire::Close{key});  // whose link has ended has closed everything
  wake();
}

std::string PeerConnection::export_name(std::uint64_t key) const {
  const std::scoped_lock lock(mutex_);
  const auto found = exports_.find(key);
  return found == exports_.end() ? std::string() : found->second.name;
}

Status PeerConnection::check(const RemoteMemory& memory, bool writing) const {
  const std::string attempted = writing ? "write to " + address_ : "read from " + address_;
  if (const std::optional<Error> ended = error()) return *ended;
  const std::scoped_lock lock(mutex_);
  const auto found = exports_.find(memory.key);
  if (found == exports_.end()) {
    return remote_error(Cause::remote_name_unknown, attempted,
                        "this connection has no open export with that key");
  }
  const ExportEntry& entry = found->second;
  if (entry.revoked) {
    return remote_error(Cause::remote_revoked, attempted, "the server withdrew " + entry.name);
  }
  if (memory.address > entry.length_bytes ||
      memory.length_bytes > entry.length_bytes - memory.address) {
    return remote_error(Cause::remote_out_of_bounds, attempted,
                        entry.name + " holds " + std::to_string(entry.length_bytes) + " bytes");
  }
  if (writing && entry.access != RemoteAccess::write) {
    return remote_error(Cause::remote_access_denied, attempted,
                        entry.name + " was opened for reading");
  }
  return {};
}

std::vector<Finding> PeerConnection::attach(std::uint64_t key, DeviceRef local) {
  const std::scoped_lock attaching(attach_mutex_);
  ExportEntry entry;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = exports_.find(key);
    if (found == exports_.end()) return {};
    if (found->second.attach_tried) return found->second.findings;
    entry = found->second;
  }
  entry.findings = join(key, entry, local, entry.attached);
  const std::scoped_lock lock(mutex_);
  if (const auto found = exports_.find(key); found != exports_.end()) {
    found->second.attach_tried = true;
    found->second.attached = entry.attached;
    found->second.findings = entry.findings;
  }
  return entry.findings;
}

std::vector<Finding> PeerConnection::join(std::uint64_t key, const ExportEntry& entry,
                                          DeviceRef local, bool& attached) {
  const auto unmet = [&](const Error& error, std::string where) {
    Cause cause = error.cause;
    if (cause == Cause::none)  // whose end it was is known
      cause = where == far_side ? Cause::remote_refused_by_peer : Cause::rdma_completion_error;
    return std::vector<Finding>{Finding{.cause = cause,
                                        .subject = "rdma://" + address_ + "/" + entry.name,
                                        .state = FindingState::unmet,
                                        .observed = to_string(error),
                                        .needed = "adapters of both ends, joined",
                                        .remedy = std::string(remedy_of(error)),
                                        .source = std::move(where)}};
  };
  provider::RdmaProvider* const rdma = session_.providers.rdma.get();
  if (rdma == nullptr) {
    return unmet(remote_error(Cause::rdma_verbs_absent, "use an adapter",
                              "this session has no provider for adapters"),
                 "the session's list of providers");
  }
  std::vector<wire::QueuePairEndpoint> own;
  if (!lanes_joined_) {
    Result<std::vector<wire::QueuePairEndpoint>> lanes =
        rdma->open_connection(number_, {.near = local, .adapters = options_.adapters});
    if (!lanes.ok()) return unmet(lanes.error(), "this end");
    own = std::move(*lanes);
    lanes_open_ = true;
  }
  const auto give_up = [&](const Error& error, std::string where) {
    if (!lanes_joined_) {
      rdma->close_connection(number_);
      lanes_open_ = false;
    }
    return unmet(error, std::move(where));
  };
  const std::uint32_t request = next_request();
  const std::string attempted = "join the adapters of " + address_;
  const Result<wire::Message> answer = ask(wire::Attach{request, key, own}, request, attempted);
  if (!answer.ok()) return give_up(answer.error(), far_side);
  const auto* joined = std::get_if<wire::Attached>(&*answer);
  if (joined == nullptr) {
    return give_up(remote_error(Cause::remote_handshake_invalid, attempted,
                                "the server answered something else than was asked"),
                   far_side);
  }
  if (!lanes_joined_) {
    if (const Status ready = rdma->establish(number_, joined->lanes); !ready.ok())
      return give_up(ready.error(), "this end");
    lanes_joined_ = true;
  }
  const Status imported = rdma->import_region(
      number_, provider::RdmaExport{.id = key,
                                    .length_bytes = entry.length_bytes,
                                    .access = entry.access == RemoteAccess::write
                                                  ? provider::RdmaAccess::read_write
                                                  : provider::RdmaAccess::read,
                                    .gpu = entry.gpu,
                                    .keys = joined->keys,
                                    .causes = joined->causes});
  if (!imported.ok()) return unmet(imported.error(), "this end");
  attached = true;
  return {};
}

void PeerConnection::announce(const wire::Begin& begin) {
  (void)link_->send(begin);
  wake();
}

void PeerConnection::report(const wire::Report& report) {
  (void)link_->send(report);
  wake();
}

}  // namespace nobounce::session
