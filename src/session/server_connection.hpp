// The passive end of one connection: what its peer may use, and what it says it does.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <nobounce/peer.hpp>
#include "provider/relay/relay_server.hpp"
#include "session/session_state.hpp"
#include "wire/link.hpp"

namespace nobounce::session {

/// What a server offers.
struct ExportEntry {
  std::uint32_t number = 0;
  std::string name;
  Place place;
  AllocationKind kind = AllocationKind::unknown;
  RemoteAccess access = RemoteAccess::read;
  std::string device;  ///< `gpu:0`
  bool withdrawn = false;
  bool given_up = false;  ///< whoever withdrew it is gone, and its memory is kept
  /// No peer reaches it any more.
  std::shared_ptr<std::atomic<bool>> gone = std::make_shared<std::atomic<bool>>(false);
};

/// What all connections of a server share.
struct ServerShare {
  SessionState& session;
  const ListenOptions& options;
  const wire::Token& token;
  std::map<std::uint32_t, ExportEntry>& exports;
  std::function<void(ServerEvent)> tell;
};

/// Used by the server's worker alone.
class ServerConnection {
 public:
  ServerConnection(const ServerShare& share, std::uint64_t serial, system::Network& network,
                   system::SocketHandle socket, std::string address);
  ServerConnection(const ServerConnection&) = delete;
  ServerConnection& operator=(const ServerConnection&) = delete;
  ~ServerConnection();

  /// For the end of the server: waits for its copies, until then at most. What hangs is given up.
  void end_by(std::uint64_t deadline_ns);
  /// Goes on with whatever can be gone on with. `full`: no more connections may stand. Answers
  /// whether anything moved.
  bool step(bool full);
  void refuse(const Error& error);
  void hang_up(const Error& error) { link_.hang_up(error); }

  /// Nobody is there any more and nothing of this process is touched: it can go.
  [[nodiscard]] bool over() const { return over_; }
  [[nodiscard]] bool standing() const { return welcomed_ && !lost_; }
  /// In the handshake, or refused and not gone yet.
  [[nodiscard]] bool greeting() const;
  /// Without the port.
  [[nodiscard]] std::string_view host() const {
    return std::string_view(address_).substr(0, address_.rfind(':'));
  }
  [[nodiscard]] bool copying() const { return copying_; }
  [[nodiscard]] std::uint64_t look_again_ns(std::uint64_t now_ns) const {
    return relay_.look_again_ns(now_ns);
  }
  [[nodiscard]] system::Network::Watch watch() const { return link_.watch(); }
  [[nodiscard]] std::uint64_t wait_until_ns() const { return link_.wait_until_ns(); }

  /// Withdraws an export from this peer; false while copies still touch its memory.
  bool revoke(std::uint32_t export_number);

 private:
  struct Granted {
    std::uint32_t number = 0;  ///< of the export
    RemoteAccess access = RemoteAccess::read;
    bool registered = false;         ///< with adapters
    Cause not_direct = Cause::none;  ///< why adapters could not be joined for it
    bool closed = false;             ///< by the peer; copies may still be at it
    std::optional<Error> stuck;      ///< its registration was not given back
  };

  void handle(wire::Link::Incoming message);
  void open(const wire::Open& open);
  void list(const wire::List& asked);
  void attach(const wire::Attach& attach);
  [[nodiscard]] Result<wire::Attached> join(const wire::Attach& attach, Granted& granted);
  void begin(const wire::Begin& begin);
  void report(const wire::Report& report);
  [[nodiscard]] bool fits(const wire::Report& report) const;
  void close(const wire::Close& closed);
  void forget_closed();
  /// Its keys are of no use to adapters any more.
  void withdraw_keys(std::uint64_t key, Granted& granted);
  [[nodiscard]] Status make_visible(std::uint64_t key);
  void lose();
  void refuse_request(std::uint32_t request, const Error& error, const std::string& name);
  [[nodiscard]] Result<Place> resolve(std::uint64_t key, std::uint64_t offset_bytes,
                                      std::uint64_t length_bytes, wire::Direction direction);
  /// Whether a transfer that was announced, and not reported yet, reads what has that key.
  [[nodiscard]] bool is_read(std::uint64_t key) const;
  [[nodiscard]] ExportEntry* export_of(std::uint64_t key);
  [[nodiscard]] ServerEvent event(ServerEvent::Kind kind) const;
  [[nodiscard]] Receipt receipt_of(const wire::Begin& begin) const;
  [[nodiscard]] ServerEvent transfer_event(ServerEvent::Kind kind, std::uint64_t key,
                                           wire::Direction direction);
  void tell_end(ServerEvent::Kind kind, const Receipt& receipt, std::uint64_t key,
                wire::Direction direction, std::optional<Error> error);

  const ServerShare& share_;
  const std::uint64_t serial_;
  const std::uint32_t number_;  ///< for adapters
  const std::string address_;
  wire::Link link_;
  provider::RelayServer relay_;
  std::map<std::uint64_t, Granted> granted_;        ///< by key
  std::map<std::uint64_t, wire::Begin> under_way_;  ///< by the peer's number of the transfer
  bool welcomed_ = false;
  bool lanes_open_ = false;
  bool lost_ = false;
  bool copying_ = false;
  bool over_ = false;
};

}  // namespace nobounce::session
