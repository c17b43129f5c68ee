// What two ends say to each other: values, and how they become bytes and back. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <nobounce/error.hpp>
#include <nobounce/receipt.hpp>
#include "wire/endpoint.hpp"

namespace nobounce::wire {

inline constexpr std::uint16_t version_min = 1;
inline constexpr std::uint16_t version_max = 1;
inline constexpr std::size_t name_length_max = 64;          ///< of exports and of ends
inline constexpr std::size_t detail_length_max = 512;       ///< of texts about refusals
inline constexpr std::uint64_t piece_bytes_max = 1u << 20;  ///< payload of one staged piece
inline constexpr std::size_t lanes_max = 8;
inline constexpr std::size_t listed_max = 24;

using Nonce = std::array<std::byte, 32>;
using Mac = std::array<std::byte, 32>;

// Before both ends know each other.
struct Hello {
  std::uint16_t version_min = wire::version_min;
  std::uint16_t version_max = wire::version_max;
  Nonce nonce{};
  std::string name;
  bool operator==(const Hello&) const = default;
};
struct Challenge {
  std::uint16_t version = 0;
  Nonce nonce{};
  std::string name;
  bool operator==(const Challenge&) const = default;
};
struct Proof {  ///< of the client
  Mac mac{};
  bool operator==(const Proof&) const = default;
};
struct Welcome {  ///< and of the server
  Mac mac{};
  bool operator==(const Welcome&) const = default;
};

/// The answer to a request that will not be granted; request 0: the connection itself, which then
/// ends. The cause travels as its id: an end that does not know it keeps the text.
struct Refusal {
  std::uint32_t request = 0;
  Cause cause = Cause::none;
  std::string cause_id;
  std::string detail;
  bool operator==(const Refusal&) const = default;
};

enum class Access : std::uint8_t { read, write };
enum class Direction : std::uint8_t { read, write };  ///< as the active end sees it
enum class PlaceKind : std::uint8_t { gpu, host };

struct Open {
  std::uint32_t request = 0;
  std::string name;
  Access access = Access::read;
  bool operator==(const Open&) const = default;
};
/// An export, as one connection may use it.
struct Opened {
  std::uint32_t request = 0;
  std::uint64_t key = 0;  ///< names it from now on; drawn for this connection, of no use on another
  std::uint64_t length_bytes = 0;
  Access access = Access::read;
  PlaceKind place = PlaceKind::gpu;
  std::string device;  ///< `gpu:0`
  bool operator==(const Opened&) const = default;
};

/// What is there to open.
struct List {
  std::uint32_t request = 0;
  bool operator==(const List&) const = default;
};
struct ListedExport {
  std::string name;
  std::string device;
  std::uint64_t length_bytes = 0;
  Access access = Access::read;
  bool operator==(const ListedExport&) const = default;
};
struct Listed {
  std::uint32_t request = 0;
  std::vector<ListedExport> exports;  ///< at most listed_max; further ones are left out
  bool operator==(const Listed&) const = default;
};

/// Asks the server to join its adapters to these queue pairs, unless it has, and to register an
/// export with them.
struct Attach {
  std::uint32_t request = 0;
  std::uint64_t key = 0;
  std::vector<QueuePairEndpoint> lanes;  ///< at most lanes_max; empty: they are joined already
  bool operator==(const Attach&) const = default;
};
struct Attached {
  std::uint32_t request = 0;
  std::vector<QueuePairEndpoint> lanes;  ///< empty: they were joined already
  /// One per lane where adapters reach the memory itself; empty: staged at this end.
  std::vector<RemoteKey> keys;
  std::vector<Cause> causes;  ///< why it is staged
  bool operator==(const Attached&) const = default;
};

/// The active end is about to move bytes: what arrives, arrives in part until its Report.
struct Begin {
  std::uint64_t transfer = 0;
  std::uint64_t key = 0;
  Direction direction = Direction::read;
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
  Carriage expected = Carriage::direct;
  std::vector<Cause> causes;  ///< why not directly; at most Receipt::causes_max
  bool operator==(const Begin&) const = default;
};
/// How it ended, as the active end says.
struct Report {
  std::uint64_t transfer = 0;
  std::uint64_t key = 0;
  Direction direction = Direction::read;
  TransferState state = TransferState::done;
  Policy policy = Policy::direct_preferred;
  Link link = Link::none;
  std::uint64_t requested_bytes = 0;
  std::uint64_t elapsed_ns = 0;
  CarriageBytes bytes;
  std::vector<Cause> causes;
  bool operator==(const Report&) const = default;
};

/// The active end needs an export no more: its key names nothing from now on.
struct Close {
  std::uint64_t key = 0;
  bool operator==(const Close&) const = default;
};

/// Staged pieces. Payload stands behind the message in the frame, for StageWrite and StageData.
struct StageRead {
  std::uint64_t piece = 0;
  std::uint64_t key = 0;
  std::uint64_t offset_bytes = 0;
  std::uint32_t length_bytes = 0;
  bool operator==(const StageRead&) const = default;
};
struct StageWrite {
  std::uint64_t piece = 0;
  std::uint64_t key = 0;
  std::uint64_t offset_bytes = 0;
  std::uint32_t length_bytes = 0;
  bool operator==(const StageWrite&) const = default;
};
struct StageData {  ///< answers StageRead
  std::uint64_t piece = 0;
  std::uint32_t length_bytes = 0;
  bool operator==(const StageData&) const = default;
};
struct StageDone {  ///< answers StageWrite
  std::uint64_t piece = 0;
  bool operator==(const StageDone&) const = default;
};
struct StageFailed {
  std::uint64_t piece = 0;
  Cause cause = Cause::none;
  std::string cause_id;
  std::string detail;
  bool operator==(const StageFailed&) const = default;
};

struct Revoked {
  std::uint64_t key = 0;
  bool operator==(const Revoked&) const = default;
};
struct Bye {
  bool operator==(const Bye&) const = default;
};

using Message = std::variant<Hello, Challenge, Proof, Welcome, Refusal, Open, Opened, Attach,
                             Attached, Begin, Report, StageRead, StageWrite, StageData, StageDone,
                             StageFailed, Revoked, Bye, List, Listed, Close>;

/// The number that names a message's type in a frame: its place in the list, from 1.
[[nodiscard]] std::uint8_t type_of(const Message& message);

/// How many bytes of payload follow a message.
[[nodiscard]] std::uint32_t payload_bytes(const Message& message);

void encode(const Message& message, std::vector<std::byte>& target);

/// Exactly one message of that type and nothing behind it, or nothing at all. Reads no byte beyond
/// `body`.
[[nodiscard]] std::optional<Message> decode(std::uint8_t type, std::span<const std::byte> body);

/// What went wrong between the two ends.
[[nodiscard]] Error remote_error(Cause cause, std::string attempted, std::string detail);
/// The error that a refusal is at the end that got it.
[[nodiscard]] Error error_of(const Refusal& refusal, std::string attempted);
[[nodiscard]] Refusal refusal_of(std::uint32_t request, const Error& error);

}  // namespace nobounce::wire
