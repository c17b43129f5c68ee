// Names with more than one address, and a resolver that takes its time: what the system answers is
// put in between at link time.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "system/live_host.hpp"
#include "system/name_lookup.hpp"
#include "system/network.hpp"
#include "wire/link.hpp"
#include "wire/token.hpp"

namespace {

constexpr const char* two_addresses = "two-addresses.example";
constexpr const char* first_is_silent = "first-is-silent.example";
constexpr const char* slow = "slow.example";        // no answer until it is told to come
constexpr const char* unknown = "unknown.example";  // nor then

/// Those who ask for the slow name wait here.
struct Resolver {
  std::mutex mutex;
  std::condition_variable changed;
  bool answers = false;
};
Resolver resolver;

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
  const bool ours =
      name == two_addresses || name == first_is_silent || name == slow || name == unknown;
  if (ours && (hints->ai_flags & AI_NUMERICHOST) != 0) return EAI_NONAME;
  if (name == slow || name == unknown) {
    std::unique_lock lock(resolver.mutex);
    resolver.changed.wait(lock, [] { return resolver.answers; });
    return name == slow ? __real_getaddrinfo("127.0.0.1", service, hints, answer) : EAI_NONAME;
  }
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
    while (!network_.looked_up_for(socket).empty()) {
      const Network::Watch watch{.socket = socket, .writing = true};
      (void)network_.wait(std::span(&watch, 1), wait_ns);
      EXPECT_FALSE(network_.connected(socket).value());
    }
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

/// A resolver that holds everybody up, and in the end answers all.
class SlowNames : public Names {
 protected:
  ~SlowNames() override {
    answer();
    while (NameLookup::under_way() > 0) std::this_thread::yield();
    const std::lock_guard lock(resolver.mutex);
    resolver.answers = false;
  }
  static void answer() {
    const std::lock_guard lock(resolver.mutex);
    resolver.answers = true;
    resolver.changed.notify_all();
  }
  /// A link to that name, as far as it comes by itself or until a deadline that passes at once.
  std::unique_ptr<wire::Link> dial(const char* name) {
    const SocketAddress own = network_.own_address(listener_).value();
    return std::make_unique<wire::Link>(network_, network_.connect({name, own.port}).value(),
                                        token_, wire::LinkOptions{.deadline_ns = deadline_ns});
  }
  static constexpr std::uint64_t deadline_ns = 1000;
  wire::Token token_ = wire::Token::from_text("a token of sixteen or more").value();
};

TEST_F(SlowNames, AConnectionEndsAtItsDeadlineAndSaysWhichNameItWaitedFor) {
  const auto link = dial(slow);
  (void)link->pump(deadline_ns - 1);
  EXPECT_EQ(link->state(), wire::LinkState::greeting);
  (void)link->pump(deadline_ns);
  EXPECT_EQ(link->state(), wire::LinkState::ended);
  ASSERT_TRUE(link->error().has_value());
  EXPECT_EQ(link->error()->cause, Cause::remote_unreachable);
  EXPECT_NE(link->error()->detail.find(slow), std::string::npos) << link->error()->detail;
}

TEST_F(SlowNames, AnAnswerWakesWhoWaitsForTheConnection) {
  const SocketAddress own = network_.own_address(listener_).value();
  const SocketHandle socket = network_.connect({slow, own.port}).value();
  EXPECT_FALSE(network_.connected(socket).value());
  EXPECT_EQ(network_.looked_up_for(socket), slow);
  answer();
  bool stands = false;
  for (int i = 0; i < 100 && !stands; ++i) {
    const Network::Watch watch{.socket = socket, .writing = true};
    (void)network_.wait(std::span(&watch, 1), wait_ns);
    stands = network_.connected(socket).value();
  }
  EXPECT_TRUE(stands);
  EXPECT_EQ(network_.looked_up_for(socket), "");
  EXPECT_EQ(network_.peer_address(socket).value(), own);
  network_.close(socket);
}

TEST_F(SlowNames, ANameThatIsUnknownInTheEndIsSaidToBe) {
  const SocketHandle socket = network_.connect({unknown, 1}).value();
  answer();
  std::optional<Error> why;
  for (int i = 0; i < 100 && !why.has_value(); ++i) {
    const Network::Watch watch{.socket = socket, .writing = true};
    (void)network_.wait(std::span(&watch, 1), wait_ns);
    const Result<bool> connected = network_.connected(socket);
    if (!connected.ok()) why = connected.error();
  }
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(why->cause, Cause::remote_unreachable);
  EXPECT_NE(why->attempted.find(unknown), std::string::npos) << to_string(*why);
  network_.close(socket);
}

TEST_F(SlowNames, WhoWasLeftBehindTouchesNothingThatIsGone) {
  {
    const std::unique_ptr<Host> other = make_live_host();
    Network& network = *other->network().value();
    network.close(network.connect({slow, 1}).value());
    (void)network.connect({slow, 2}).value();  // nor is this one closed
  }
  answer();
}

TEST_F(SlowNames, SoManyAreLookedUpAtOnceAndNoMore) {
  std::vector<SocketHandle> dialled;
  std::optional<Error> why;
  while (!why.has_value() && dialled.size() <= NameLookup::under_way_max) {
    const Result<SocketHandle> socket = network_.connect({slow, 1});
    if (socket.ok()) {
      dialled.push_back(*socket);
    } else {
      why = socket.error();
    }
  }
  EXPECT_EQ(dialled.size(), static_cast<std::size_t>(NameLookup::under_way_max));
  ASSERT_TRUE(why.has_value());
  EXPECT_NE(why->detail.find(slow), std::string::npos) << to_string(*why);
  for (const SocketHandle socket : dialled) network_.close(socket);
}

TEST_F(SlowNames, ALookupIsWaitedForAsLongAsIsAskedFor) {
  const auto lookup = NameLookup::start({slow, 1}, 0, "look").value();
  EXPECT_FALSE(lookup->answered(1));
  answer();
  EXPECT_TRUE(lookup->answered(100 * wait_ns));
  EXPECT_NE(lookup->take().value(), nullptr);
}

}  // namespace
}  // namespace nobounce::system
