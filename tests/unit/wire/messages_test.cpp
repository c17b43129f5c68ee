// Messages and frames: they come back as they went, and what is no message is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wire/frame.hpp"
#include "wire/messages.hpp"

namespace nobounce::wire {
namespace {

template <typename Array>
Array filled_with(unsigned first) {
  Array bytes{};
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(first++);
  return bytes;
}

QueuePairEndpoint endpoint_of(std::uint32_t number) {
  return {.queue_pair = number,
          .packet_sequence = 0xabcdef,
          .gid = filled_with<std::array<std::byte, 16>>(number),
          .gid_index = 3,
          .mtu = 5,
          .lid = 0x1234,
          .port = 2,
          .reads_max = 16,
          .ethernet = false};
}

/// One of each kind, with nothing left at its default.
std::vector<Message> all_messages() {
  return {
      Hello{1, 7, filled_with<Nonce>(1), "client"},
      Challenge{1, filled_with<Nonce>(90), "server"},
      Proof{filled_with<Mac>(7)},
      Welcome{filled_with<Mac>(8)},
      Refusal{9, Cause::remote_revoked, "remote.revoked", "gone"},
      Open{1, "weights", Access::write},
      Opened{1, 0x0102030405060708, 1ULL << 40, Access::write, PlaceKind::host, "gpu:3"},
      Attach{2, 77, {endpoint_of(1), endpoint_of(0xffffff)}},
      Attached{2, {endpoint_of(5)}, {{1, 2, 3}, {4, 5, 6}}, {Cause::rdma_export_failed}},
      Begin{3, 77, Direction::write, 11, 12, Carriage::staged, {Cause::rdma_verbs_absent}},
      Report{3,
             77,
             Direction::write,
             TransferState::failed,
             Policy::staged_only,
             Link::pcie_switch,
             100,
             5,
             CarriageBytes{{1, 2, 3, 4, 5, 6}},
             {Cause::remote_partial_arrival}},
      StageRead{1, 77, 4096, 1u << 20},
      StageWrite{2, 77, 4096, 1},
      StageData{1, 65536},
      StageDone{2},
      StageFailed{3, Cause::remote_out_of_bounds, "remote.out_of_bounds", "beyond the end"},
      Revoked{77},
      Bye{},
      List{4},
      Listed{4, {{"weights", "gpu:0", 1ULL << 40, Access::write}, {"kv", "host", 3, Access::read}}},
      Close{77},
  };
}

std::vector<std::byte> body_of(const Message& message) {
  std::vector<std::byte> body;
  encode(message, body);
  return body;
}

TEST(Messages, ComeBackAsTheyWent) {
  const std::vector<Message> messages = all_messages();
  ASSERT_EQ(messages.size(), std::variant_size_v<Message>);
  for (const Message& message : messages) {
    SCOPED_TRACE(static_cast<int>(type_of(message)));
    const std::optional<Message> back = decode(type_of(message), body_of(message));
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(*back, message);
  }
}

TEST(Messages, CutOffOrWithSomethingBehindThemAreNone) {
  for (const Message& message : all_messages()) {
    SCOPED_TRACE(static_cast<int>(type_of(message)));
    std::vector<std::byte> body = body_of(message);
    for (std::size_t length = 0; length < body.size(); ++length)
      EXPECT_FALSE(decode(type_of(message), std::span(body).first(length)).has_value()) << length;
    body.push_back(std::byte{0});
    EXPECT_FALSE(decode(type_of(message), body).has_value());
  }
}

TEST(Messages, OfNoKnownTypeAreNone) {
  EXPECT_FALSE(decode(0, {}).has_value());
  EXPECT_FALSE(decode(std::variant_size_v<Message> + 1, {}).has_value());
  EXPECT_FALSE(decode(255, {}).has_value());
}

TEST(Messages, ThatNoHonestEndSendsAreNone) {
  const std::vector<Message> nonsense = {
      Hello{2, 1, {}, ""},
      Report{1,
             1,
             Direction::read,
             TransferState::done,
             Policy::staged_only,
             Link::none,
             10,
             0,
             CarriageBytes{{11, 0, 0, 0, 0, 0}},
             {}},  // more than was asked for
      Report{1,
             1,
             Direction::read,
             TransferState::done,
             Policy::staged_only,
             Link::none,
             10,
             0,
             CarriageBytes{{9, 0, 0, 0, 0, 0}},
             {}},  // done, and not all arrived
      Report{1,
             1,
             Direction::read,
             TransferState::failed,
             Policy::staged_only,
             Link::none,
             10,
             0,
             CarriageBytes{{~0ULL, 11, 0, 0, 0, 0}},
             {}},  // a sum that wraps
      StageRead{1, 1, 0, 0},
      StageRead{1, 1, 0, piece_bytes_max + 1},
      StageWrite{1, 1, 0, 0},
      StageData{1, piece_bytes_max + 1},
  };
  for (const Message& message : nonsense)
    EXPECT_FALSE(decode(type_of(message), body_of(message)).has_value()) << message.index();
}

TEST(Messages, BringNoControlCharactersToATerminal) {
  std::vector<std::byte> body = body_of(Open{1, "ab", Access::read});
  const auto letter = std::find(body.begin(), body.end(), std::byte{'a'});
  for (const int character : {0x1b, 0x00, 0x0a, 0x7f, 0x9b}) {
    *letter = static_cast<std::byte>(character);
    EXPECT_FALSE(decode(type_of(Open{}), body).has_value()) << character;
  }
  const auto sent = decode(type_of(Refusal{}), body_of(Refusal{1, Cause::none, "", "a\x1b[2Jb"}));
  ASSERT_TRUE(sent.has_value());
  EXPECT_EQ(std::get<Refusal>(*sent).detail, "a?[2Jb");
}

TEST(Messages, CutTextsToTheirLimit) {
  const auto sent = decode(type_of(Open{}), body_of(Open{1, std::string(9000, 'x'), Access::read}));
  ASSERT_TRUE(sent.has_value());
  EXPECT_EQ(std::get<Open>(*sent).name, std::string(name_length_max, 'x'));
}

TEST(Messages, ACauseOfALaterVersionKeepsItsName) {
  const Refusal refusal{1, Cause::none, "remote.of_tomorrow", "so it is"};
  const auto sent = decode(type_of(Message(refusal)), body_of(refusal));
  ASSERT_TRUE(sent.has_value());
  const Error error = error_of(std::get<Refusal>(*sent), "copy");
  EXPECT_EQ(error.cause, Cause::remote_refused_by_peer);
  EXPECT_EQ(error.detail, "remote.of_tomorrow: so it is");
  EXPECT_EQ(error.origin, ErrorOrigin::remote);
}

// --- frames -------------------------------------------------------------------------------------

SecretKey key_of(unsigned number) {
  return SecretKey(filled_with<Mac>(number));
}

/// Feeds bytes in pieces of `piece` and answers the frames; stops at the first error.
std::vector<Frame> read_frames(FrameReader& reader, std::span<const std::byte> bytes,
                               std::size_t piece, std::optional<Error>* error = nullptr) {
  std::vector<Frame> frames;
  while (!bytes.empty()) {
    const std::span<std::byte> room = reader.room();
    EXPECT_FALSE(room.empty());
    const std::size_t length = std::min({piece, room.size(), bytes.size()});
    std::copy_n(bytes.begin(), length, room.begin());
    bytes = bytes.subspan(length);
    Result<std::optional<Frame>> frame = reader.filled(length);
    if (!frame.ok()) {
      if (error != nullptr) *error = frame.error();
      return frames;
    }
    if (frame->has_value()) frames.push_back(std::move(**frame));
  }
  return frames;
}

TEST(Frames, ArriveWholeInWhateverPieces) {
  Seal sending(key_of(1));
  std::vector<std::byte> bytes;
  const std::vector<std::byte> payload(1000, std::byte{42});
  for (const Message& message : {Message(StageData{7, 1000}), Message(Bye{}), Message(Open{})}) {
    const std::vector<std::byte> frame = make_frame(message, &sending);
    bytes.insert(bytes.end(), frame.begin(), frame.end());
    if (payload_bytes(message) > 0) bytes.insert(bytes.end(), payload.begin(), payload.end());
  }
  for (const std::size_t piece : {1U, 2U, 13U, 5000U}) {
    FrameReader reader;
    reader.expect_seal(Seal(key_of(1)));
    const std::vector<Frame> frames = read_frames(reader, bytes, piece);
    ASSERT_EQ(frames.size(), 3U) << piece;
    EXPECT_EQ(frames[0].message, Message(StageData{7, 1000}));
    EXPECT_EQ(frames[0].payload, payload);
    EXPECT_EQ(frames[1].message, Message(Bye{}));
    EXPECT_EQ(frames[2].message, Message(Open{}));
  }
}

/// What a reader with a seal makes of bytes: its error's cause.
Cause refusal_of_bytes(std::span<const std::byte> bytes, unsigned key = 1) {
  FrameReader reader;
  reader.expect_seal(Seal(key_of(key)));
  std::optional<Error> error;
  (void)read_frames(reader, bytes, 4096, &error);
  return error.has_value() ? error->cause : Cause::none;
}

TEST(Frames, AnyChangedBitOfASealedFrameIsNoticed) {
  Seal sending(key_of(1));
  const std::vector<std::byte> frame = make_frame(Revoked{77}, &sending);
  EXPECT_EQ(refusal_of_bytes(frame), Cause::none);
  for (std::size_t bit = 0; bit < frame.size() * 8; ++bit) {
    std::vector<std::byte> changed = frame;
    changed[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    FrameReader reader;
    reader.expect_seal(Seal(key_of(1)));
    // A changed length leaves the reader waiting for more; it never yields a frame.
    EXPECT_TRUE(read_frames(reader, changed, 4096).empty()) << bit;
  }
}

TEST(Frames, RepeatedLeftOutOrOfAnotherKeyAreRefused) {
  Seal sending(key_of(1));
  const std::vector<std::byte> first = make_frame(Bye{}, &sending);
  const std::vector<std::byte> second = make_frame(Bye{}, &sending);
  std::vector<std::byte> twice = first;
  twice.insert(twice.end(), first.begin(), first.end());
  EXPECT_EQ(refusal_of_bytes(twice), Cause::remote_authentication_failed);
  EXPECT_EQ(refusal_of_bytes(second), Cause::remote_authentication_failed);
  EXPECT_EQ(refusal_of_bytes(first, 2), Cause::remote_authentication_failed);
}

TEST(Frames, AnnouncingMoreThanIsAllowedAreRefusedByTheirHeader) {
  struct Case {
    const char* what;
    std::array<unsigned, header_bytes> bytes;
    bool greeting;
    bool good;
  };
  const Case cases[] = {
      {"a hello", {'n', 'b', 1, 1, 0, 0, 0, 40, 0, 0, 0, 0}, true, true},
      {"wrong mark", {'n', 'c', 1, 1, 0, 0, 0, 40, 0, 0, 0, 0}, true, false},
      {"HTTP", {'G', 'E', 'T', ' ', '/', ' ', 'H', 'T', 'T', 'P', '/', '1'}, true, false},
      {"frame version", {'n', 'b', 2, 1, 0, 0, 0, 40, 0, 0, 0, 0}, true, false},
      {"type 0", {'n', 'b', 1, 0, 0, 0, 0, 40, 0, 0, 0, 0}, true, false},
      {"type unknown", {'n', 'b', 1, 99, 0, 0, 0, 40, 0, 0, 0, 0}, true, false},
      {"long greeting", {'n', 'b', 1, 1, 0, 0, 4, 1, 0, 0, 0, 0}, true, false},
      {"the same later", {'n', 'b', 1, 1, 0, 0, 4, 1, 0, 0, 0, 0}, false, true},
      {"endless body", {'n', 'b', 1, 1, 255, 255, 255, 255, 0, 0, 0, 0}, false, false},
      {"payload too early", {'n', 'b', 1, 14, 0, 0, 0, 12, 0, 0, 0, 1}, true, false},
      {"payload later", {'n', 'b', 1, 14, 0, 0, 0, 12, 0, 16, 0, 0}, false, true},
      {"endless payload", {'n', 'b', 1, 14, 0, 0, 0, 12, 0, 16, 0, 1}, false, false},
  };
  for (const Case& one : cases) {
    std::array<std::byte, header_bytes> bytes{};
    std::transform(one.bytes.begin(), one.bytes.end(), bytes.begin(),
                   [](unsigned byte) { return static_cast<std::byte>(byte); });
    const Result<FrameHeader> header = parse_header(bytes, one.greeting);
    EXPECT_EQ(header.ok(), one.good) << one.what;
    if (!header.ok()) {
      EXPECT_EQ(header.error().cause, Cause::remote_handshake_invalid) << one.what;
    }
  }
}

}  // namespace
}  // namespace nobounce::wire
