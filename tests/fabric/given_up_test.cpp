// Copies that never end: whoever drops their handles gets away in time, and nothing is freed that
// bytes may still reach.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nobounce/async.hpp>
#include <nobounce/batch.hpp>
#include "support/silent_driver.hpp"
#include "support/soft_session.hpp"
#include "support/temporary_directory.hpp"

namespace nobounce::test {
namespace {

namespace cuda = system::cuda;

constexpr std::uint64_t part = 1u << 20;
constexpr std::uint64_t patience_ns = 60'000'000'000;

/// Time that nobody has: while `silent`, a wait is over soon, and one without a deadline is a
/// fault.
class ImpatientWorkers final : public system::Workers {
 public:
  explicit ImpatientWorkers(system::Host& host) : host_(host), inner_(host.workers()) {}
  bool silent = false;

  Result<system::WorkerId> start(system::Worker& worker, std::string_view name) override {
    return inner_.start(worker, name);
  }
  void wake(system::WorkerId id) override { inner_.wake(id); }
  void stop(system::WorkerId id) override { inner_.stop(id); }
  bool wait(core::FunctionRef<bool()> ready, std::uint64_t deadline_ns) override {
    if (!silent) return inner_.wait(ready, deadline_ns);
    EXPECT_NE(deadline_ns, 0u) << "a wait without a deadline";
    return inner_.wait(ready, host_.clock().now_ns() + soon_ns);
  }
  void give_way() override { inner_.give_way(); }
  void notify() override { inner_.notify(); }
  unsigned concurrency() const override { return inner_.concurrency(); }

 private:
  static constexpr std::uint64_t soon_ns = 2'000'000;
  system::Host& host_;
  system::Workers& inner_;
};

struct SilentRig {
  SilentRig() {
    auto made = fabric::SoftHost::create(machine_with("workstation"), {.deterministic = true});
    if (!made.ok()) throw std::runtime_error(to_string(made.error()));
    soft = std::move(*made);
    host = std::make_unique<HearingHost>(*soft);
    driver = std::make_unique<SilentCuda>(**soft->cuda());
    host->cuda_table = driver.get();
    workers = std::make_unique<ImpatientWorkers>(*soft);
    host->workers_part = workers.get();
    auto opened = Session::open(*host, SoftSession::quiet());
    if (!opened.ok()) throw std::runtime_error(to_string(opened.error()));
    session.emplace(std::move(*opened));
    source.emplace(*session->allocate_host(2 * part));
    target.emplace(*session->allocate(0, 2 * part));
    memory = std::get<GpuMemory>(target->place());
  }
  void silence(bool wanted) { driver->silent = workers->silent = wanted; }
  /// Copies do not end, and everybody has all the time that they want to wait.
  void silence_copies() { driver->silent = true; }
  [[nodiscard]] bool still_there() const {
    unsigned type = 0;
    return driver->pointer_get_attribute(&type, cuda::pointer_memory_type, memory.address.value) ==
           cuda::success;
  }
  [[nodiscard]] std::size_t lines_with(std::string_view text) const {
    std::size_t count = 0;
    for (const std::string& line : host->heard.lines) {
      if (line.find(text) != std::string::npos) ++count;
    }
    return count;
  }

