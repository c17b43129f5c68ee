// Network: TCP connections between processes. Nothing here blocks but wait().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <nobounce/result.hpp>

namespace nobounce::system {

/// `127.0.0.1:4711`, `[::1]:4711`, `node7:4711`.
struct SocketAddress {
  std::string host;
  std::uint16_t port = 0;
  bool operator==(const SocketAddress&) const = default;
};

[[nodiscard]] std::string to_string(const SocketAddress& address);
/// Pure. Port 0 is one that the system chooses. Origin input.
[[nodiscard]] Result<SocketAddress> parse_socket_address(std::string_view text);
/// Whether it is an address of this machine alone, written as one (127.x.y.z, ::1, localhost).
[[nodiscard]] bool is_loopback(const SocketAddress& address);

/// A plain number, closed by Network::close, owned by whoever got it.
struct SocketHandle {
  int descriptor = -1;
  [[nodiscard]] bool valid() const { return descriptor >= 0; }
  bool operator==(const SocketHandle&) const = default;
};

struct Received {
  std::size_t length_bytes = 0;  ///< 0: nothing there yet, or ended
  bool ended = false;            ///< the other side will send no more
};

/// Thread-safe. What fails answers origin os with errno and what was attempted.
class Network {
 public:
  virtual ~Network() = default;

  /// Listens at a numeric address or a name of this machine, whose lookup is waited for, but not
  /// for ever.
  [[nodiscard]] virtual Result<SocketHandle> listen(const SocketAddress& at, int backlog) = 0;
  /// Starts connecting; connected() says when it is done. A name is looked up first, which may
  /// take as long as the resolver does: it is waited for as for an answer of the other side.
  [[nodiscard]] virtual Result<SocketHandle> connect(const SocketAddress& to) = 0;
  /// Whether a connection that was started stands by now; an error if it never will.
  [[nodiscard]] virtual Result<bool> connected(SocketHandle socket) = 0;
  /// The name that is still being looked up for a connection that was started; empty: none is.
  [[nodiscard]] virtual std::string looked_up_for(SocketHandle) { return {}; }
  /// Who knocked, if somebody did.
  [[nodiscard]] virtual Result<std::optional<SocketHandle>> accept(SocketHandle listener) = 0;
  [[nodiscard]] virtual Result<SocketAddress> own_address(SocketHandle socket) = 0;
  [[nodiscard]] virtual Result<SocketAddress> peer_address(SocketHandle socket) = 0;

  [[nodiscard]] virtual Result<Received> read(SocketHandle socket, std::span<std::byte> target) = 0;
  /// How many bytes were taken; 0: none now. A peer that is gone is EPIPE or ECONNRESET.
  [[nodiscard]] virtual Result<std::size_t> write(SocketHandle socket,
                                                  std::span<const std::byte> source) = 0;
  virtual void close(SocketHandle socket) = 0;

  /// Something to watch beside sockets, so that another thread can end a wait().
  [[nodiscard]] virtual Result<SocketHandle> make_waker() = 0;
  virtual void wake(SocketHandle waker) = 0;

  struct Watch {
    SocketHandle socket;
    bool writing = false;  ///< there is something to write
    bool waker = false;    ///< made by make_waker; its wakes are over after the wait
  };
  /// Returns when one of them can go on, when woken, after `timeout_ns`, or for no reason. False,
  /// and at once, where waiting makes no sense because everything runs on the caller's thread: it
  /// is to look again later.
  [[nodiscard]] virtual bool wait(std::span<const Watch> watched, std::uint64_t timeout_ns) = 0;
};

}  // namespace nobounce::system
