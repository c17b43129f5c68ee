// What any stranger can send to a server: frames, messages and the handshake, in both roles.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "wire/frame.hpp"
#include "wire/handshake.hpp"

namespace {

using namespace nobounce::wire;

/// Whatever a message is, it is made into the bytes that it was read from.
void must_come_back(const Frame& frame) {
  std::vector<std::byte> body;
  encode(frame.message, body);
  const std::optional<Message> again = decode(type_of(frame.message), body);
  if (!again.has_value() || !(*again == frame.message)) std::abort();
}

/// Feeds everything, in pieces, to one end until it refuses.
void talk_to(Role role, std::span<const std::byte> bytes, std::size_t piece) {
  static const nobounce::Result<Token> token = Token::from_text("the token of the fuzzer");
  Handshake handshake(role, *token, "fuzzed", Nonce{});
  (void)handshake.begin();
  FrameReader reader;
  while (!bytes.empty()) {
    const std::span<std::byte> room = reader.room();
    if (room.empty()) std::abort();
    const std::size_t length = std::min({piece, room.size(), bytes.size()});
    std::copy_n(bytes.begin(), length, room.begin());
    bytes = bytes.subspan(length);
    const nobounce::Result<std::optional<Frame>> frame = reader.filled(length);
    if (!frame.ok()) return;
    if (!frame->has_value()) continue;
    must_come_back(**frame);
    if (!handshake.take(**frame).ok()) return;
    if (handshake.done()) std::abort();  // nobody guesses a code of 256 bits
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data + 2, size - 2));
  (void)decode(data[0], bytes);
  const std::size_t piece = data[1] == 0 ? size : data[1];
  talk_to(Role::server, bytes, piece);
  talk_to(Role::client, bytes, piece);
  return 0;
}
