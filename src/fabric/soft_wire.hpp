// The network between adapters of software machines: packets by port, within one process and
// between processes over local sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace nobounce::fabric {

/// What a packet says before its payload. Plain data: both ends are this program.
struct WireHeader {
  enum class Kind : std::uint8_t {
    write,
    write_with_imm,
    send,
    send_with_imm,
    read_request,
    read_response,
    acknowledge,
    refuse,     ///< `status` says how the request ends at its sender
    not_ready,  ///< nothing was posted to receive it: try again
  };
  Kind kind = Kind::write;
  std::uint8_t status = 0;
  std::uint8_t last = 0;  ///< of its message
  std::uint8_t adapter = 0;
  std::uint32_t source_pair = 0;
  std::uint32_t target_pair = 0;
  std::uint32_t message = 0;  ///< counted per queue pair and direction
  std::uint32_t imm_data = 0;
  std::uint32_t key = 0;
  std::uint64_t source_port = 0;
  std::uint64_t target_port = 0;
  std::uint64_t address = 0;       ///< of the message's first byte
  std::uint64_t offset = 0;        ///< of this packet in it
  std::uint64_t total_bytes = 0;   ///< of the message
  std::uint64_t wire_address = 0;  ///< of the payload between adapters
  std::uint64_t payload_bytes = 0;
};

/// Payload in transit is the adapters' own memory: it is wiped when it is done with, so that no
/// copy of it stays in this process.
class WirePayload {
 public:
  WirePayload() = default;
  explicit WirePayload(std::size_t length_bytes) : bytes_(length_bytes) {}
  WirePayload(WirePayload&&) noexcept = default;
  WirePayload& operator=(WirePayload&& other) noexcept;
  WirePayload(const WirePayload&) = delete;
  WirePayload& operator=(const WirePayload&) = delete;
  ~WirePayload() { wipe(); }

  [[nodiscard]] std::span<std::byte> bytes() { return bytes_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  void wipe();
  std::vector<std::byte> bytes_;
};

struct WirePacket {
  WireHeader header;
  WirePayload payload;
};

/// Ports are numbers that no two processes share. Used by one thread at a time; `poke` by any.
class SoftWire {
 public:
  static constexpr std::size_t payload_max_bytes = 256u << 10;

  /// `own` are the ports of this machine: what is sent there never leaves the process.
  SoftWire(std::uint64_t base_port, std::uint32_t ports);
  ~SoftWire();
  SoftWire(const SoftWire&) = delete;
  SoftWire& operator=(const SoftWire&) = delete;

  [[nodiscard]] bool is_own(std::uint64_t port) const {
    return port >= base_port_ && port < base_port_ + ports_;
  }
  /// Lets other processes reach the own ports. False where the system has no socket for it.
  bool open();
  [[nodiscard]] bool is_open() const { return listener_ >= 0; }

  /// Whether a port takes more payload now; packets without any are always taken.
  [[nodiscard]] bool has_room(std::uint64_t port) const;
  /// To nobody, if nobody listens there.
  void send(WirePacket packet);
  /// The next packet for one of the own ports.
  [[nodiscard]] std::optional<WirePacket> receive();
  /// Moves bytes between sockets and packets. True if any moved.
  bool pump();
  /// Waits until a socket or poke() has something, or the time is over.
  void wait(std::uint64_t timeout_ns);
  void poke();

 private:
  struct Link;
  void accept_all();
  bool flush(Link& link);
  bool fill(Link& link);
  [[nodiscard]] Link* link_to(std::uint64_t port);

  std::uint64_t base_port_;
  std::uint32_t ports_;
  int listener_ = -1;
  int waker_ = -1;
  std::deque<WirePacket> arrived_;
  std::uint64_t looping_bytes_ = 0;                          ///< of `arrived_`, sent by ourselves
  std::map<std::uint64_t, std::unique_ptr<Link>> outgoing_;  ///< by the far process's first port
  std::vector<std::unique_ptr<Link>> incoming_;
};

/// The first port of whatever process a port belongs to.
[[nodiscard]] constexpr std::uint64_t base_of_port(std::uint64_t port) {
  return port & ~std::uint64_t{0xff};
}

}  // namespace nobounce::fabric
