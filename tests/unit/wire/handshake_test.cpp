// The handshake: who knows the token gets in, and nobody by what somebody else once said.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "wire/handshake.hpp"

namespace nobounce::wire {
namespace {

Token token_of(const char* text) {
  return Token::from_text(text).value();
}

Nonce nonce_of(unsigned number) {
  Nonce nonce{};
  nonce[0] = static_cast<std::byte>(number);
  return nonce;
}

/// The frame that such bytes are.
Frame frame_of(const std::vector<std::byte>& bytes) {
  FrameReader reader;
  std::span<const std::byte> rest(bytes);
  while (true) {
    const std::span<std::byte> room = reader.room();
    const std::size_t length = std::min(room.size(), rest.size());
    std::copy_n(rest.begin(), length, room.begin());
    rest = rest.subspan(length);
    Result<std::optional<Frame>> frame = reader.filled(length);
    if (frame.ok() && frame->has_value()) return std::move(**frame);
    if (!frame.ok() || rest.empty()) throw std::runtime_error("no frame");
  }
}

struct Pair {
  explicit Pair(const char* client_token = "a token of some length",
                const char* server_token = "a token of some length", unsigned nonces = 1)
      : of_client(token_of(client_token)),
        of_server(token_of(server_token)),
        client(Role::client, of_client, "client", nonce_of(nonces)),
        server(Role::server, of_server, "server", nonce_of(nonces + 100)) {}

  /// To the end, or to the first error.
  Status shake() {
    hello = client.begin();
    auto answer = server.take(frame_of(hello));
    if (!answer.ok()) return answer.error();
    challenge = *answer;
    answer = client.take(frame_of(challenge));
    if (!answer.ok()) return answer.error();
    proof = *answer;
    answer = server.take(frame_of(proof));
    if (!answer.ok()) return answer.error();
    welcome = *answer;
    answer = client.take(frame_of(welcome));
    if (!answer.ok()) return answer.error();
    return {};
  }

  Token of_client;
  Token of_server;
  Handshake client;
  Handshake server;
  std::vector<std::byte> hello, challenge, proof, welcome;
};

bool holds(const std::vector<std::byte>& bytes, std::string_view text) {
  const auto wanted = bytes_of(text);
  return std::search(bytes.begin(), bytes.end(), wanted.begin(), wanted.end()) != bytes.end();
}

TEST(Handshakes, OfTwoThatShareATokenEndWellAndTheirSealsFit) {
  Pair pair;
  ASSERT_TRUE(pair.shake().ok());
  EXPECT_TRUE(pair.client.done());
  EXPECT_TRUE(pair.server.done());
  EXPECT_EQ(pair.client.peer_name(), "server");
  EXPECT_EQ(pair.server.peer_name(), "client");
  Seal sent = pair.client.sending();
  Seal expected = pair.server.receiving();
  Seal other_way = pair.client.receiving();
  const Mac mac = sent.next({}, {});
  EXPECT_EQ(mac, expected.next({}, {}));
  EXPECT_NE(mac, other_way.next({}, {}));
}

TEST(Handshakes, NeverPutTheTokenOnTheWire) {
  Pair pair;
  ASSERT_TRUE(pair.shake().ok());
  for (const auto* bytes : {&pair.hello, &pair.challenge, &pair.proof, &pair.welcome})
    EXPECT_FALSE(holds(*bytes, "a token of some"));
}

TEST(Handshakes, WithAnotherTokenAreRefusedByTheServerFirst) {
  Pair pair("a token of some length", "another of some length");
  const Status shaken = pair.shake();
  ASSERT_FALSE(shaken.ok());
  EXPECT_EQ(shaken.error().cause, Cause::remote_authentication_failed);
  EXPECT_TRUE(pair.welcome.empty());
  EXPECT_FALSE(pair.server.done());
}

TEST(Handshakes, AServerThatDoesNotKnowTheTokenIsRefusedByTheClient) {
  Pair pair;
  pair.hello = pair.client.begin();
  pair.challenge = *pair.server.take(frame_of(pair.hello));
  ASSERT_TRUE(pair.client.take(frame_of(pair.challenge)).ok());
  const auto welcomed = pair.client.take(frame_of(make_frame(Welcome{}, nullptr)));
  ASSERT_FALSE(welcomed.ok());
  EXPECT_EQ(welcomed.error().cause, Cause::remote_authentication_failed);
}

TEST(Handshakes, ReplayedToAnotherServerSessionAreRefused) {
  Pair recorded;
  ASSERT_TRUE(recorded.shake().ok());
  Pair later("a token of some length", "a token of some length", 2);
  ASSERT_TRUE(later.server.take(frame_of(recorded.hello)).ok());
  const auto replayed = later.server.take(frame_of(recorded.proof));
  ASSERT_FALSE(replayed.ok());
  EXPECT_EQ(replayed.error().cause, Cause::remote_authentication_failed);
}

TEST(Handshakes, ReplayedToAnotherClientSessionAreRefused) {
  Pair recorded;
  ASSERT_TRUE(recorded.shake().ok());
  Pair later("a token of some length", "a token of some length", 2);
  (void)later.client.begin();
  ASSERT_TRUE(later.client.take(frame_of(recorded.challenge)).ok());
  const auto replayed = later.client.take(frame_of(recorded.welcome));
  ASSERT_FALSE(replayed.ok());
  EXPECT_EQ(replayed.error().cause, Cause::remote_authentication_failed);
}

TEST(Handshakes, ReflectedToTheirSenderAreRefused) {
  // An end without the token hands a client's own proof back as the server's.
  Pair pair;
  (void)pair.client.begin();
  Frame challenge = frame_of(
      make_frame(Challenge{.version = 1, .nonce = nonce_of(77), .name = "server"}, nullptr));
  const auto proof = pair.client.take(challenge);
  ASSERT_TRUE(proof.ok());
  const Mac mac = std::get<Proof>(frame_of(*proof).message).mac;
  const auto reflected = pair.client.take(frame_of(make_frame(Welcome{mac}, nullptr)));
  ASSERT_FALSE(reflected.ok());
  EXPECT_EQ(reflected.error().cause, Cause::remote_authentication_failed);
  // And its own nonce is not taken for another's.
  Pair second;
  (void)second.client.begin();
  EXPECT_FALSE(second.client
                   .take(frame_of(make_frame(
                       Challenge{.version = 1, .nonce = nonce_of(1), .name = "server"}, nullptr)))
                   .ok());
}

TEST(Handshakes, WhoseNamesWereChangedOnTheWayAreRefused) {
  Pair pair;
  Frame hello = frame_of(pair.client.begin());
  auto changed = std::get<Hello>(hello.message);
  changed.name = "somebody else";
  pair.challenge = *pair.server.take(frame_of(make_frame(changed, nullptr)));
  pair.proof = *pair.client.take(frame_of(pair.challenge));
  const auto answer = pair.server.take(frame_of(pair.proof));
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().cause, Cause::remote_authentication_failed);
}

TEST(Handshakes, OfVersionsThatHaveNothingInCommonSaySo) {
  Pair pair;
  const auto future =
      pair.server.take(frame_of(make_frame(Hello{9, 12, nonce_of(1), "client"}, nullptr)));
  ASSERT_FALSE(future.ok());
  EXPECT_EQ(future.error().cause, Cause::remote_handshake_invalid);
  EXPECT_NE(future.error().detail.find("9 to 12"), std::string::npos);
  (void)pair.client.begin();
  EXPECT_FALSE(
      pair.client.take(frame_of(make_frame(Challenge{9, nonce_of(9), "server"}, nullptr))).ok());
}

TEST(Handshakes, TakeNoMessageOutOfItsTurn) {
  const std::vector<Message> others = {Proof{}, Welcome{}, Open{}, Bye{}, StageRead{1, 1, 0, 1}};
  for (const Message& message : others) {
    Pair pair;
    const auto to_server = pair.server.take(frame_of(make_frame(message, nullptr)));
    ASSERT_FALSE(to_server.ok());
    EXPECT_EQ(to_server.error().cause, Cause::remote_handshake_invalid);
    (void)pair.client.begin();
    EXPECT_FALSE(pair.client.take(frame_of(make_frame(message, nullptr))).ok());
  }
  Pair twice;
  const Frame hello = frame_of(twice.client.begin());
  ASSERT_TRUE(twice.server.take(hello).ok());
  EXPECT_FALSE(twice.server.take(hello).ok());
}

TEST(Handshakes, ARefusalKeepsItsCause) {
  Pair pair;
  (void)pair.client.begin();
  const Refusal refusal{0, Cause::remote_too_many_connections, "", "it has 64"};
  const auto answer = pair.client.take(frame_of(make_frame(refusal, nullptr)));
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().cause, Cause::remote_too_many_connections);
  EXPECT_EQ(answer.error().detail, "it has 64");
}

