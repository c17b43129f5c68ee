// Connections inside one process.
#include "fabric/soft_network.hpp"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "fabric/soft_random.hpp"

namespace nobounce::fabric {
namespace {

using system::Received;
using system::SocketAddress;
using system::SocketHandle;

constexpr std::size_t buffer_bytes_max = 64u << 10;  // in flight in one direction
constexpr std::uint16_t first_chosen_port = 40'000;

class InProcessNetwork final : public system::Network {
 public:
  explicit InProcessNetwork(std::uint64_t seed) : random_(seed) {}

  Result<SocketHandle> listen(const SocketAddress& at, int backlog) override;
  Result<SocketHandle> connect(const SocketAddress& to) override;
  Result<bool> connected(SocketHandle socket) override;
  Result<std::optional<SocketHandle>> accept(SocketHandle listener) override;
  Result<SocketAddress> own_address(SocketHandle socket) override;
  Result<SocketAddress> peer_address(SocketHandle socket) override;
  Result<Received> read(SocketHandle socket, std::span<std::byte> target) override;
  Result<std::size_t> write(SocketHandle socket, std::span<const std::byte> source) override;
  void close(SocketHandle socket) override;
  Result<SocketHandle> make_waker() override;
  void wake(SocketHandle) override {}
  bool wait(std::span<const Watch>, std::uint64_t) override { return false; }

 private:
  struct End {
    SocketAddress own;
    SocketAddress peer;
    int other = -1;  ///< the other end; -1: closed, or none yet
    bool listening = false;
    std::size_t backlog = 0;
    std::deque<int> knocking;  ///< of a listener
    std::deque<std::byte> inbound;
    bool ended = false;  ///< the other end was closed; what came before may still be read
  };

  int add(End end) {
    const int number = next_++;
    ends_.emplace(number, std::move(end));
    return number;
  }
  End* find(SocketHandle socket) {
    const auto found = ends_.find(socket.descriptor);
    return found == ends_.end() ? nullptr : &found->second;
  }

  std::mutex mutex_;
  SoftRandom random_;
  std::map<int, End> ends_;
  int next_ = 1;
  std::uint16_t next_port_ = first_chosen_port;
};

Result<SocketHandle> InProcessNetwork::listen(const SocketAddress& at, int backlog) {
  const std::lock_guard lock(mutex_);
  SocketAddress chosen = at;
  if (chosen.port == 0) chosen.port = next_port_++;
  for (const auto& [number, end] : ends_) {
    if (end.listening && end.own == chosen)
      return os_error(EADDRINUSE, "listen at " + to_string(chosen));
  }
  return SocketHandle{add({.own = chosen,
                           .listening = true,
                           .backlog = static_cast<std::size_t>(std::max(backlog, 1))})};
}

Result<SocketHandle> InProcessNetwork::connect(const SocketAddress& to) {
  const std::lock_guard lock(mutex_);
  for (auto& [number, end] : ends_) {
    if (!end.listening || end.own != to || end.knocking.size() >= end.backlog) continue;
    const SocketAddress from{to.host, next_port_++};
    const int caller = add({.own = from, .peer = to});
    const int callee = add({.own = to, .peer = from, .other = caller});
    ends_.at(caller).other = callee;
    end.knocking.push_back(callee);
    return SocketHandle{caller};
  }
  return os_error(ECONNREFUSED, "connect to " + to_string(to), Cause::remote_unreachable);
}

Result<bool> InProcessNetwork::connected(SocketHandle socket) {
  const std::lock_guard lock(mutex_);
  if (find(socket) == nullptr) return os_error(EBADF, "connect", Cause::remote_unreachable);
  return true;
}

Result<std::optional<SocketHandle>> InProcessNetwork::accept(SocketHandle listener) {
  const std::lock_guard lock(mutex_);
  End* const end = find(listener);
  if (end == nullptr || !end->listening) return os_error(EBADF, "accept a connection");
  if (end->knocking.empty()) return std::optional<SocketHandle>();
  const int number = end->knocking.front();
  end->knocking.pop_front();
  return std::optional(SocketHandle{number});
}

Result<SocketAddress> InProcessNetwork::own_address(SocketHandle socket) {
  const std::lock_guard lock(mutex_);
  const End* const end = find(socket);
  if (end == nullptr) return os_error(EBADF, "ask for a socket's own address");
  return end->own;
}

Result<SocketAddress> InProcessNetwork::peer_address(SocketHandle socket) {
  const std::lock_guard lock(mutex_);
  const End* const end = find(socket);
  if (end == nullptr || end->listening) return os_error(ENOTCONN, "ask for a socket's peer");
  return end->peer;
}

Result<Received> InProcessNetwork::read(SocketHandle socket, std::span<std::byte> target) {
  const std::lock_guard lock(mutex_);
  End* const end = find(socket);
  if (end == nullptr) return os_error(EBADF, "read from a connection");
  if (target.empty()) return Received{};
  if (end->inbound.empty()) return Received{0, end->ended};
  const std::size_t most = std::min(target.size(), end->inbound.size());
  const std::size_t length = 1 + random_.below(most);
  std::copy_n(end->inbound.begin(), length, target.begin());
  end->inbound.erase(end->inbound.begin(),
                     end->inbound.begin() + static_cast<std::ptrdiff_t>(length));
  return Received{length, false};
}

Result<std::size_t> InProcessNetwork::write(SocketHandle socket,
                                            std::span<const std::byte> source) {
  const std::lock_guard lock(mutex_);
  End* const end = find(socket);
  if (end == nullptr) return os_error(EBADF, "write to a connection");
  if (end->ended || end->other < 0) return os_error(EPIPE, "write to a connection");
  std::deque<std::byte>& inbound = ends_.at(end->other).inbound;
  const std::size_t most = std::min(source.size(), buffer_bytes_max - inbound.size());
  if (most == 0) return std::size_t{0};
  const std::size_t length = 1 + random_.below(most);
  inbound.insert(inbound.end(), source.begin(),
                 source.begin() + static_cast<std::ptrdiff_t>(length));
  return length;
}

void InProcessNetwork::close(SocketHandle socket) {
  const std::lock_guard lock(mutex_);
  End* const end = find(socket);
  if (end == nullptr) return;
  const std::deque<int> hung_up = std::move(end->knocking);
  if (end->other >= 0) {
    End& other = ends_.at(end->other);
    other.other = -1;
    other.ended = true;
  }
  ends_.erase(socket.descriptor);
  for (const int number : hung_up) {  // nobody will answer them any more
    const int caller = ends_.at(number).other;
    if (caller >= 0) {
      ends_.at(caller).other = -1;
      ends_.at(caller).ended = true;
    }
    ends_.erase(number);
  }
}

Result<SocketHandle> InProcessNetwork::make_waker() {
  const std::lock_guard lock(mutex_);
  return SocketHandle{add({})};
}

}  // namespace

std::unique_ptr<system::Network> make_in_process_network(std::uint64_t seed) {
  return std::make_unique<InProcessNetwork>(seed);
}

}  // namespace nobounce::fabric
