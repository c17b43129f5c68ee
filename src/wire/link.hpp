// Link: one connection, from the first byte to the last: handshake, sealed messages both ways, and
// how it ended.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nobounce/result.hpp>
#include "system/network.hpp"
#include "wire/frame.hpp"
#include "wire/handshake.hpp"
#include "wire/token.hpp"

namespace nobounce::wire {

enum class LinkState : std::uint8_t {
  greeting,  ///< connecting, or in the handshake
  standing,
  closing,  ///< refused: says so, and waits until the other end has hung up
  ended,
};

struct LinkOptions {
  Role role = Role::client;
  std::string name;               ///< of this end
  Nonce nonce{};                  ///< fresh
  std::uint64_t deadline_ns = 0;  ///< of the handshake, host clock
};

/// One thread pumps it; any thread may send. Never blocks.
class Link {
 public:
  /// Takes the socket over. Network and token must outlive it.
  Link(system::Network& network, system::SocketHandle socket, const Token& token,
       const LinkOptions& options);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link();

  struct Incoming {
    Message message;
    std::vector<std::byte> payload;
  };
  /// Writes and reads what can be now, a bounded number of bytes; answers whether anything moved.
  bool pump(std::uint64_t now_ns);
  /// The next message that came over the standing link.
  [[nodiscard]] std::optional<Incoming> take();

  /// Origin remote with cause remote.peer_lost where the link no longer stands, or where the other
  /// end has not read for so long that too much waits to be sent.
  Status send(const Message& message, std::vector<std::byte> payload = {});
  /// Says why and ends, with `error` as the reason.
  void refuse(const Error& error, std::uint64_t now_ns);
  /// Ends at once; what was not sent yet is lost.
  void hang_up(const Error& error);

  [[nodiscard]] LinkState state() const;
  [[nodiscard]] std::optional<Error> error() const;  ///< why it ended; empty for a bye
  [[nodiscard]] std::string peer_name() const;       ///< once it has proved to be one
  [[nodiscard]] system::Network::Watch watch() const;
  [[nodiscard]] std::uint64_t wait_until_ns() const;  ///< of a deadline; 0: none

 private:
  bool write_some();
  bool read_some(std::uint64_t now_ns);
  void take_frame(Frame frame, std::uint64_t now_ns);
  void greet(const Frame& frame, std::uint64_t now_ns);
  void refuse_locked(const Error& error, std::uint64_t now_ns);
  void end(std::optional<Error> error);
  void queue(std::vector<std::byte> bytes);
  [[nodiscard]] Error lost(const std::string& detail) const;

  system::Network& network_;
  const system::SocketHandle socket_;
  const bool server_;
  mutable std::mutex mutex_;
  LinkState state_ = LinkState::greeting;
  bool connected_ = false;
  bool said_bye_ = false;
  bool write_failed_ = false;  ///< nothing is written any more
  Handshake handshake_;
  std::string peer_name_;
  std::uint64_t deadline_ns_ = 0;
  FrameReader reader_;
  std::optional<Seal> sealing_;
  std::deque<Incoming> inbox_;
  std::deque<std::vector<std::byte>> outbox_;
  std::size_t sent_of_first_ = 0;
  std::size_t outbox_bytes_ = 0;
  std::optional<Error> error_;
};

}  // namespace nobounce::wire