TEST(Tokens, AreReadFromTextWithoutTheWhiteSpaceAroundIt) {
  EXPECT_EQ(Token::from_text("  0123456789abcdef\r\n").value().text(), "0123456789abcdef");
  EXPECT_FALSE(Token::from_text("0123456789abcde").ok());
  EXPECT_FALSE(Token::from_text("            \n            ").ok());
  EXPECT_FALSE(Token::from_text(std::string(token_length_max + 1, 'x')).ok());
  // The error says nothing of what the token is.
  EXPECT_EQ(to_string(Token::from_text("secret").error()).find("secret"), std::string::npos);
}

TEST(Codes, AreHmacSha256OfTheLengthAndThePart) {
  // Made with another implementation: Python's hmac, over the length in 8 bytes and the text.
  const std::string_view expected =
      "f80838b2e599dfbe7a38f7a7a17809946762357529df986b87919b732a79be43";
  const Mac mac = mac_of(bytes_of("Jefe"), {bytes_of("what do ya want for nothing?")});
  std::string digits;
  for (const std::byte byte : mac) {
    constexpr std::string_view hexadecimal = "0123456789abcdef";
    digits += hexadecimal[std::to_integer<unsigned>(byte) >> 4];
    digits += hexadecimal[std::to_integer<unsigned>(byte) & 15];
  }
  EXPECT_EQ(digits, expected);
}

TEST(Codes, DifferWhereverTheKeyOrTheBordersOfThePartsDo) {
  const Mac one = mac_of(bytes_of("Jefe"), {bytes_of("a"), bytes_of("bc")});
  EXPECT_NE(one, mac_of(bytes_of("Jefe"), {bytes_of("ab"), bytes_of("c")}));
  EXPECT_NE(one, mac_of(bytes_of("jefe"), {bytes_of("a"), bytes_of("bc")}));
  EXPECT_TRUE(equal_in_constant_time(one, one));
  EXPECT_FALSE(equal_in_constant_time(one, std::span(one).first(31)));
}

}  // namespace
}  // namespace nobounce::wire