  std::unique_ptr<fabric::SoftHost> soft;
  std::unique_ptr<HearingHost> host;
  std::unique_ptr<SilentCuda> driver;
  std::unique_ptr<ImpatientWorkers> workers;
  std::optional<Session> session;
  std::optional<Region> source;
  std::optional<Region> target;
  GpuMemory memory;
};

void drop_streams(SilentRig& rig) {
  cuda::CUcontext context = nullptr;
  cuda::CUstream stream = nullptr;
  cuda::CUstream other = nullptr;
  ASSERT_EQ(rig.driver->device_primary_ctx_retain(&context, 0), cuda::success);
  ASSERT_EQ(rig.driver->ctx_push_current(context), cuda::success);
  ASSERT_EQ(rig.driver->stream_create(&stream, cuda::stream_non_blocking), cuda::success);
  ASSERT_EQ(rig.driver->stream_create(&other, cuda::stream_non_blocking), cuda::success);
  ASSERT_EQ(rig.driver->ctx_pop_current(nullptr), cuda::success);
  std::optional<Streams> streams(*Streams::open(*rig.session));
  rig.silence(true);
  auto late = streams->enqueue(stream, rig.source->place(0, part), rig.target->place(0, part),
                               {.deadline_ns = 1'000'000});
  auto closed = streams->enqueue(other, rig.source->place(part, part),
                                 rig.target->place(part, part), {.deadline_ns = patience_ns});
  ASSERT_TRUE(late.ok() && closed.ok());
  rig.workers->silent = false;  // the watchdog has its time
  const auto outcome = late->wait(patience_ns);
  rig.workers->silent = true;
  ASSERT_TRUE(outcome.has_value());
  ASSERT_FALSE(outcome->ok());
  EXPECT_EQ(outcome->error->cause, Cause::async_wait_released_by_watchdog);
  EXPECT_NE(outcome->error->detail.find("may still write"), std::string::npos);
  streams.reset();
  const auto told = closed->poll();
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->receipt.state, TransferState::failed);
}

void drop_transfer(SilentRig& rig) {
  rig.silence(true);
  auto transfer = rig.session->start(rig.source->place(), rig.target->place());
  ASSERT_TRUE(transfer.ok()) << to_string(transfer.error());
}

/// As the assignment of another handle does.
void replace_transfer(SilentRig& rig) {
  auto ended = rig.session->start(rig.source->place(0, 0), rig.target->place(0, 0));
  ASSERT_TRUE(ended.ok()) << to_string(ended.error());
  rig.silence(true);
  auto transfer = rig.session->start(rig.source->place(), rig.target->place());
  ASSERT_TRUE(transfer.ok()) << to_string(transfer.error());
  *transfer = std::move(*ended);
}

void drop_batch(SilentRig& rig) {
  const std::vector<TransferRequest> requests = {
      {rig.source->place(0, part), rig.target->place(0, part)},
      {rig.source->place(part, part), rig.target->place(part, part)}};
  rig.silence(true);
  auto batch = rig.session->start_batch(requests, {.at_once = 2});
  ASSERT_TRUE(batch.ok());
}

/// The transfer ends with its deadline, and its copy goes on.
void pass_deadline(SilentRig& rig, Policy policy) {
  rig.silence_copies();
  const Outcome late = rig.session->transfer(rig.source->place(), rig.target->place(),
                                             {.policy = policy, .deadline_ns = 1'000'000});
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error->cause, Cause::session_deadline_passed);
  // Whatever were written there now could be overwritten later.
  const Outcome again = rig.session->transfer(rig.source->place(), rig.target->place());
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error->cause, Cause::session_deadline_passed);
  EXPECT_NE(again.error->detail.find("may still arrive in its target"), std::string::npos)
      << to_string(*again.error);
  rig.silence(true);
}

void pass_deadline_directly(SilentRig& rig) {
  pass_deadline(rig, Policy::direct_preferred);
}
void pass_deadline_staged(SilentRig& rig) {
  pass_deadline(rig, Policy::staged_only);
}

void checksum(SilentRig& rig) {
  rig.silence(true);
  const auto sum = rig.session->checksum(rig.target->place());
  ASSERT_FALSE(sum.ok());
  EXPECT_EQ(sum.error().origin, ErrorOrigin::session);
  EXPECT_EQ(sum.error().cause, Cause::session_deadline_passed);
  EXPECT_NE(sum.error().attempted.find("gpu:0"), std::string::npos) << to_string(sum.error());
  EXPECT_FALSE(sum.error().remedy.empty());
}

void fill(SilentRig& rig) {
  rig.silence(true);
  const Status filled = rig.session->fill_pattern(rig.target->place(), 1);
  ASSERT_FALSE(filled.ok());
  EXPECT_EQ(filled.error().cause, Cause::session_deadline_passed);
}

/// The pair's probe hangs in memory of the transfer itself.
void probe_pair(SilentRig& rig) {
  auto other = rig.session->allocate(1, 2 * part);
  ASSERT_TRUE(other.ok());
  rig.driver->at_copy_between = [&] { rig.silence(true); };
  const Outcome outcome = rig.session->transfer(other->place(), rig.target->place());
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error->cause, Cause::session_deadline_passed);
  EXPECT_NE(outcome.error->detail.find("may still arrive in its target"), std::string::npos)
      << to_string(*outcome.error);
  EXPECT_EQ(outcome.receipt.bytes.total(), 0u);
}

/// A pair's probe hangs in memory of the session: the file is refused the direct path, and no more.
void probe_storage(SilentRig& rig) {
  const TemporaryDirectory folder;
  write_file(folder.file("data"), random_bytes(part, 3));
  auto file = rig.session->open_file(folder.file("data"));
  ASSERT_TRUE(file.ok()) << to_string(file.error());
  rig.silence(true);
  const Outcome outcome = rig.session->transfer(file->place(), rig.target->place(0, part),
                                                {.policy = Policy::direct_required});
  ASSERT_FALSE(outcome.ok());
  EXPECT_TRUE(has_cause(outcome.receipt, Cause::session_deadline_passed))
      << to_string(*outcome.error);
  EXPECT_EQ(outcome.receipt.bytes.total(), 0u);
}

struct Dropped {
  const char* name;
  void (*drop)(SilentRig& rig);
};

class GivenUp : public ::testing::TestWithParam<Dropped> {};

