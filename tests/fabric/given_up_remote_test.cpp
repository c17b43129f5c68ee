// Two sessions, of which one's GPU hangs: the other end is told, and neither waits for ever.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "support/remote_rig.hpp"
#include "support/silent_driver.hpp"

namespace nobounce::test {
namespace {

namespace cuda = system::cuda;

constexpr std::uint64_t length = 3u << 20;

/// An end of a connection with a driver of its own.
struct End {
  explicit End(fabric::SoftHost& soft) : host(soft), driver(**soft.cuda()) {
    host.cuda_table = &driver;
    session.emplace(must(Session::open(host, SoftSession::quiet())));
  }
  [[nodiscard]] bool has(const GpuMemory& memory) {
    unsigned type = 0;
    return driver.pointer_get_attribute(&type, cuda::pointer_memory_type, memory.address.value) ==
           cuda::success;
  }
  HearingHost host;
  SilentCuda driver;
  std::optional<Session> session;
};

class HangingEnds : public ::testing::Test {
 protected:
  HangingEnds() {
    Machine machine = machine_with("workstation");
    machine.nics.clear();
    for (Switch& one : machine.switches) one.ports.clear();  // made anew from what is there
    soft_ = must(fabric::SoftHost::create(machine, {.deterministic = true}));
    serving_.emplace(*soft_);
    using_.emplace(*soft_);
    server_.emplace(must(serving_->session->listen(RemoteRig::secret_listening())));
    served_.emplace(must(serving_->session->allocate(0, length)));
    own_.emplace(must(using_->session->allocate(1, length)));
    export_.emplace(must(server_->serve(*served_, "weights", RemoteAccess::write)));
    peer_.emplace(must(using_->session->connect(server_->address(), RemoteRig::secret())));
    remote_.emplace(must(peer_->open("weights", RemoteAccess::write)));
    served_memory_ = std::get<GpuMemory>(served_->place());
    own_memory_ = std::get<GpuMemory>(own_->place());
  }
  void until(const std::function<bool()>& condition) {
    EXPECT_TRUE(soft_->workers().wait(condition, now_ns() + patience_ns));
  }
  void pass(std::uint64_t time_ns) {
    (void)soft_->workers().wait([] { return false; }, now_ns() + time_ns);
  }
  [[nodiscard]] std::uint64_t now_ns() { return soft_->clock().now_ns(); }
  [[nodiscard]] Transfer begin(const Place& from, const Place& to, std::uint64_t deadline_ns = 0) {
    return must(using_->session->start(from, to, {.deadline_ns = deadline_ns}));
  }

  std::unique_ptr<fabric::SoftHost> soft_;
  std::optional<End> serving_;
  std::optional<End> using_;
  std::optional<Server> server_;
  std::optional<Region> served_;
  std::optional<Region> own_;
  std::optional<Export> export_;
  std::optional<Peer> peer_;
  std::optional<RemoteRegion> remote_;
  GpuMemory served_memory_;
  GpuMemory own_memory_;
};

TEST_F(HangingEnds, AServerWhoseGpuHangsTellsItsPeerAndServesOthers) {
  for (const bool write : {false, true}) {
    SCOPED_TRACE(write);
    serving_->driver.silent = true;
    Transfer transfer =
        write ? begin(own_->place(), remote_->place()) : begin(remote_->place(), own_->place());
    const std::optional<Outcome> outcome = transfer.wait(2 * patience_ns);
    ASSERT_TRUE(outcome.has_value()) << "the peer waits for ever";
    ASSERT_FALSE(outcome->ok());
    EXPECT_EQ(outcome->error->cause, Cause::session_deadline_passed) << to_string(*outcome->error);
    serving_->driver.silent = false;
    pass(1'000'000'000);
    EXPECT_TRUE(using_->session->transfer(remote_->place(), own_->place()).ok());
  }
}

TEST_F(HangingEnds, AnExportIsWithdrawnAndItsMemoryKept) {
  serving_->driver.silent = true;
  Transfer transfer = begin(own_->place(), remote_->place());
  pass(1'000'000'000);
  const std::uint64_t begun_ns = now_ns();
  export_.reset();
  EXPECT_LE(now_ns() - begun_ns, patience_ns);
  served_.reset();
  EXPECT_TRUE(serving_->has(served_memory_)) << "freed under a copy";
  const std::optional<Outcome> outcome = transfer.wait(patience_ns);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_FALSE(outcome->ok());
  serving_->driver.silent = false;
  server_.reset();
  serving_->session.reset();
  EXPECT_FALSE(serving_->has(served_memory_)) << "its copies had landed";
}

TEST_F(HangingEnds, AServerEndsAndKeepsWhatItsCopiesUse) {
  serving_->driver.silent = true;
  const Transfer transfer = begin(own_->place(), remote_->place());
  pass(1'000'000'000);
  const std::uint64_t begun_ns = now_ns();
  export_.reset();
  server_.reset();
  EXPECT_LE(now_ns() - begun_ns, 2 * patience_ns);
  served_.reset();
  serving_->session.reset();
  EXPECT_TRUE(serving_->has(served_memory_)) << "freed under a copy";
}

TEST_F(HangingEnds, ADeadlineEndsATransferWhoseOwnCopiesHang) {
  for (const bool write : {false, true}) {
    SCOPED_TRACE(write);
    using_->driver.silent = true;
    Transfer transfer = write ? begin(own_->place(), remote_->place(), 1'000'000'000)
                              : begin(remote_->place(), own_->place(), 1'000'000'000);
    const std::optional<Outcome> outcome = transfer.wait(patience_ns);
    ASSERT_TRUE(outcome.has_value()) << "a deadline that ends nothing";
    EXPECT_EQ(outcome->receipt.state, TransferState::cancelled);
    EXPECT_EQ(outcome->error->cause, Cause::session_deadline_passed);
    using_->driver.silent = false;
    pass(1'000'000'000);
    EXPECT_TRUE(using_->session->transfer(remote_->place(), own_->place()).ok());
  }
  using_->driver.silent = true;
  (void)begin(remote_->place(), own_->place(), 1'000'000'000).wait(patience_ns);
  own_.reset();
  EXPECT_TRUE(using_->has(own_memory_)) << "freed under a copy";
}

TEST_F(HangingEnds, AConnectionEndsAndKeepsWhatItsCopiesUse) {
  using_->driver.silent = true;
  {
    const Transfer dropped = begin(remote_->place(), own_->place());
    pass(1'000'000'000);
  }
  remote_.reset();
  const std::uint64_t begun_ns = now_ns();
  peer_.reset();
  EXPECT_LE(now_ns() - begun_ns, patience_ns);
  own_.reset();
  EXPECT_TRUE(using_->has(own_memory_)) << "freed under a copy";
  using_->driver.silent = false;
  using_->session.reset();
  EXPECT_FALSE(using_->has(own_memory_)) << "its copies had landed";
}

}  // namespace
}  // namespace nobounce::test
