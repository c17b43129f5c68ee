// Names with more than one address: what the system answers is put in between at link time.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "system/live_host.hpp"
#include "system/network.hpp"

namespace {

constexpr const char* two_addresses = "two-addresses.example";
constexpr const char* first_is_silent = "first-is-silent.example";
int refused_to_come = 0;  // that many answers of SO_ERROR are refusals
time_t seconds_ahead = 0;

}  // namespace

extern "C" {

int __real_getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                       addrinfo** answer);
int __real_clock_gettime(clockid_t clock, timespec* now);
int __wrap_clock_gettime(clockid_t clock, timespec* now);
int __real_getsockopt(int socket, int level, int option, void* value, socklen_t* length);
int __wrap_getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                       addrinfo** answer);
int __wrap_getsockopt(int socket, int level, int option, void* value, socklen_t* length);

int __wrap_clock_gettime(clockid_t clock, timespec* now) {
  const int code = __real_clock_gettime(clock, now);
  now->tv_sec += seconds_ahead;
  return code;
}

int __wrap_getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                       addrinfo** answer) {
  const std::string_view name = node == nullptr ? "" : node;
  if (name != two_addresses && name != first_is_silent)
    return __real_getaddrinfo(node, service, hints, answer);
  addrinfo* second = nullptr;
  const char* const first = name == two_addresses ? "127.0.0.1" : "127.0.0.2";
  if (const int code = __real_getaddrinfo(first, service, hints, answer); code != 0) return code;
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
    seconds_ahead = 0;
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

TEST_F(Names, AnAddressThatSaysNothingMakesWayForTheNext) {
  const SocketAddress own = network_.own_address(listener_).value();
  // Somebody listens there and takes nobody in: the kernel answers no more than it queues.
  const SocketAddress silent{"127.0.0.2", own.port};
  const Result<SocketHandle> deaf = network_.listen(silent, 0);
  if (!deaf.ok()) GTEST_SKIP() << to_string(deaf.error());
  std::vector<SocketHandle> queued;
  bool full = false;
  while (!full && queued.size() < 16) {
    queued.push_back(network_.connect(silent).value());
    full = !network_.connected(queued.back()).value();
  }
  if (full) {
    const SocketHandle socket = network_.connect({first_is_silent, own.port}).value();
    EXPECT_FALSE(network_.connected(socket).value());
    seconds_ahead = 5;
    bool stands = false;
    for (int i = 0; i < 100 && !stands; ++i) {
      stands = network_.connected(socket).value();
      const Network::Watch watch{.socket = socket, .writing = true};
      if (!stands) (void)network_.wait(std::span(&watch, 1), wait_ns / 100);
    }
    EXPECT_TRUE(stands);
    if (stands) {
      EXPECT_EQ(network_.peer_address(socket).value(), own);
    }
    network_.close(socket);
  }
  for (const SocketHandle socket : queued) network_.close(socket);
  network_.close(*deaf);
  if (!full) GTEST_SKIP() << "this kernel queues everybody";
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
