// Links over this machine's own TCP: greeting, messages, refusals, and ends of every kind.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "system/host.hpp"
#include "system/live_host.hpp"
#include "wire/link.hpp"

namespace nobounce::wire {
namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;

class LinkTest : public ::testing::Test {
 protected:
  ~LinkTest() override {
    client_.reset();
    server_.reset();
    network_.close(listener_);
  }
  Nonce fresh() {
    Nonce nonce;
    host_->entropy().fill(nonce);
    return nonce;
  }
  system::SocketHandle dial() {
    return network_.connect(network_.own_address(listener_).value()).value();
  }
  void make_client(const Token& token, std::uint64_t patience_ns = 60 * second_ns) {
    client_ = std::make_unique<Link>(
        network_, dial(), token,
        LinkOptions{Role::client, "client", fresh(), host_->clock().now_ns() + patience_ns});
  }
  void accept(const Token& token, std::uint64_t patience_ns = 60 * second_ns) {
    until([&] {
      const auto socket = network_.accept(listener_).value();
      if (!socket.has_value()) return false;
      server_ = std::make_unique<Link>(
          network_, *socket, token,
          LinkOptions{Role::server, "server", fresh(), host_->clock().now_ns() + patience_ns});
      return true;
    });
  }
  void until(const std::function<bool()>& condition) {
    const bool came = host_->workers().wait(
        [&] {
          if (client_ != nullptr) (void)client_->pump(host_->clock().now_ns());
          if (server_ != nullptr) (void)server_->pump(host_->clock().now_ns());
          return condition();
        },
        host_->clock().now_ns() + 60 * second_ns);
    EXPECT_TRUE(came);
  }
  void stand() {
    make_client(token_);
    accept(token_);
    until([&] {
      return client_->state() == LinkState::standing && server_->state() == LinkState::standing;
    });
  }
  Link::Incoming next(Link& link) {
    std::optional<Link::Incoming> message;
    until([&] {
      message = link.take();
      return message.has_value() || link.state() == LinkState::ended;
    });
    if (!message.has_value()) throw std::runtime_error("the link ended");
    return std::move(*message);
  }

