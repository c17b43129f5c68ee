// Frames: made, taken apart, and checked.
#include "wire/frame.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "wire/bytes.hpp"

namespace nobounce::wire {

namespace {

constexpr std::uint8_t first_mark = 'n';
constexpr std::uint8_t second_mark = 'b';

Error invalid(std::string detail, Cause cause = Cause::remote_handshake_invalid) {
  return remote_error(cause, "read what the far side sent", std::move(detail));
}

}  // namespace

Result<FrameHeader> parse_header(std::span<const std::byte, header_bytes> bytes, bool greeting) {
  ByteReader in(bytes);
  if (in.u8() != first_mark || in.u8() != second_mark) return invalid("it is not of this protocol");
  if (const std::uint8_t version = in.u8(); version != frame_version)
    return invalid("frames of version " + std::to_string(version) + ", this end speaks 1");
  FrameHeader header;
  header.type = in.u8();
  header.body_bytes = in.u32();
  header.payload_bytes = in.u32();
  if (header.type == 0 || header.type > std::variant_size_v<Message>)
    return invalid("a message of unknown type " + std::to_string(header.type));
  const std::uint32_t body_max = greeting ? greeting_bytes_max : body_bytes_max;
  if (header.body_bytes > body_max) {
    return invalid("a message of " + std::to_string(header.body_bytes) + " bytes, where " +
                   std::to_string(body_max) + " are allowed");
  }
  if (header.payload_bytes > (greeting ? 0 : piece_bytes_max))
    return invalid("a payload of " + std::to_string(header.payload_bytes) + " bytes");
  return header;
}

Mac Seal::next(std::span<const std::byte> header, std::span<const std::byte> body) {
  std::vector<std::byte> number;
  ByteWriter(number).u64(sequence_++);
  return mac_of(key_.bytes(), {number, header, body});
}

std::vector<std::byte> make_frame(const Message& message, Seal* seal) {
  std::vector<std::byte> frame(header_bytes);
  encode(message, frame);
  std::vector<std::byte> header;
  ByteWriter out(header);
  out.u8(first_mark);
  out.u8(second_mark);
  out.u8(frame_version);
  out.u8(type_of(message));
  out.u32(static_cast<std::uint32_t>(frame.size() - header_bytes));
  out.u32(payload_bytes(message));
  std::copy(header.begin(), header.end(), frame.begin());
  if (seal != nullptr) {
    const Mac mac = seal->next(header, std::span(frame).subspan(header_bytes));
    frame.insert(frame.end(), mac.begin(), mac.end());
  }
  return frame;
}

void FrameReader::begin(Part part, std::size_t length_bytes) {
  part_ = part;
  buffer_.resize(length_bytes);
  filled_bytes_ = 0;
}

std::span<std::byte> FrameReader::room() {
  return std::span(buffer_).subspan(filled_bytes_);
}

Result<std::optional<Frame>> FrameReader::filled(std::size_t length_bytes) {
  filled_bytes_ += std::min(length_bytes, buffer_.size() - filled_bytes_);
  // A part of no bytes is complete as soon as it begins.
  while (filled_bytes_ == buffer_.size()) {
    Result<std::optional<Frame>> frame = part_complete();
    if (!frame.ok() || frame->has_value()) return frame;
  }
  return std::optional<Frame>();
}

Status FrameReader::open_body() {
  std::span<const std::byte> body(buffer_);
  if (seal_.has_value()) {
    const std::span<const std::byte> mac = body.last(sizeof(Mac));
    body = body.first(body.size() - sizeof(Mac));
    if (!equal_in_constant_time(mac, seal_->next(head_, body))) {
      return invalid("a message that bears no valid seal", Cause::remote_authentication_failed);
    }
  }
  message_ = decode(header_.type, body);
  if (!message_.has_value())
    return invalid("a malformed message of type " + std::to_string(header_.type));
  if (payload_bytes(*message_) != header_.payload_bytes)
    return invalid("a message whose payload has another length than it says");
  head_.insert(head_.end(), body.begin(), body.end());
  return {};
}

Result<std::optional<Frame>> FrameReader::part_complete() {
  switch (part_) {
    case Part::header: {
      Result<FrameHeader> header =
          parse_header(std::span<const std::byte, header_bytes>(buffer_), !seal_.has_value());
      if (!header.ok()) return std::move(header).error();
      header_ = *header;
      head_ = buffer_;
      begin(Part::body, header_.body_bytes + (seal_.has_value() ? sizeof(Mac) : 0));
      return std::optional<Frame>();
    }
    case Part::body:
      if (Status opened = open_body(); !opened.ok()) return opened.error();
      begin(Part::payload, header_.payload_bytes);
      return std::optional<Frame>();
    case Part::payload:
      break;
  }
  Frame frame{std::move(*message_), std::move(head_), std::move(buffer_)};
  message_.reset();
  head_ = {};
  buffer_ = {};
  begin(Part::header, header_bytes);
  return std::optional(std::move(frame));
}

}  // namespace nobounce::wire
