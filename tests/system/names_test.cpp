// Names with more than one address: what the system answers is put in between at link time.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "system/live_host.hpp"
#include "system/network.hpp"

namespace {

constexpr const char* two_addresses = "two-addresses.example";
int refused_to_come = 0;  // that many answers of SO_ERROR are refusals

}  // namespace

extern "C" {

int __real_getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                       addrinfo** answer);
int __real_getsockopt(int socket, int level, int option, void* value, socklen_t* length);
int __wrap_getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                       addrinfo** answer);
int __wrap_getsockopt(int socket, int level, int option, void* value, socklen_t* length);

int __wrap_getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                       addrinfo** answer) {
  if (node == nullptr || std::string_view(node) != two_addresses)
    return __real_getaddrinfo(node, service, hints, answer);
  addrinfo* second = nullptr;
  if (const int code = __real_getaddrinfo("127.0.0.1", service, hints, answer); code != 0)
    return code;
  if (const int code = __real_getaddrinfo("127.0.0.1", service, hints, &second); code != 0)
    return code;
  addrinfo* last = *answer;
  while (last->ai_next != nullptr) last = last->ai_next;
  last->ai_next = second;
  return 0;
}

int __wrap_getsockopt(int socket, int level, int option, void* value, socklen_t* length) {
  if (level != SOL_SOCKET || option != SO_ERROR || refused_to_come == 0)
    return __real_getsockopt(socket, level, option, value, length);
  --refused_to_come;
  const int refused = ECONNREFUSED;
  std::memcpy(value, &refused, sizeof refused);
  return 0;
}

}  // extern "C"

namespace nobounce::system {
namespace {

constexpr std::uint64_t wait_ns = 1'000'000'000;

class Names : public ::testing::Test {
 protected:
  ~Names() override {
    refused_to_come = 0;
    network_.close(listener_);
  }
  /// Whether it stands in the end, or why not.
  Status connect(SocketHandle& socket) {
    const SocketAddress own = network_.own_address(listener_).value();
    const Result<SocketHandle> begun = network_.connect({two_addresses, own.port});
    if (!begun.ok()) return begun.error();
    socket = *begun;
    for (int i = 0; i < 100; ++i) {
      const Result<bool> connected = network_.connected(socket);
      if (!connected.ok()) return connected.error();
      if (*connected) return {};
      const Network::Watch watch{.socket = socket, .writing = true};
      (void)network_.wait(std::span(&watch, 1), wait_ns);
    }
    return Error{.detail = "neither connected nor refused"};
  }

  std::unique_ptr<Host> host_ = make_live_host();
  Network& network_ = *host_->network().value();
  SocketHandle listener_ = network_.listen({"127.0.0.1", 0}, 4).value();
};

TEST_F(Names, AnAddressThatRefusesLaterMakesWayForTheNext) {
  refused_to_come = 1;
  SocketHandle socket;
  const Status stands = connect(socket);
  EXPECT_TRUE(stands.ok()) << to_string(stands.error());
  EXPECT_EQ(refused_to_come, 0);
  const SocketAddress own = network_.own_address(socket).value();
  // Two have knocked, the first of which is gone; the second is who was answered.
  std::optional<SocketAddress> last;
  for (int i = 0; i < 2; ++i) {
    const Network::Watch watch{.socket = listener_};
    (void)network_.wait(std::span(&watch, 1), wait_ns);
    const auto knocked = network_.accept(listener_).value();
    if (!knocked.has_value()) continue;
    last = network_.peer_address(*knocked).value();
    network_.close(*knocked);
  }
  EXPECT_EQ(last, own);
  network_.close(socket);
}

TEST_F(Names, WhereAllRefuseThatIsSaid) {
  refused_to_come = 2;
  SocketHandle socket;
  const Status stands = connect(socket);
  ASSERT_FALSE(stands.ok());
  EXPECT_EQ(stands.error().cause, Cause::remote_unreachable);
  network_.close(socket);
}

}  // namespace
}  // namespace nobounce::system