  std::unique_ptr<system::Host> host_ = system::make_live_host();
  system::Network& network_ = *host_->network().value();
  system::SocketHandle listener_ = network_.listen({"127.0.0.1", 0}, 16).value();
  Token token_ = Token::random(host_->entropy());
  Token other_ = Token::random(host_->entropy());
  std::unique_ptr<Link> client_;
  std::unique_ptr<Link> server_;
};

TEST_F(LinkTest, CarryMessagesAndPayloadBothWays) {
  stand();
  EXPECT_EQ(client_->peer_name(), "server");
  EXPECT_EQ(server_->peer_name(), "client");
  ASSERT_TRUE(client_->send(Open{1, "weights", Access::read}).ok());
  EXPECT_EQ(next(*server_).message, Message(Open{1, "weights", Access::read}));
  std::vector<std::byte> payload(piece_bytes_max);
  host_->entropy().fill(payload);
  const StageData data{9, static_cast<std::uint32_t>(payload.size())};
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(server_->send(data, payload).ok());
  for (int i = 0; i < 5; ++i) {
    const Link::Incoming got = next(*client_);
    EXPECT_EQ(got.message, Message(data));
    EXPECT_EQ(got.payload, payload);
  }
}

TEST_F(LinkTest, WithAnotherTokenIsRefusedAndBothEndsSayWhy) {
  make_client(other_);
  accept(token_);
  until([&] {
    return client_->state() == LinkState::ended && server_->state() != LinkState::greeting;
  });
  EXPECT_EQ(client_->error()->cause, Cause::remote_authentication_failed);
  EXPECT_EQ(server_->error()->cause, Cause::remote_authentication_failed);
}

TEST_F(LinkTest, ARefusalArrivesWithItsCause) {
  make_client(token_);
  accept(token_);
  server_->refuse(Error{.origin = ErrorOrigin::session,
                        .attempted = "accept",
                        .cause = Cause::remote_too_many_connections,
                        .detail = "1 of 1"},
                  host_->clock().now_ns());
  until([&] { return client_->state() == LinkState::ended; });
  EXPECT_EQ(client_->error()->cause, Cause::remote_too_many_connections);
  EXPECT_EQ(client_->error()->detail, "1 of 1");
  client_.reset();
  until([&] { return server_->state() == LinkState::ended; });
}

TEST_F(LinkTest, AByeIsNoError) {
  stand();
  ASSERT_TRUE(client_->send(Bye{}).ok());
  until([&] { return server_->state() == LinkState::ended; });
  EXPECT_FALSE(server_->error().has_value());
}

TEST_F(LinkTest, APeerThatVanishesIsLostAndNothingCanBeSentToIt) {
  stand();
  server_.reset();
  until([&] { return client_->state() == LinkState::ended; });
  EXPECT_EQ(client_->error()->cause, Cause::remote_peer_lost);
  const Status sent = client_->send(Open{});
  ASSERT_FALSE(sent.ok());
  EXPECT_EQ(sent.error().cause, Cause::remote_peer_lost);
}

TEST_F(LinkTest, SilenceInTheHandshakeEndsAtItsDeadline) {
  const system::SocketHandle silent = dial();
  accept(token_, 1);
  until([&] { return server_->state() == LinkState::ended; });
  EXPECT_EQ(server_->error()->cause, Cause::remote_handshake_invalid);
  network_.close(silent);
}

TEST_F(LinkTest, AClientOfASilentServerGivesUpAtItsDeadline) {
  make_client(token_, 1);
  until([&] { return client_->state() == LinkState::ended; });
  EXPECT_TRUE(client_->error()->cause == Cause::remote_handshake_invalid ||
              client_->error()->cause == Cause::remote_unreachable);
}

TEST_F(LinkTest, WhatIsNoHandshakeIsRefusedWithoutAnswerToItsContent) {
  for (const std::string text :
       {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "nb\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff"}) {
    const system::SocketHandle caller = dial();
    accept(token_);
    ASSERT_TRUE(network_.write(caller, bytes_of(text)).ok());
    until([&] { return server_->state() != LinkState::greeting; });
    EXPECT_EQ(server_->error()->cause, Cause::remote_handshake_invalid);
    network_.close(caller);
    until([&] { return server_->state() == LinkState::ended; });
    server_.reset();
  }
}

TEST_F(LinkTest, AReplayedConversationIsRefused) {
  // A middle man records what the client says to a server, and says it again later.
  stand();
  std::vector<std::byte> recorded;
  {
    const system::SocketHandle caller = dial();
    accept(token_);
    Handshake client(Role::client, token_, "client", fresh());
    const std::vector<std::byte> hello = client.begin();
    recorded = hello;
    ASSERT_TRUE(network_.write(caller, hello).ok());
    FrameReader reader;
    std::optional<Frame> challenge;
    until([&] {
      const auto got = network_.read(caller, reader.room()).value();
      if (got.length_bytes == 0) return false;
      auto frame = reader.filled(got.length_bytes).value();
      if (frame.has_value()) challenge = std::move(frame);
      return challenge.has_value();
    });
    const std::vector<std::byte> proof = client.take(*challenge).value();
    recorded.insert(recorded.end(), proof.begin(), proof.end());
    ASSERT_TRUE(network_.write(caller, proof).ok());
    until([&] { return server_->state() == LinkState::standing; });
    network_.close(caller);
  }
  const system::SocketHandle attacker = dial();
  accept(token_);
  ASSERT_TRUE(network_.write(attacker, recorded).ok());
  until([&] { return server_->state() != LinkState::greeting; });
  EXPECT_EQ(server_->error()->cause, Cause::remote_authentication_failed);
  network_.close(attacker);
}

TEST_F(LinkTest, BytesOfASomebodyInBetweenEndTheLink) {
  stand();
  // Not through the link: as if somebody had put them into the stream.
  const std::vector<std::byte> forged = make_frame(Revoked{1}, nullptr);
  ASSERT_TRUE(network_.write(client_->watch().socket, forged).ok());
  const std::vector<std::byte> filler(64);
  ASSERT_TRUE(network_.write(client_->watch().socket, filler).ok());
  until([&] { return server_->state() != LinkState::standing; });
  EXPECT_EQ(server_->error()->cause, Cause::remote_authentication_failed);
  EXPECT_FALSE(server_->take().has_value());
}

TEST_F(LinkTest, NonsenseIsReadToItsEndAndNotLookedAtForEver) {
  const system::SocketHandle caller = dial();
  accept(token_);
  const std::uint64_t now_ns = host_->clock().now_ns();
  const auto pump_until = [&](const std::function<bool()>& condition) {
    return host_->workers().wait(
        [&] {
          (void)server_->pump(now_ns);  // no time passes: nothing ends at its deadline
          return condition();
        },
        now_ns + 60 * second_ns);
  };
  const std::vector<std::byte> nonsense(100000, std::byte{'x'});
  ASSERT_TRUE(network_.write(caller, nonsense).ok());
  ASSERT_TRUE(pump_until([&] { return server_->state() == LinkState::closing; }));
  ASSERT_TRUE(network_.write(caller, nonsense).ok());
  std::array<std::byte, 2> answer{};
  ASSERT_TRUE(pump_until([&] { return network_.read(caller, answer).value().length_bytes == 2; }));
  EXPECT_EQ(answer, (std::array<std::byte, 2>{std::byte{'n'}, std::byte{'b'}}));
  EXPECT_EQ(server_->state(), LinkState::closing);
  network_.close(caller);
  EXPECT_TRUE(pump_until([&] { return server_->state() == LinkState::ended; }));
}

/// A network that takes so many more bytes and then refuses one write, as one that is torn down
/// and built up again.
class TornNetwork final : public system::Network {
 public:
  explicit TornNetwork(system::Network& inner) : inner_(inner) {}
  std::size_t left = SIZE_MAX;