TEST_P(GivenUp, IsKeptUntilItHasEnded) {
  SilentRig rig;
  GetParam().drop(rig);
  if (HasFatalFailure()) return;
  EXPECT_GE(rig.lines_with("may still arrive"), 1u);
  rig.source.reset();
  rig.target.reset();
  EXPECT_TRUE(rig.still_there()) << "freed under a copy";
  rig.silence(false);
  rig.session.reset();
  EXPECT_FALSE(rig.still_there()) << "it had ended, and stays all the same";
  EXPECT_EQ(rig.lines_with("until the process ends"), 0u);
}

TEST_P(GivenUp, IsKeptForGoodWhereItNeverEnds) {
  SilentRig rig;
  GetParam().drop(rig);
  if (HasFatalFailure()) return;
  rig.source.reset();
  rig.target.reset();
  rig.session.reset();
  EXPECT_TRUE(rig.still_there()) << "freed under a copy";
  EXPECT_EQ(rig.lines_with("until the process ends"), 1u);
}

INSTANTIATE_TEST_SUITE_P(Each, GivenUp,
                         ::testing::Values(Dropped{"Streams", drop_streams},
                                           Dropped{"Transfer", drop_transfer},
                                           Dropped{"ReplacedTransfer", replace_transfer},
                                           Dropped{"Batch", drop_batch},
                                           Dropped{"Deadline", pass_deadline_directly},
                                           Dropped{"StagedDeadline", pass_deadline_staged},
                                           Dropped{"Checksum", checksum}, Dropped{"Pattern", fill},
                                           Dropped{"ProbeOfAPair", probe_pair}),
                         [](const auto& instance) { return std::string(instance.param.name); });

/// What a probe spoiled is the session's own: memory of the transfer is as free as before.
TEST(GivenUpProbe, LeavesTheTransfersMemoryAloneAndItsPairUnbelieved) {
  SilentRig rig;
  probe_storage(rig);
  EXPECT_GE(rig.lines_with("may still arrive"), 1u);
  rig.target.reset();
  EXPECT_FALSE(rig.still_there());
  rig.silence(false);
  {
    auto other = rig.session->allocate(0, 2 * part);
    ASSERT_TRUE(other.ok());
    EXPECT_TRUE(rig.session->transfer(rig.source->place(), other->place()).ok());
  }
  rig.source.reset();
  rig.session.reset();
  EXPECT_EQ(rig.lines_with("until the process ends"), 0u);
}

/// A driver frees nothing while a copy hangs, and waits for ever.
TEST(GivenUpCopy, HoldsUpNobodyWhoDropsOtherMemory) {
  SilentRig rig;
  auto other = rig.session->allocate(0, part);
  ASSERT_TRUE(other.ok());
  pass_deadline_directly(rig);
  if (HasFatalFailure()) return;
  const std::uint64_t address = std::get<GpuMemory>(other->place()).address.value;
  const auto there = [&] {
    unsigned type = 0;
    return rig.driver->pointer_get_attribute(&type, cuda::pointer_memory_type, address) ==
           cuda::success;
  };
  { const Region dropped = std::move(*other); }
  EXPECT_TRUE(there()) << "whoever frees it waits for ever";
  rig.silence(false);
  rig.source.reset();
  rig.target.reset();
  rig.session.reset();
  EXPECT_FALSE(there());
}

/// Nobody said until when it may take, but that it is not wanted any more.
TEST(GivenUpCopy, EndsWhenItWasCancelledAndHangs) {
  SilentRig rig;
  rig.silence_copies();
  auto transfer = rig.session->start(rig.source->place(), rig.target->place());
  ASSERT_TRUE(transfer.ok());
  transfer->cancel();
  const std::optional<Outcome> outcome = transfer->wait(patience_ns);
  ASSERT_TRUE(outcome.has_value()) << "a cancel that ends nothing";
  EXPECT_EQ(outcome->receipt.state, TransferState::cancelled);
  EXPECT_EQ(outcome->error->cause, Cause::session_cancelled);
  rig.silence(true);
  rig.target.reset();
  EXPECT_TRUE(rig.still_there()) << "freed under a copy";
}

/// While a copy that was given up on flies, and after it has landed.
TEST(GivenUpCopy, KeepsItsPlacesOnlyUntilItHasLanded) {
  SilentRig rig;
  pass_deadline_directly(rig);
  if (HasFatalFailure()) return;
  rig.silence(false);
  // The watch looks rarely.
  (void)rig.soft->workers().wait([] { return false; }, rig.soft->clock().now_ns() + 100'000'000);
  const Outcome again = rig.session->transfer(rig.source->place(), rig.target->place());
  EXPECT_TRUE(again.ok()) << to_string(*again.error);
  rig.target.reset();
  EXPECT_FALSE(rig.still_there()) << "kept for nothing";
}

}  // namespace
}  // namespace nobounce::test
