// Messages to bytes and back.
#include "wire/messages.hpp"

#include <algorithm>
#include <string_view>
#include <type_traits>
#include <utility>

#include "wire/bytes.hpp"

namespace nobounce::wire {
namespace {

constexpr std::size_t cause_id_length_max = 64;
constexpr std::uint32_t number_24_bits = 0xff'ffff;

// One function per type says its fields, for writing and for reading alike.

template <typename Number>
void field(ByteWriter& out, const Number& value) {
  out.number(static_cast<std::uint64_t>(value), sizeof(Number));
}
template <typename Number>
void field(ByteReader& in, Number& value) {
  value = static_cast<Number>(in.number(sizeof(Number)));
}

template <std::size_t Size>
void field(ByteWriter& out, const std::array<std::byte, Size>& value) {
  out.bytes(value);
}
template <std::size_t Size>
void field(ByteReader& in, std::array<std::byte, Size>& value) {
  in.bytes(value);
}

void name_field(ByteWriter& out, const std::string& value) {
  out.text(value, name_length_max);
}
void name_field(ByteReader& in, std::string& value) {
  value = in.text(name_length_max);
}
void detail_field(ByteWriter& out, const std::string& value) {
  out.text(value, detail_length_max);
}
void detail_field(ByteReader& in, std::string& value) {
  value = in.text(detail_length_max);
}

template <typename Enum>
void enum_field(ByteWriter& out, const Enum& value, Enum) {
  out.u8(static_cast<std::uint8_t>(value));
}
template <typename Enum>
void enum_field(ByteReader& in, Enum& value, Enum most) {
  value = static_cast<Enum>(in.u8_up_to(static_cast<std::uint8_t>(most)));
}

void bool_field(ByteWriter& out, const bool& value) {
  out.u8(value ? 1 : 0);
}
void bool_field(ByteReader& in, bool& value) {
  value = in.u8_up_to(1) == 1;
}

void bits24_field(ByteWriter& out, const std::uint32_t& value) {
  out.u32(value & number_24_bits);
}
void bits24_field(ByteReader& in, std::uint32_t& value) {
  value = in.u32();
  if (value > number_24_bits) in.fail();
}

/// A cause and its id: the id is what travels.
void cause_field(ByteWriter& out, const Cause& cause, const std::string& id) {
  out.text(cause == Cause::none ? std::string_view(id) : to_string(cause), cause_id_length_max);
}
void cause_field(ByteReader& in, Cause& cause, std::string& id) {
  id = in.text(cause_id_length_max);
  cause = cause_from_string(id).value_or(Cause::none);
}

void causes_field(ByteWriter& out, const std::vector<Cause>& causes) {
  const std::size_t count = std::min(causes.size(), Receipt::causes_max);
  out.u8(static_cast<std::uint8_t>(count));
  for (std::size_t i = 0; i < count; ++i) out.text(to_string(causes[i]), cause_id_length_max);
}
void causes_field(ByteReader& in, std::vector<Cause>& causes) {
  const std::uint8_t count = in.u8_up_to(Receipt::causes_max);
  causes.clear();
  for (std::uint8_t i = 0; i < count; ++i) {
    const auto cause = cause_from_string(in.text(cause_id_length_max));
    if (cause.has_value()) causes.push_back(*cause);  // of a later version: not ours to repeat
  }
}

template <typename Bytes, typename Value>
void endpoint_fields(Bytes& bytes, Value& value) {
  bits24_field(bytes, value.queue_pair);
  bits24_field(bytes, value.packet_sequence);
  field(bytes, value.gid);
  field(bytes, value.gid_index);
  field(bytes, value.mtu);
  field(bytes, value.lid);
  field(bytes, value.port);
  field(bytes, value.reads_max);
  bool_field(bytes, value.ethernet);
}

template <typename Bytes, typename Value>
void remote_key_fields(Bytes& bytes, Value& value) {
  field(bytes, value.address);
  field(bytes, value.length_bytes);
  field(bytes, value.key);
}

template <typename Item, typename Fields>
void list_field(ByteWriter& out, const std::vector<Item>& list, Fields item,
                std::size_t most = lanes_max) {
  const std::size_t count = std::min(list.size(), most);
  out.u8(static_cast<std::uint8_t>(count));
  for (std::size_t i = 0; i < count; ++i) item(out, list[i]);
}
template <typename Item, typename Fields>
void list_field(ByteReader& in, std::vector<Item>& list, Fields item,
                std::size_t most = lanes_max) {
  list.resize(in.u8_up_to(static_cast<std::uint8_t>(most)));
  for (Item& one : list) item(in, one);
}

constexpr auto endpoint = [](auto& bytes, auto& value) { endpoint_fields(bytes, value); };
constexpr auto listed_export = [](auto& bytes, auto& value) {
  name_field(bytes, value.name);
  name_field(bytes, value.device);
  field(bytes, value.length_bytes);
  enum_field(bytes, value.access, Access::write);
};
constexpr auto remote_key = [](auto& bytes, auto& value) { remote_key_fields(bytes, value); };

template <typename Type, typename Value>
constexpr bool is = std::is_same_v<std::remove_const_t<Value>, Type>;

template <typename Bytes, typename Value>
void handshake_fields(Bytes& bytes, Value& value) {
  if constexpr (is<Hello, Value>) {
    field(bytes, value.version_min);
    field(bytes, value.version_max);
    field(bytes, value.nonce);
    name_field(bytes, value.name);
  } else if constexpr (is<Challenge, Value>) {
    field(bytes, value.version);
    field(bytes, value.nonce);
    name_field(bytes, value.name);
  } else {
    field(bytes, value.mac);
  }
}

template <typename Bytes, typename Value>
void export_fields(Bytes& bytes, Value& value) {
  field(bytes, value.request);
  if constexpr (is<Open, Value>) {
    name_field(bytes, value.name);
    enum_field(bytes, value.access, Access::write);
  } else if constexpr (is<Opened, Value>) {
    field(bytes, value.key);
    field(bytes, value.length_bytes);
    enum_field(bytes, value.access, Access::write);
    enum_field(bytes, value.place, PlaceKind::host);
    name_field(bytes, value.device);
  } else if constexpr (is<Listed, Value>) {
    list_field(bytes, value.exports, listed_export, listed_max);
  } else if constexpr (is<Attach, Value>) {
    field(bytes, value.key);
    list_field(bytes, value.lanes, endpoint);
  } else if constexpr (is<Attached, Value>) {
    list_field(bytes, value.lanes, endpoint);
    list_field(bytes, value.keys, remote_key);
    causes_field(bytes, value.causes);
  } else if constexpr (is<Refusal, Value>) {
    cause_field(bytes, value.cause, value.cause_id);
    detail_field(bytes, value.detail);
  }
}

template <typename Bytes, typename Value>
void transfer_fields(Bytes& bytes, Value& value) {
  field(bytes, value.transfer);
  field(bytes, value.key);
  enum_field(bytes, value.direction, Direction::write);
  if constexpr (is<Begin, Value>) {
    field(bytes, value.offset_bytes);
    field(bytes, value.length_bytes);
    enum_field(bytes, value.expected, Carriage::unattributed);
  } else {
    enum_field(bytes, value.state, TransferState::cancelled);
    enum_field(bytes, value.policy, Policy::staged_only);
    enum_field(bytes, value.link, nobounce::Link::c2c);
    field(bytes, value.requested_bytes);
    field(bytes, value.elapsed_ns);
    for (auto& by : value.bytes.by) field(bytes, by);
  }
  causes_field(bytes, value.causes);
}

template <typename Bytes, typename Value>
void stage_fields(Bytes& bytes, Value& value) {
  field(bytes, value.piece);
  if constexpr (is<StageRead, Value> || is<StageWrite, Value>) {
    field(bytes, value.key);
    field(bytes, value.offset_bytes);
    field(bytes, value.length_bytes);
  } else if constexpr (is<StageData, Value>) {
    field(bytes, value.length_bytes);
  } else if constexpr (is<StageFailed, Value>) {
    cause_field(bytes, value.cause, value.cause_id);
    detail_field(bytes, value.detail);
  }
}

template <typename Bytes, typename Value>
void fields(Bytes& bytes, Value& value) {
  if constexpr (is<Hello, Value> || is<Challenge, Value> || is<Proof, Value> ||
                is<Welcome, Value>) {
    handshake_fields(bytes, value);
  } else if constexpr (is<Begin, Value> || is<Report, Value>) {
    transfer_fields(bytes, value);
  } else if constexpr (is<StageRead, Value> || is<StageWrite, Value> || is<StageData, Value> ||
                       is<StageDone, Value> || is<StageFailed, Value>) {
    stage_fields(bytes, value);
  } else if constexpr (is<Revoked, Value> || is<Close, Value>) {
    field(bytes, value.key);
  } else if constexpr (!is<Bye, Value>) {
    export_fields(bytes, value);
  }
}

/// What no honest end sends although its bytes have the right form.
bool makes_sense(const Message& message) {
  if (const auto* hello = std::get_if<Hello>(&message)) {
    return hello->version_min <= hello->version_max;
  }
  if (const auto* report = std::get_if<Report>(&message)) {
    std::uint64_t rest = report->requested_bytes;
    for (const std::uint64_t by : report->bytes.by) {
      if (by > rest) return false;  // more arrived than was asked for
      rest -= by;
    }
    return report->state != TransferState::done || rest == 0;
  }
  if (const auto* read = std::get_if<StageRead>(&message)) {
    return read->length_bytes > 0 && read->length_bytes <= piece_bytes_max;
  }
  const std::uint32_t payload = payload_bytes(message);
  const bool carries =
      std::holds_alternative<StageWrite>(message) || std::holds_alternative<StageData>(message);
  return !carries || (payload > 0 && payload <= piece_bytes_max);
}

template <std::size_t Index>
std::optional<Message> decode_at(std::uint8_t type, std::span<const std::byte> body) {
  if constexpr (Index < std::variant_size_v<Message>) {
    if (type != Index + 1) return decode_at<Index + 1>(type, body);
    std::variant_alternative_t<Index, Message> value;
    ByteReader in(body);
    fields(in, value);
    if (!in.at_end()) return std::nullopt;
    Message message(std::in_place_index<Index>, std::move(value));
    if (!makes_sense(message)) return std::nullopt;
    return message;
  } else {
    return std::nullopt;
  }
}

}  // namespace

std::uint8_t type_of(const Message& message) {
  return static_cast<std::uint8_t>(message.index() + 1);
}

std::uint32_t payload_bytes(const Message& message) {
  if (const auto* write = std::get_if<StageWrite>(&message)) return write->length_bytes;
  if (const auto* data = std::get_if<StageData>(&message)) return data->length_bytes;
  return 0;
}

void encode(const Message& message, std::vector<std::byte>& target) {
  ByteWriter out(target);
  std::visit([&](const auto& value) { fields(out, value); }, message);
}

std::optional<Message> decode(std::uint8_t type, std::span<const std::byte> body) {
  return decode_at<0>(type, body);
}

Error remote_error(Cause cause, std::string attempted, std::string detail) {
  return Error{.origin = ErrorOrigin::remote,
               .attempted = std::move(attempted),
               .cause = cause,
               .detail = std::move(detail)};
}

Error error_of(const Refusal& refusal, std::string attempted) {
  Error error{.origin = ErrorOrigin::remote,
              .attempted = std::move(attempted),
              .cause = refusal.cause == Cause::none ? Cause::remote_refused_by_peer : refusal.cause,
              .detail = refusal.detail};
  if (refusal.cause == Cause::none && !refusal.cause_id.empty())
    error.detail = refusal.cause_id + (error.detail.empty() ? "" : ": " + error.detail);
  if (error.detail.empty()) error.detail = std::string(cause_row(error.cause).sentence);
  return error;
}

Refusal refusal_of(std::uint32_t request, const Error& error) {
  return Refusal{.request = request,
                 .cause = error.cause,
                 .cause_id = std::string(to_string(error.cause)),
                 .detail = error.detail};
}

}  // namespace nobounce::wire
