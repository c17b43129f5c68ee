// Packets over local sockets: one stream per direction between two processes, nothing ever waits.
#include "fabric/soft_wire.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace nobounce::fabric {

namespace {

constexpr std::uint64_t room_bytes = 4u << 20;

/// A name of the abstract space: it goes away with its process, however that ends.
socklen_t name_of(std::uint64_t port, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const int length =
      std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "nobounce-soft-wire-%016llx",
                    static_cast<unsigned long long>(port));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                static_cast<std::size_t>(length));
}

bool same_user(int socket) {
  ucred other{};
  socklen_t length = sizeof other;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &length) != 0) return false;
  return other.uid == ::geteuid();
}

}  // namespace

WirePayload& WirePayload::operator=(WirePayload&& other) noexcept {
  if (this != &other) {
    wipe();
    bytes_ = std::move(other.bytes_);
  }
  return *this;
}

void WirePayload::wipe() {
  std::fill(bytes_.begin(), bytes_.end(), std::byte{0});
  bytes_.clear();
}

/// A stream of packets in one direction.
struct SoftWire::Link {
  int socket = -1;
  std::deque<WirePacket> packets;  ///< to be sent
  std::uint64_t queued_bytes = 0;
  std::size_t moved = 0;  ///< of the packet under way, header first
  WirePacket incoming;

  ~Link() {
    if (socket >= 0) ::close(socket);
  }
};

SoftWire::SoftWire(std::uint64_t base_port, std::uint32_t ports)
    : base_port_(base_port), ports_(ports) {}

SoftWire::~SoftWire() {
  if (listener_ >= 0) ::close(listener_);
  if (waker_ >= 0) ::close(waker_);
}

bool SoftWire::open() {
  if (listener_ >= 0) return true;
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return false;
  sockaddr_un address{};
  const socklen_t length = name_of(base_port_, address);
  waker_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (waker_ < 0 || ::bind(socket, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(socket, 64) != 0) {
    ::close(socket);
    return false;
  }
  listener_ = socket;
  return true;
}

SoftWire::Link* SoftWire::link_to(std::uint64_t port) {
  const std::uint64_t base = base_of_port(port);
  const auto found = outgoing_.find(base);
  if (found != outgoing_.end()) return found->second.get();
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return nullptr;
  auto link = std::make_unique<Link>();
  link->socket = socket;
  sockaddr_un address{};
  const socklen_t length = name_of(base, address);
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), length) != 0 || !same_user(socket)) {
    return nullptr;
  }
  return outgoing_.emplace(base, std::move(link)).first->second.get();
}

bool SoftWire::has_room(std::uint64_t port) const {
  if (is_own(port)) return looping_bytes_ < room_bytes;
  const auto found = outgoing_.find(base_of_port(port));
  return found == outgoing_.end() || found->second->queued_bytes < room_bytes;
}

void SoftWire::send(WirePacket packet) {
  packet.header.payload_bytes = packet.payload.bytes().size();
  if (is_own(packet.header.target_port)) {
    looping_bytes_ += packet.header.payload_bytes;
    arrived_.push_back(std::move(packet));
    return;
  }
  Link* const link = link_to(packet.header.target_port);
  if (link == nullptr) return;  // as a cable that leads nowhere
  link->queued_bytes += packet.header.payload_bytes;
  link->packets.push_back(std::move(packet));
  (void)flush(*link);
}

std::optional<WirePacket> SoftWire::receive() {
  if (arrived_.empty()) return std::nullopt;
  WirePacket packet = std::move(arrived_.front());
  arrived_.pop_front();
  if (is_own(packet.header.source_port)) looping_bytes_ -= packet.header.payload_bytes;
  return packet;
}

