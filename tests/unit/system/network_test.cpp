// Addresses as text, and the kernel's TCP as the seam offers it.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "system/faulty_host.hpp"
#include "system/live_host.hpp"
#include "system/network.hpp"

namespace nobounce::system {
namespace {

TEST(SocketAddresses, AreReadAsTheyAreWritten) {
  for (const char* text : {"127.0.0.1:4711", "[::1]:0", "node-7.example:65535", "localhost:1"}) {
    const Result<SocketAddress> address = parse_socket_address(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(to_string(*address), text);
  }
}

TEST(SocketAddresses, AreRefusedWhereTheyAreNone) {
  for (const char* text :
       {"", ":", ":1", "a", "a:", "a:x", "a:65536", "a:-1", "a:1 ", "a b:1", "::1:4711", "[::1]",
        "[::1]4711", "[::1:4711", "[]:1", "[a/b]:1", "a/b:1", "a:99999999999999999999"}) {
    const Result<SocketAddress> address = parse_socket_address(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_EQ(address.error().origin, ErrorOrigin::input) << text;
  }
  EXPECT_FALSE(parse_socket_address(std::string(5000, 'a') + ":1").ok());
}

TEST(SocketAddresses, OfThisMachineAloneAreKnown) {
  EXPECT_TRUE(is_loopback({"127.0.0.1", 1}));
  EXPECT_TRUE(is_loopback({"127.9.9.9", 1}));
  EXPECT_TRUE(is_loopback({"::1", 1}));
  EXPECT_TRUE(is_loopback({"localhost", 1}));
  EXPECT_FALSE(is_loopback({"0.0.0.0", 1}));
  EXPECT_FALSE(is_loopback({"::", 1}));
  EXPECT_FALSE(is_loopback({"127.evil.example", 1}));
  EXPECT_FALSE(is_loopback({"10.0.0.1", 1}));
}

constexpr std::uint64_t second_ns = 1'000'000'000;

/// The live network, and waits that end.
class LiveNetworkTest : public ::testing::TestWithParam<const char*> {
 protected:
  SocketHandle listen_there() {
    const Result<SocketHandle> listener = network_.listen({GetParam(), 0}, 4);
    if (!listener.ok()) {
      // Only a machine without IPv6 is excused.
      const std::int64_t code = listener.error().code;
      EXPECT_TRUE(std::string_view(GetParam()).find(':') != std::string_view::npos &&
                  (code == EADDRNOTAVAIL || code == EAFNOSUPPORT))
          << to_string(listener.error());
      return {};
    }
    address_ = network_.own_address(*listener).value();
    return *listener;
  }
  SocketHandle accepted(SocketHandle listener) {
    for (int i = 0; i < 100; ++i) {
      const Result<std::optional<SocketHandle>> socket = network_.accept(listener);
      if (!socket.ok()) break;
      if (socket->has_value()) return **socket;
      const Network::Watch watch{.socket = listener};
      EXPECT_TRUE(network_.wait(std::span(&watch, 1), second_ns));
    }
    ADD_FAILURE() << "nobody knocked";
    return {};
  }
  Received read_some(SocketHandle socket, std::span<std::byte> target) {
    for (int i = 0; i < 100; ++i) {
      const Result<Received> got = network_.read(socket, target);
      if (!got.ok()) break;
      if (got->length_bytes > 0 || got->ended) return *got;
      const Network::Watch watch{.socket = socket};
      EXPECT_TRUE(network_.wait(std::span(&watch, 1), second_ns));
    }
    ADD_FAILURE() << "nothing came";
    return {};
  }

  std::unique_ptr<Host> host_ = make_live_host();
  Network& network_ = *host_->network().value();
  SocketAddress address_;
};

TEST_P(LiveNetworkTest, BytesGoBothWaysAndTheEndIsSeen) {
  const SocketHandle listener = listen_there();
  if (!listener.valid()) GTEST_SKIP() << "no " << GetParam() << " here";
  EXPECT_EQ(network_.accept(listener).value(), std::nullopt);
  const Result<SocketHandle> caller = network_.connect(address_);
  ASSERT_TRUE(caller.ok());
  const SocketHandle callee = accepted(listener);
  EXPECT_TRUE(network_.connected(*caller).value());
  EXPECT_EQ(network_.peer_address(*caller).value(), address_);
  EXPECT_EQ(network_.peer_address(callee).value(), network_.own_address(*caller).value());

  const std::array<std::byte, 3> sent{std::byte{1}, std::byte{2}, std::byte{3}};
  EXPECT_EQ(network_.write(*caller, sent).value(), 3U);
  std::array<std::byte, 16> got{};
  EXPECT_EQ(read_some(callee, got).length_bytes, 3U);
  EXPECT_EQ(got[2], std::byte{3});
  EXPECT_EQ(network_.read(callee, got).value().length_bytes, 0U);
  EXPECT_EQ(network_.write(callee, std::span(sent).first(1)).value(), 1U);
  EXPECT_EQ(read_some(*caller, got).length_bytes, 1U);
  network_.close(*caller);
  EXPECT_TRUE(read_some(callee, got).ended);
  network_.close(callee);
  network_.close(listener);
}

TEST_P(LiveNetworkTest, NobodyThereIsAnErrorAndNotSilence) {
  const SocketHandle listener = listen_there();
  if (!listener.valid()) GTEST_SKIP() << "no " << GetParam() << " here";
  network_.close(listener);
  const Result<SocketHandle> caller = network_.connect(address_);
  if (!caller.ok()) {
    EXPECT_EQ(caller.error().cause, Cause::remote_unreachable);
    return;
  }
  Result<bool> connected = network_.connected(*caller);
  for (int i = 0; i < 100 && connected.ok() && !*connected; ++i) {
    const Network::Watch watch{.socket = *caller, .writing = true};
    EXPECT_TRUE(network_.wait(std::span(&watch, 1), second_ns));
    connected = network_.connected(*caller);
  }
  ASSERT_FALSE(connected.ok());
  EXPECT_EQ(connected.error().code, ECONNREFUSED);
  EXPECT_EQ(connected.error().cause, Cause::remote_unreachable);
  network_.close(*caller);
}

TEST_P(LiveNetworkTest, APeerThatReadsNothingTakesABoundedNumberOfBytes) {
  const SocketHandle listener = listen_there();
  if (!listener.valid()) GTEST_SKIP() << "no " << GetParam() << " here";
  const SocketHandle caller = network_.connect(address_).value();
  const SocketHandle callee = accepted(listener);
  const std::vector<std::byte> much(1u << 20);
  std::size_t taken = 1;
  for (int i = 0; i < 1000 && taken > 0; ++i) taken = network_.write(caller, much).value();
  EXPECT_EQ(taken, 0U);
  network_.close(callee);
  network_.close(caller);
  network_.close(listener);
}

INSTANTIATE_TEST_SUITE_P(Loopback, LiveNetworkTest, ::testing::Values("127.0.0.1", "::1"));

TEST(Wakers, EndAWaitAndAreOverAfterIt) {
  const std::unique_ptr<Host> host = make_live_host();
  Network& network = *host->network().value();
  const SocketHandle waker = network.make_waker().value();
  network.wake(waker);
  network.wake(waker);
  const Network::Watch watch{.socket = waker, .waker = true};
  EXPECT_TRUE(network.wait(std::span(&watch, 1), 3600 * second_ns));  // or this test never ends
  EXPECT_TRUE(network.wait(std::span(&watch, 1), 1));
  network.close(waker);
}

TEST(FaultyNetworks, FailTheCallThatThePlanNames) {
  const std::unique_ptr<Host> live = make_live_host();
  const std::unique_ptr<FaultyHost> faulty =
      FaultyHost::wrap(*live, {.fail_call = 1, .only = "network.listen", .errno_value = EACCES});
  Network& network = *faulty->network().value();
  const Result<SocketHandle> failed = network.listen({"127.0.0.1", 0}, 1);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, EACCES);
  EXPECT_EQ(faulty->failed_call(), "network.listen");
  const Result<SocketHandle> listener = network.listen({"127.0.0.1", 0}, 1);
  ASSERT_TRUE(listener.ok());
  network.close(*listener);
}

}  // namespace
}  // namespace nobounce::system
