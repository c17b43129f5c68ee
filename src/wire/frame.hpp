// Frames: a header of fixed size, a body of bounded length, a code once both ends know each other,
// and perhaps payload.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <nobounce/result.hpp>
#include "wire/messages.hpp"
#include "wire/token.hpp"

namespace nobounce::wire {

/// `n`, `b`, version of the frame, type of the message, length of the body (4 bytes), length of the
/// payload (4 bytes).
inline constexpr std::size_t header_bytes = 12;
inline constexpr std::uint8_t frame_version = 1;
inline constexpr std::uint32_t body_bytes_max = 4096;
inline constexpr std::uint32_t greeting_bytes_max = 1024;  ///< of a body before the handshake's end

struct FrameHeader {
  std::uint8_t type = 0;
  std::uint32_t body_bytes = 0;
  std::uint32_t payload_bytes = 0;
};

/// Pure. Cause remote.handshake_invalid where it is no header of this protocol or announces more
/// than is allowed: before the handshake's end no payload, and a short body.
[[nodiscard]] Result<FrameHeader> parse_header(std::span<const std::byte, header_bytes> bytes,
                                               bool greeting);

/// One direction's key and how many frames it has sealed. Header, body and number are covered, so
/// that nothing can be changed, repeated or left out; payload is not, as it is not over RDMA.
class Seal {
 public:
  explicit Seal(const SecretKey& key) : key_(key) {}
  [[nodiscard]] Mac next(std::span<const std::byte> header, std::span<const std::byte> body);

 private:
  SecretKey key_;
  std::uint64_t sequence_ = 0;
};

/// Header, body and code; the payload follows as it is.
[[nodiscard]] std::vector<std::byte> make_frame(const Message& message, Seal* seal);

struct Frame {
  Message message;
  std::vector<std::byte> head;     ///< header and body as they came, for a handshake's transcript
  std::vector<std::byte> payload;  ///< payload_bytes(message)
};

/// Puts frames together from whatever pieces they come in. Holds no more than one frame.
class FrameReader {
 public:
  /// From the next frame on they must bear this seal.
  void expect_seal(Seal seal) { seal_.emplace(std::move(seal)); }

  /// Where the next bytes go; never empty.
  [[nodiscard]] std::span<std::byte> room();
  /// So many bytes were put there. A frame, if it is whole; an error if it is none of ours:
  /// remote.handshake_invalid, or remote.authentication_failed for a wrong seal. After an error the
  /// reader is of no more use.
  [[nodiscard]] Result<std::optional<Frame>> filled(std::size_t length_bytes);

 private:
  enum class Part : std::uint8_t { header, body, payload };
  [[nodiscard]] Result<std::optional<Frame>> part_complete();
  [[nodiscard]] Status open_body();
  void begin(Part part, std::size_t length_bytes);

  Part part_ = Part::header;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(header_bytes);
  std::size_t filled_bytes_ = 0;
  std::vector<std::byte> head_;
  FrameHeader header_;
  std::optional<Message> message_;
  std::optional<Seal> seal_;
};

}  // namespace nobounce::wire