bool SoftWire::flush(Link& link) {
  bool moved_any = false;
  while (link.socket >= 0 && !link.packets.empty()) {
    WirePacket& packet = link.packets.front();
    constexpr std::size_t header_bytes = sizeof(WireHeader);
    const std::span<std::byte> payload = packet.payload.bytes();
    const std::size_t whole = header_bytes + payload.size();
    const bool in_header = link.moved < header_bytes;
    const std::byte* from = in_header
                                ? reinterpret_cast<const std::byte*>(&packet.header) + link.moved
                                : payload.data() + (link.moved - header_bytes);
    const std::size_t rest = in_header ? header_bytes - link.moved : whole - link.moved;
    if (rest > 0) {
      const ssize_t sent = ::send(link.socket, from, rest, MSG_NOSIGNAL);
      if (sent < 0) {
        if (errno == EINTR) continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK) return moved_any;
        ::close(link.socket);
        link.socket = -1;
        return true;
      }
      link.moved += static_cast<std::size_t>(sent);
      moved_any = true;
    }
    if (link.moved < whole) continue;
    link.queued_bytes -= payload.size();
    link.packets.pop_front();
    link.moved = 0;
  }
  return moved_any;
}

bool SoftWire::fill(Link& link) {
  bool moved_any = false;
  // A bounded piece: what lies in the socket when it holds more than a step may take stays there.
  for (int round = 0; round < 64 && link.socket >= 0; ++round) {
    constexpr std::size_t header_bytes = sizeof(WireHeader);
    const bool in_header = link.moved < header_bytes;
    std::span<std::byte> payload = link.incoming.payload.bytes();
    std::byte* to = in_header ? reinterpret_cast<std::byte*>(&link.incoming.header) + link.moved
                              : payload.data() + (link.moved - header_bytes);
    const std::size_t rest =
        in_header ? header_bytes - link.moved : header_bytes + payload.size() - link.moved;
    if (rest > 0) {
      const ssize_t got = ::recv(link.socket, to, rest, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return moved_any;
      if (got <= 0) {
        ::close(link.socket);
        link.socket = -1;
        return true;
      }
      link.moved += static_cast<std::size_t>(got);
      moved_any = true;
    }
    if (in_header && link.moved == header_bytes) {
      if (link.incoming.header.payload_bytes > payload_max_bytes) {  // nobody of us says that
        ::close(link.socket);
        link.socket = -1;
        return true;
      }
      link.incoming.payload =
          WirePayload(static_cast<std::size_t>(link.incoming.header.payload_bytes));
      payload = link.incoming.payload.bytes();
    }
    if (link.moved < header_bytes || link.moved < header_bytes + payload.size()) continue;
    arrived_.push_back(std::move(link.incoming));
    link.incoming = WirePacket{};
    link.moved = 0;
  }
  return moved_any;
}

void SoftWire::accept_all() {
  while (listener_ >= 0) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) return;
    auto link = std::make_unique<Link>();
    link->socket = socket;
    if (same_user(socket)) incoming_.push_back(std::move(link));
  }
}

bool SoftWire::pump() {
  if (listener_ < 0) return false;
  accept_all();
  bool moved = false;
  for (const auto& [base, link] : outgoing_) moved = flush(*link) || moved;
  // Not more than the adapters have worked off: their senders wait meanwhile.
  for (const auto& link : incoming_) {
    if (arrived_.size() < 64) moved = fill(*link) || moved;
  }
  for (auto at = outgoing_.begin(); at != outgoing_.end();) {
    at = at->second->socket < 0 ? outgoing_.erase(at) : std::next(at);
  }
  incoming_.erase(std::remove_if(incoming_.begin(), incoming_.end(),
                                 [](const auto& link) { return link->socket < 0; }),
                  incoming_.end());
  return moved;
}

void SoftWire::wait(std::uint64_t timeout_ns) {
  std::vector<pollfd> ready;
  ready.push_back({waker_, POLLIN, 0});
  ready.push_back({listener_, POLLIN, 0});
  for (const auto& link : incoming_) ready.push_back({link->socket, POLLIN, 0});
  for (const auto& [base, link] : outgoing_) {
    if (!link->packets.empty()) ready.push_back({link->socket, POLLOUT, 0});
  }
  const timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000),
                         static_cast<long>(timeout_ns % 1'000'000'000)};
  (void)::ppoll(ready.data(), ready.size(), &timeout, nullptr);
  std::uint64_t pokes = 0;
  (void)::read(waker_, &pokes, sizeof pokes);
}

void SoftWire::poke() {
  const std::uint64_t one = 1;
  if (waker_ >= 0 && ::write(waker_, &one, sizeof one) < 0) return;  // full: it wakes anyway
}

}  // namespace nobounce::fabric
