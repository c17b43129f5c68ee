// Two sessions that share a software machine, one serving and one using what is served; and peers
// that speak the wire's protocol by hand, to say what no session would.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <nobounce/peer.hpp>
#include <nobounce/session.hpp>
#include "support/soft_session.hpp"
#include "system/network.hpp"
#include "wire/link.hpp"
#include "wire/token.hpp"

namespace nobounce::test {

inline constexpr const char* shared_secret = "a secret of more than sixteen characters";
inline constexpr std::uint64_t patience_ns = 60'000'000'000;

template <typename T>
T must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(to_string(result.error()));
  return std::move(result).value();
}

/// A machine, a session that listens on it, and one that may connect.
class RemoteRig {
 public:
  explicit RemoteRig(const Machine& machine, const fabric::SoftOptions& options = {},
                     const ListenOptions& listening = secret_listening())
      : serving_(machine, options),
        using_(must(Session::open(serving_.host(), SoftSession::quiet()))),
        server_(must(serving_->listen(listening))) {}

  static ListenOptions secret_listening() {
    ListenOptions options;
    options.token = shared_secret;
    return options;
  }
  static ConnectOptions secret() {
    ConnectOptions options;
    options.token = shared_secret;
    return options;
  }

  [[nodiscard]] SoftSession& soft() { return serving_; }
  [[nodiscard]] Session& serving() { return *serving_; }
  [[nodiscard]] Session& client() { return using_; }
  [[nodiscard]] Server& server() { return server_; }
  [[nodiscard]] system::Host& host() { return serving_.host(); }

  [[nodiscard]] Peer connect(const ConnectOptions& options = secret()) {
    return must(using_.connect(server_.address(), options));
  }

  /// The next event of that kind; others are passed over.
  [[nodiscard]] ServerEvent event(ServerEvent::Kind kind) {
    const std::uint64_t end_ns = host().clock().now_ns() + patience_ns;
    std::string seen;
    while (host().clock().now_ns() < end_ns) {
      std::optional<ServerEvent> event = server_.next_event(patience_ns);
      if (!event.has_value()) break;
      if (event->kind == kind) return *std::move(event);
      seen += std::string(to_string(event->kind)) + " ";
    }
    ADD_FAILURE() << "no event " << to_string(kind) << "; seen: " << seen;
    return {};
  }

 private:
  SoftSession serving_;
  Session using_;
  Server server_;
};

/// The end of a connection, spoken by hand.
class HandMadePeer {
 public:
  HandMadePeer(system::Host& host, const std::string& address,
               std::string_view token = shared_secret)
      : host_(host), network_(*must(host.network())), token_(must(wire::Token::from_text(token))) {
    wire::LinkOptions options{.role = wire::Role::client,
                              .name = "by hand",
                              .deadline_ns = host.clock().now_ns() + patience_ns};
    host.entropy().fill(options.nonce);
    link_ = std::make_unique<wire::Link>(
        network_, must(network_.connect(must(system::parse_socket_address(address)))), token_,
        options);
    until([&] { return link_->state() != wire::LinkState::greeting; });
  }

  [[nodiscard]] wire::Link& link() { return *link_; }
  void until(const std::function<bool()>& condition) {
    EXPECT_TRUE(host_.workers().wait(
        [&] {
          (void)link_->pump(host_.clock().now_ns());
          return condition();
        },
        host_.clock().now_ns() + patience_ns));
  }
  /// What comes next; nothing if the connection ends instead.
  [[nodiscard]] std::optional<wire::Link::Incoming> next() {
    std::optional<wire::Link::Incoming> message;
    until([&] {
      message = link_->take();
      return message.has_value() || link_->state() == wire::LinkState::ended;
    });
    return message;
  }
  [[nodiscard]] std::optional<wire::Link::Incoming> ask(const wire::Message& message,
                                                        std::vector<std::byte> payload = {}) {
    EXPECT_TRUE(link_->send(message, std::move(payload)).ok());
    return next();
  }
  /// The key of an export, as this connection got it.
  [[nodiscard]] std::uint64_t open(const std::string& name,
                                   wire::Access access = wire::Access::read) {
    const auto answer = ask(wire::Open{1, name, access});
    const auto* opened = answer.has_value() ? std::get_if<wire::Opened>(&answer->message) : nullptr;
    if (opened == nullptr) throw std::runtime_error("not opened");
    return opened->key;
  }
  /// The cause with which a staged piece is refused; none if it is not.
  [[nodiscard]] Cause refusal_of(const wire::Message& message,
                                 std::vector<std::byte> payload = {}) {
    const auto answer = ask(message, std::move(payload));
    if (!answer.has_value()) return Cause::remote_peer_lost;
    const auto* failed = std::get_if<wire::StageFailed>(&answer->message);
    return failed == nullptr ? Cause::none : failed->cause;
  }
  void hang_up() { link_.reset(); }

 private:
  system::Host& host_;
  system::Network& network_;
  wire::Token token_;
  std::unique_ptr<wire::Link> link_;
};

}  // namespace nobounce::test
