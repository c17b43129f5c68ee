// Two processes, each with a software machine of its own, joined by their adapters: bytes between
// them, and what is left when one is killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

#include "rdma_rig.hpp"

namespace nobounce::fabric {
namespace {

constexpr std::uint64_t length = 32u << 20;

/// A pipe in both directions for plain values.
class Line {
 public:
  explicit Line(int socket) : socket_(socket) {}
  ~Line() { ::close(socket_); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  template <typename Value>
  void say(const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    (void)!::send(socket_, &value, sizeof value, MSG_NOSIGNAL);
  }
  template <typename Value>
  [[nodiscard]] Value hear() {
    Value value{};
    const ssize_t got = ::recv(socket_, &value, sizeof value, MSG_WAITALL);
    if (got != static_cast<ssize_t>(sizeof value)) heard_all_ = false;
    return value;
  }
  [[nodiscard]] bool heard_all() const { return heard_all_; }

 private:
  int socket_;
  bool heard_all_ = true;
};

struct Greeting {
  wire::QueuePairEndpoint lanes[2];
};
struct Offer {
  wire::RemoteKey keys[2];
};
enum class Order : char { leave, look };

std::unique_ptr<RdmaRig> threaded() {
  return std::make_unique<RdmaRig>(two_adapters(), SoftOptions{.seed = 3});
}

const provider::RdmaConnectionOptions options{
    .near = RdmaRig::gpu(0), .adapters = {}, .lanes_max = 2, .silence_ns = 400'000'000};

/// The passive end: offers GPU memory filled with a pattern, and tells what lies there when asked.
int serve(Line& line) {
  const std::unique_ptr<RdmaRig> rig = threaded();
  const GpuMemory memory = rig->allocate(0, length);
  rig->plant(memory, pattern(length, 11));
  const auto lanes = rig->far->open_connection(1, options);
  if (!lanes.ok() || lanes->size() != 2) return 2;
  const auto greeting = line.hear<Greeting>();
  line.say(Greeting{{(*lanes)[0], (*lanes)[1]}});
  if (!rig->far->establish(1, greeting.lanes).ok()) return 3;
  const auto offered = rig->far->export_region(
      1, 7, rig->view(memory), provider::RdmaAccess::read_write, Policy::direct_required);
  if (!offered.ok()) return 4;
  line.say(Offer{{offered->keys[0], offered->keys[1]}});
  while (line.hear<Order>() == Order::look && line.heard_all()) {
    const auto seed = line.hear<std::uint64_t>();
    const bool same = rig->inspect(memory) == pattern(length, seed);
    const bool clean = rig->arrived(memory)[Carriage::staged] == 0;
    line.say<char>(same && clean ? 1 : 0);
  }
  return 0;
}

/// The active end, with a child that serves.
struct TwoProcesses : testing::Test {
  TwoProcesses() {
    int sockets[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    child = ::fork();
    if (child == 0) {
      ::close(sockets[0]);
      int code = 1;
      {
        Line far(sockets[1]);
        code = serve(far);
      }
      ::_exit(code);
    }
    ::close(sockets[1]);
    line = std::make_unique<Line>(sockets[0]);
    rig = threaded();
    memory = rig->allocate(1, length);
    const auto lanes = rig->near->open_connection(1, options);
    EXPECT_TRUE(lanes.ok());
    if (!lanes.ok()) return;
    line->say(Greeting{{(*lanes)[0], (*lanes)[1]}});
    const auto greeting = line->hear<Greeting>();
    EXPECT_TRUE(rig->near->establish(1, greeting.lanes).ok());
    const auto offer = line->hear<Offer>();
    provider::RdmaExport offered;
    offered.id = 7;
    offered.length_bytes = length;
    offered.access = provider::RdmaAccess::read_write;
    offered.gpu = true;
    offered.keys = {offer.keys[0], offer.keys[1]};
    EXPECT_TRUE(rig->near->import_region(1, offered).ok());
    rig->near->prepare(1, rig->view(memory));
  }
  ~TwoProcesses() override {
    line->say(Order::leave);
    line.reset();
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!killed) {
      EXPECT_EQ(status, 0) << "the other process failed";
    }
  }
  bool far_holds(std::uint64_t seed) {
    line->say(Order::look);
    line->say(seed);
    return line->hear<char>() == 1;
  }

  pid_t child = -1;
  bool killed = false;
  std::unique_ptr<Line> line;
  std::unique_ptr<RdmaRig> rig;
  GpuMemory memory;
  RemoteMemory remote{1, 0, 7, length};
};

TEST_F(TwoProcesses, ReadAndWriteEachOthersGpuMemoryDirectly) {
  const std::uint64_t dram_before = rig->host->ledger().dram_bytes();
  core::Completion done = rig->move(remote, memory);
  ASSERT_FALSE(done.error.has_value()) << to_string(*done.error);
  EXPECT_EQ(done.bytes[Carriage::direct], length);
  EXPECT_EQ(rig->inspect(memory), pattern(length, 11));
  EXPECT_EQ(rig->arrived(memory)[Carriage::direct], length);
  rig->plant(memory, pattern(length, 12));
  done = rig->move(memory, remote);
  ASSERT_FALSE(done.error.has_value()) << to_string(*done.error);
  EXPECT_TRUE(far_holds(12));
  EXPECT_EQ(rig->host->ledger().dram_bytes(), dram_before);
}

class KilledPeer : public TwoProcesses, public testing::WithParamInterface<int> {};

TEST_P(KilledPeer, IsReportedInTimeAndNeverAsSuccess) {
  rig->plant(memory, pattern(length, 20));
  core::Operation operation;
  operation.id = rig->next_id++;
  operation.segment.source = memory;
  operation.segment.target = remote;
  operation.segment.length_bytes = length;
  rig->near->submit(std::span(&operation, 1));
  ::usleep(static_cast<unsigned>(GetParam()) * 700);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  killed = true;
  const core::Completion done = rig->await(operation.id);
  if (done.error.has_value()) {
    EXPECT_EQ(done.error->cause, Cause::rdma_retry_exceeded) << to_string(*done.error);
    EXPECT_LT(done.bytes.total(), length);
    EXPECT_TRUE(rig->near->lost(1).has_value());
  } else {
    EXPECT_EQ(done.bytes.total(), length) << "it may have ended before";
  }
  rig->near->close_connection(1);
  EXPECT_EQ(rig->host->bus().bar1_used_bytes(1), 0u);
  EXPECT_EQ(rig->inspect(memory), pattern(length, 20)) << "our own memory stays as it was";
}

INSTANTIATE_TEST_SUITE_P(AtSeveralMoments, KilledPeer, testing::Values(0, 1, 2, 5, 9, 17, 30));

}  // namespace
}  // namespace nobounce::fabric