  Result<system::SocketHandle> listen(const system::SocketAddress& at, int backlog) override {
    return inner_.listen(at, backlog);
  }
  Result<system::SocketHandle> connect(const system::SocketAddress& to) override {
    return inner_.connect(to);
  }
  Result<bool> connected(system::SocketHandle socket) override { return inner_.connected(socket); }
  Result<std::optional<system::SocketHandle>> accept(system::SocketHandle listener) override {
    return inner_.accept(listener);
  }
  Result<system::SocketAddress> own_address(system::SocketHandle socket) override {
    return inner_.own_address(socket);
  }
  Result<system::SocketAddress> peer_address(system::SocketHandle socket) override {
    return inner_.peer_address(socket);
  }
  Result<system::Received> read(system::SocketHandle socket, std::span<std::byte> target) override {
    return inner_.read(socket, target);
  }
  Result<std::size_t> write(system::SocketHandle socket,
                            std::span<const std::byte> source) override {
    if (left == 0) {
      left = SIZE_MAX;
      return Error{.origin = ErrorOrigin::os, .attempted = "write", .detail = "torn"};
    }
    Result<std::size_t> put = inner_.write(socket, source.first(std::min(source.size(), left)));
    if (put.ok() && left != SIZE_MAX) left -= *put;
    return put;
  }
  void close(system::SocketHandle socket) override { inner_.close(socket); }
  Result<system::SocketHandle> make_waker() override { return inner_.make_waker(); }
  void wake(system::SocketHandle waker) override { inner_.wake(waker); }
  bool wait(std::span<const Watch> watched, std::uint64_t timeout_ns) override {
    return inner_.wait(watched, timeout_ns);
  }

 private:
  system::Network& inner_;
};

TEST_F(LinkTest, AFrameThatWasCutOffLosesTheLink) {
  TornNetwork torn(network_);
  client_ = std::make_unique<Link>(
      torn, dial(), token_,
      LinkOptions{Role::client, "client", fresh(), host_->clock().now_ns() + 60 * second_ns});
  accept(token_);
  until([&] {
    return client_->state() == LinkState::standing && server_->state() == LinkState::standing;
  });
  torn.left = 10;
  const Status cut = client_->send(Open{1, "weights", Access::read});
  EXPECT_TRUE(!cut.ok() && cut.error().cause == Cause::remote_peer_lost);
  EXPECT_FALSE(client_->send(Open{2, "weights", Access::read}).ok());
  // The other end has noticed nothing: this one gives up by itself, and nothing follows the cut.
  (void)client_->pump(host_->clock().now_ns());
  (void)client_->pump(host_->clock().now_ns() + 10 * second_ns);
  EXPECT_EQ(client_->state(), LinkState::ended);
  EXPECT_TRUE(client_->error().has_value() && client_->error()->cause == Cause::remote_peer_lost);
  client_.reset();
  until([&] { return server_->state() == LinkState::ended; });
  EXPECT_EQ(server_->error()->cause, Cause::remote_peer_lost);
  EXPECT_FALSE(server_->take().has_value());
}

TEST_F(LinkTest, APeerThatReadsNothingIsGivenUpAtABound) {
  stand();
  server_->hang_up(Error{.origin = ErrorOrigin::session, .attempted = "stop reading"});
  const std::vector<std::byte> payload(piece_bytes_max);
  const StageData data{1, static_cast<std::uint32_t>(payload.size())};
  Status sent;
  for (int i = 0; i < 1000 && sent.ok(); ++i) sent = client_->send(data, payload);
  ASSERT_FALSE(sent.ok());
  EXPECT_EQ(sent.error().cause, Cause::remote_peer_lost);
}

}  // namespace
}  // namespace nobounce::wire
