// Peers: memory of one process that transfers of another one read or write. A Server offers it, a
// Peer uses it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nobounce/error.hpp>
#include <nobounce/place.hpp>
#include <nobounce/receipt.hpp>
#include <nobounce/result.hpp>

namespace nobounce {

class Region;

namespace session {
class PeerConnection;
class ServerState;
}  // namespace session

/// What a peer may do with an export. `write` includes reading.
enum class RemoteAccess : std::uint8_t { read, write };
[[nodiscard]] std::string_view to_string(RemoteAccess value);

struct ListenOptions {
  /// `127.0.0.1:4711`, `[::1]:4711`; port 0: one that the system chooses. Payload is not encrypted:
  /// leave loopback only where you trust the network.
  std::string address = "127.0.0.1:0";
  /// The secret that clients must know, 16 characters at least. Empty: on a loopback address a
  /// random one, which other processes of this user on this machine find by themselves; elsewhere
  /// an error.
  std::string token;
  std::string name = "nobounce";  ///< of this end, as peers show it
  std::uint32_t connections_max = 64;
  std::uint64_t handshake_ns = 10'000'000'000;  ///< who is not done by then is hung up on
  /// direct_required: a client whose adapters could not reach the memory itself is refused, and so
  /// is every staged piece of a transfer. Staged reads while no transfer reads the export are let
  /// through: clients verify by them what arrived.
  Policy policy = Policy::direct_preferred;
  std::vector<std::string> adapters;  ///< by name; empty: chosen by their distance to the memory
};

/// Something that happened at a server. What transfers did is what the client says: their receipts
/// are `claimed`.
struct ServerEvent {
  enum class Kind : std::uint8_t {
    connected,     ///< and proved that it knows the token
    refused,       ///< a connection or a request of one: see error
    opened,        ///< it may use an export from now on
    began,         ///< it is about to move bytes
    ended,         ///< a transfer has ended, well or not: see receipt
    lost,          ///< it vanished in mid-transfer: what it wrote may have arrived in part
    revoked,       ///< an export was withdrawn from it
    disconnected,  ///< it is gone
  };
  Kind kind = Kind::connected;
  std::uint64_t connection = 0;  ///< number of the connection at this server, from 1
  std::string address;           ///< of the peer
  std::string peer;              ///< its name, once it is known
  std::string name;              ///< of the export
  std::string source;            ///< of a transfer: `gpu:0`, `peer:127.0.0.1:40312`
  std::string target;
  std::uint64_t requested_bytes = 0;
  std::optional<Receipt> receipt;  ///< of one that has ended
  std::optional<Error> error;
};
[[nodiscard]] std::string_view to_string(ServerEvent::Kind value);

/// Move-only. Destroying it withdraws the export: no peer can reach the memory any more when that
/// returns. Must be gone before its Server and its Region.
class Export {
 public:
  Export(session::ServerState& server, std::uint32_t number);
  Export(Export&& other) noexcept;
  Export& operator=(Export&& other) noexcept;
  ~Export();

 private:
  void withdraw();
  session::ServerState* server_;
  std::uint32_t number_;
};

/// Move-only, thread-safe. Must be gone before its Session.
class Server {
 public:
  explicit Server(std::unique_ptr<session::ServerState> state);
  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;
  ~Server();

  /// Offers a region under a name of up to 64 printable characters. Read-only unless asked
  /// otherwise.
  [[nodiscard]] Result<Export> serve(const Region& region, std::string_view name,
                                     RemoteAccess access = RemoteAccess::read);
  /// Where it listens, with the port.
  [[nodiscard]] const std::string& address() const;
  /// The next event; empty where none came for that long (0: does not wait). Where nobody asks, of
  /// thousands the oldest are dropped; a `refused` one then says how many are gone.
  [[nodiscard]] std::optional<ServerEvent> next_event(std::uint64_t timeout_ns = 0);
  [[nodiscard]] std::size_t connections() const;  ///< that stand

 private:
  std::unique_ptr<session::ServerState> state_;
};

struct ConnectOptions {
  std::string token;  ///< as the server's; empty: what a server of this user on this machine left
  std::string name = "nobounce";
  std::uint64_t deadline_ns = 10'000'000'000;  ///< of the connection, and of each request
  std::vector<std::string> adapters;  ///< by name; empty: chosen by their distance to the memory
};

/// What a server says of something that it offers.
struct ExportDescription {
  std::string name;
  std::string device;  ///< of the server's machine: `gpu:0`
  std::uint64_t length_bytes = 0;
  RemoteAccess access = RemoteAccess::read;
};

/// Memory of a peer. Move-only. Must be gone before its Peer.
class RemoteRegion {
 public:
  RemoteRegion(session::PeerConnection& connection, const RemoteMemory& memory,
               RemoteAccess access);
  RemoteRegion(RemoteRegion&& other) noexcept;
  RemoteRegion& operator=(RemoteRegion&& other) noexcept;
  ~RemoteRegion();

  [[nodiscard]] Place place() const { return memory_; }
  /// A part, which must lie inside: asserts.
  [[nodiscard]] Place place(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;
  [[nodiscard]] std::uint64_t length_bytes() const { return memory_.length_bytes; }
  [[nodiscard]] RemoteAccess access() const { return access_; }

 private:
  session::PeerConnection* connection_;
  RemoteMemory memory_;
  RemoteAccess access_;
};

/// A connection to a server. Move-only, thread-safe. Must be gone before its Session, and with no
/// transfer in flight.
class Peer {
 public:
  explicit Peer(std::unique_ptr<session::PeerConnection> connection);
  Peer(Peer&&) noexcept;
  Peer& operator=(Peer&&) noexcept;
  ~Peer();

  /// Asks for an export. Origin remote with the server's cause where it refuses:
  /// remote.name_unknown, remote.access_denied.
  [[nodiscard]] Result<RemoteRegion> open(std::string_view name,
                                          RemoteAccess access = RemoteAccess::read);
  /// What the server offers, up to 24 exports.
  [[nodiscard]] Result<std::vector<ExportDescription>> exports();
  [[nodiscard]] const std::string& address() const;
  [[nodiscard]] std::string name() const;  ///< as the server calls itself
  /// Why the connection no longer stands; empty while it does.
  [[nodiscard]] std::optional<Error> error() const;

 private:
  std::unique_ptr<session::PeerConnection> connection_;
};

}  // namespace nobounce
