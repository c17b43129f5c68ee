// The network of the kernel: non-blocking TCP sockets, poll, and an eventfd to end a wait.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "system/descriptor.hpp"
#include "system/live_host.hpp"
#include "system/name_lookup.hpp"
#include "system/network.hpp"

namespace nobounce::system {
namespace {

// A peer whose machine is gone is noticed after about ten seconds of silence.
constexpr int keepalive_idle_seconds = 4;
constexpr int keepalive_interval_seconds = 2;
constexpr int keepalive_probes = 3;
constexpr unsigned unacknowledged_ms = 10'000;
/// How long an address may say nothing while its name has others.
constexpr std::uint64_t silence_ns = 3'000'000'000;

/// A name to listen at is of this machine: a resolver that needs longer will not know it.
constexpr std::uint64_t own_name_ns = 10'000'000'000;

void set_number(int socket, int level, int option, int value) {
  (void)::setsockopt(socket, level, option, &value, sizeof(value));
}

void prepare_stream(int socket) {
  set_number(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_number(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_number(socket, IPPROTO_TCP, TCP_KEEPIDLE, keepalive_idle_seconds);
  set_number(socket, IPPROTO_TCP, TCP_KEEPINTVL, keepalive_interval_seconds);
  set_number(socket, IPPROTO_TCP, TCP_KEEPCNT, keepalive_probes);
  set_number(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(unacknowledged_ms));
}

Result<SocketAddress> shown(const sockaddr_storage& address, socklen_t length,
                            const std::string& attempted) {
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  const int code = ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host,
                                 sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
  if (code != 0) return os_error(EAFNOSUPPORT, attempted);
  return SocketAddress{host, static_cast<std::uint16_t>(std::stoul(port))};
}

Error unanswered(const SocketAddress& address, const std::string& attempted) {
  return Error{.origin = ErrorOrigin::os,
               .code = ETIMEDOUT,
               .attempted = attempted,
               .cause = Cause::remote_unreachable,
               .detail = "the resolver said nothing of the name " + address.host + " for " +
                         std::to_string(own_name_ns / 1'000'000'000) + " s"};
}

bool would_block(int code) {
  return code == EAGAIN || code == EWOULDBLOCK || code == EINTR;
}

class LiveNetwork final : public Network {
 public:
  Result<SocketHandle> listen(const SocketAddress& at, int backlog) override;
  Result<SocketHandle> connect(const SocketAddress& to) override;
  Result<bool> connected(SocketHandle socket) override;
  Result<std::optional<SocketHandle>> accept(SocketHandle listener) override;
  Result<SocketAddress> own_address(SocketHandle socket) override;
  Result<SocketAddress> peer_address(SocketHandle socket) override;
  Result<Received> read(SocketHandle socket, std::span<std::byte> target) override;
  Result<std::size_t> write(SocketHandle socket, std::span<const std::byte> source) override;
  std::string looked_up_for(SocketHandle socket) override;
  void close(SocketHandle socket) override;
  Result<SocketHandle> make_waker() override;
  void wake(SocketHandle waker) override;
  bool wait(std::span<const Watch> watched, std::uint64_t timeout_ns) override;

 private:
  /// What is known of a name: that it is being looked up, or its addresses, the first that has not
  /// been tried, and since when one is.
  struct Dial {
    std::shared_ptr<NameLookup> lookup;
    Addresses addresses;
    const addrinfo* next = nullptr;
    std::uint64_t since_ns = 0;
  };
  /// The next attempt takes the place of the one under way, whose handle stays. Under mutex_.
  bool dial_next(SocketHandle socket, Dial& dial, int& code);
  /// Begins with the addresses as soon as they are known. Under mutex_.
  Status dial_looked_up(SocketHandle socket, Dial& dial);

  const std::unique_ptr<Clock> clock_ = make_live_clock();
  std::mutex mutex_;
  std::map<int, Dial> dials_;  ///< under way, by descriptor
};

/// Begins with the next address that can be begun with; invalid, and why, where none is left.
Descriptor begin_next(const addrinfo*& next, int& code) {
  while (next != nullptr) {
    const addrinfo& address = *next;
    next = address.ai_next;
    Descriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                               address.ai_protocol));
    if (socket.valid()) {
      prepare_stream(socket.number());
      if (::connect(socket.number(), address.ai_addr, address.ai_addrlen) == 0 ||
          errno == EINPROGRESS || errno == EINTR) {
        return socket;
      }
    }
    code = errno;
  }
  return Descriptor();
}

Result<SocketHandle> LiveNetwork::listen(const SocketAddress& at, int backlog) {
  const std::string attempted = "listen at " + to_string(at);
  Result<Addresses> addresses = numeric_addresses(at, AI_PASSIVE, attempted);
  if (addresses.ok() && *addresses == nullptr) {
    const auto lookup = NameLookup::start(at, AI_PASSIVE, attempted);
    if (!lookup.ok()) return lookup.error();
    if (!(*lookup)->answered(own_name_ns)) return unanswered(at, attempted);
    addresses = (*lookup)->take();
  }
  if (!addresses.ok()) return std::move(addresses).error();
  const addrinfo& address = **addresses;
  Descriptor socket(
      ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
  if (!socket.valid()) return os_error(errno, attempted);
  set_number(socket.number(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.ai_family == AF_INET6) set_number(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (::bind(socket.number(), address.ai_addr, address.ai_addrlen) != 0 ||
      ::listen(socket.number(), backlog) != 0) {
    return os_error(errno, attempted);
  }
  return SocketHandle{socket.release()};
}

Result<SocketHandle> LiveNetwork::connect(const SocketAddress& to) {
  const std::string attempted = "connect to " + to_string(to);
  Result<Addresses> addresses = numeric_addresses(to, 0, attempted);
  if (!addresses.ok()) return std::move(addresses).error();
  if (*addresses == nullptr) {
    Result<std::shared_ptr<NameLookup>> lookup = NameLookup::start(to, 0, attempted);
    if (!lookup.ok()) return std::move(lookup).error();
    // Its bell keeps the place of the socket, and wakes who waits for that.
    Descriptor bell = (*lookup)->take_bell();
    const std::lock_guard lock(mutex_);
    dials_[bell.number()].lookup = std::move(*lookup);
    return SocketHandle{bell.release()};
  }
  int code = EADDRNOTAVAIL;
  Dial dial{.lookup = nullptr, .addresses = std::move(*addresses), .since_ns = clock_->now_ns()};
  dial.next = dial.addresses.get();
  Descriptor socket = begin_next(dial.next, code);
  if (!socket.valid()) return os_error(code, attempted, Cause::remote_unreachable);
  if (dial.next != nullptr) {
    const std::lock_guard lock(mutex_);
    dials_[socket.number()] = std::move(dial);
  }
  return SocketHandle{socket.release()};
}

void LiveNetwork::close(SocketHandle socket) {
  {
    const std::lock_guard lock(mutex_);
    dials_.erase(socket.descriptor);
  }
  ::close(socket.descriptor);
}

bool LiveNetwork::dial_next(SocketHandle socket, Dial& dial, int& code) {
  const Descriptor again = begin_next(dial.next, code);
  dial.since_ns = clock_->now_ns();
  if (again.valid() && ::dup3(again.number(), socket.descriptor, O_CLOEXEC) >= 0) return true;
  if (again.valid()) code = errno;
  return false;
}

Status LiveNetwork::dial_looked_up(SocketHandle socket, Dial& dial) {
  if (!dial.lookup->answered()) return {};
  Result<Addresses> addresses = dial.lookup->take();
  if (!addresses.ok()) return std::move(addresses).error();
  dial.lookup.reset();
  dial.addresses = std::move(*addresses);
  dial.next = dial.addresses.get();
  int code = EADDRNOTAVAIL;
  if (dial_next(socket, dial, code)) return {};
  return os_error(code, "connect", Cause::remote_unreachable);
}

std::string LiveNetwork::looked_up_for(SocketHandle socket) {
  const std::lock_guard lock(mutex_);
  const auto dial = dials_.find(socket.descriptor);
  return dial == dials_.end() || dial->second.lookup == nullptr ? "" : dial->second.lookup->host();
}

Result<bool> LiveNetwork::connected(SocketHandle socket) {
  {
    const std::lock_guard lock(mutex_);
    const auto dial = dials_.find(socket.descriptor);
    if (dial != dials_.end() && dial->second.lookup != nullptr) {
      if (const Status begun = dial_looked_up(socket, dial->second); !begun.ok())
        return begun.error();
      return false;
    }
  }
  pollfd look{socket.descriptor, POLLOUT, 0};
  int code = 0;
  if (::poll(&look, 1, 0) <= 0 || look.revents == 0) {
    const std::lock_guard lock(mutex_);
    const auto dial = dials_.find(socket.descriptor);
    if (dial == dials_.end() || dial->second.next == nullptr) return false;
    if (clock_->now_ns() - dial->second.since_ns < silence_ns) return false;
    (void)dial_next(socket, dial->second,
                    code);  // where all others refuse, this one may still come
    return false;
  }
  socklen_t length = sizeof(code);
  if (::getsockopt(socket.descriptor, SOL_SOCKET, SO_ERROR, &code, &length) != 0) code = errno;
  {
    const std::lock_guard lock(mutex_);
    const auto dial = dials_.find(socket.descriptor);
    if (dial != dials_.end() && code != 0 && dial_next(socket, dial->second, code)) return false;
    if (dial != dials_.end()) dials_.erase(dial);
  }
  if (code != 0) return os_error(code, "connect", Cause::remote_unreachable);
  // Connected to itself: both ends of a dial within the range of temporary ports.
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t own_length = sizeof(own);
  socklen_t peer_length = sizeof(peer);
  if (::getsockname(socket.descriptor, reinterpret_cast<sockaddr*>(&own), &own_length) == 0 &&
      ::getpeername(socket.descriptor, reinterpret_cast<sockaddr*>(&peer), &peer_length) == 0 &&
      own_length == peer_length &&
      std::equal(reinterpret_cast<const char*>(&own),
                 reinterpret_cast<const char*>(&own) + own_length,
                 reinterpret_cast<const char*>(&peer))) {
    return os_error(ECONNREFUSED, "connect", Cause::remote_unreachable);
  }
  return true;
}

Result<std::optional<SocketHandle>> LiveNetwork::accept(SocketHandle listener) {
  const int socket = ::accept4(listener.descriptor, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (socket >= 0) {
    prepare_stream(socket);
    return std::optional(SocketHandle{socket});
  }
  // A caller that hung up before it was answered is nobody.
  if (would_block(errno) || errno == ECONNABORTED) return std::optional<SocketHandle>();
  return os_error(errno, "accept a connection");
}

Result<SocketAddress> LiveNetwork::own_address(SocketHandle socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (::getsockname(socket.descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return os_error(errno, "ask for a socket's own address");
  return shown(address, length, "ask for a socket's own address");
}

Result<SocketAddress> LiveNetwork::peer_address(SocketHandle socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (::getpeername(socket.descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return os_error(errno, "ask for a socket's peer");
  return shown(address, length, "ask for a socket's peer");
}

Result<Received> LiveNetwork::read(SocketHandle socket, std::span<std::byte> target) {
  if (target.empty()) return Received{};
  const ssize_t got = ::recv(socket.descriptor, target.data(), target.size(), 0);
  if (got > 0) return Received{static_cast<std::size_t>(got), false};
  if (got == 0) return Received{0, true};
  if (would_block(errno)) return Received{};
  return os_error(errno, "read from a connection");
}

Result<std::size_t> LiveNetwork::write(SocketHandle socket, std::span<const std::byte> source) {
  if (source.empty()) return std::size_t{0};
  const ssize_t put = ::send(socket.descriptor, source.data(), source.size(), MSG_NOSIGNAL);
  if (put >= 0) return static_cast<std::size_t>(put);
  if (would_block(errno)) return std::size_t{0};
  return os_error(errno, "write to a connection");
}

Result<SocketHandle> LiveNetwork::make_waker() {
  const int waker = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (waker < 0) return os_error(errno, "make an event descriptor");
  return SocketHandle{waker};
}

void LiveNetwork::wake(SocketHandle waker) {
  const std::uint64_t one = 1;
  (void)!::write(waker.descriptor, &one, sizeof(one));  // full: it is awake anyway
}

bool LiveNetwork::wait(std::span<const Watch> watched, std::uint64_t timeout_ns) {
  std::vector<pollfd> list;
  list.reserve(watched.size());
  for (const Watch& watch : watched) {
    const short events = watch.writing ? POLLIN | POLLOUT : POLLIN;
    list.push_back({watch.socket.descriptor, events, 0});
  }
  const timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000),
                         static_cast<long>(timeout_ns % 1'000'000'000)};
  if (::ppoll(list.data(), list.size(), &timeout, nullptr) > 0) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      std::uint64_t count = 0;
      if (watched[i].waker && list[i].revents != 0)
        (void)!::read(list[i].fd, &count, sizeof(count));
    }
  }
  return true;
}

}  // namespace

std::unique_ptr<Network> make_live_network() {
  return std::make_unique<LiveNetwork>();
}

}  // namespace nobounce::system
