// Orders of a stream while they wait for their turn: what changes until then, what could not be put
// on the stream, and what nobody may touch before.
#include <gtest/gtest.h>

#include <unistd.h>

#include "async_rig.hpp"
#include "support/gpu_kinds.hpp"

namespace nobounce {
namespace {

namespace cuda = system::cuda;
using test::AsyncRig;
using test::has_cause;
using test::machine_with;
using test::random_bytes;
using test::TemporaryDirectory;
using test::write_file;

constexpr std::uint64_t length = 1u << 20;
constexpr std::uint64_t patience_ns = 30'000'000'000;

DevicePointer address_of(const Region& region) {
  return std::get<GpuMemory>(region.place()).address;
}

/// Two GPUs, a stream on the second, and streams open.
struct PairRig {
  explicit PairRig(const Machine& machine = machine_with("workstation"))
      : rig(machine, fabric::SoftOptions{.deterministic = true}), kinds(*rig.host) {
    source.emplace(*rig.session->allocate(0, length));
    target.emplace(*rig.session->allocate(1, length));
    kinds.plant(address_of(*source), bytes);
    kinds.plant(address_of(*target), old);
    streams.emplace(*Streams::open(*rig.session));
    const system::ContextGuard guard(kinds.api(), kinds.context(1));
    stream = rig.stream();
  }
  [[nodiscard]] Result<StreamTransfer> enqueue(Policy policy) {
    return streams->enqueue(stream, source->place(), target->place(), {.policy = policy});
  }
  void disable() {
    kinds.disable(AllocationKind::device, {}, 0, 1, 0);
    kinds.disable(AllocationKind::device, {}, 0, 0, 1);
  }

  const std::vector<std::byte> bytes = random_bytes(length, 51);
  const std::vector<std::byte> old = random_bytes(length, 52);
  AsyncRig rig;
  test::GpuKinds kinds;
  std::optional<Region> source;
  std::optional<Region> target;
  std::optional<Streams> streams;
  cuda::CUstream stream = nullptr;
};

TEST(StreamOrders, AskForAccessWhenTheirTurnComesNotWhenTheyAreGiven) {
  for (const Policy policy : {Policy::direct_preferred, Policy::direct_required}) {
    PairRig pair;
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(
          pair.rig.session->transfer(pair.source->place(), pair.target->place(), {.policy = policy})
              .ok());
    }
    pair.kinds.plant(address_of(*pair.target), pair.old);
    pair.rig.close_gate(pair.stream);
    auto transfer = pair.enqueue(policy);
    ASSERT_TRUE(transfer.ok()) << to_string(transfer.error());
    pair.disable();
    pair.rig.host->bus().ledger().clear_requests();
    pair.rig.open_gate();
    const auto outcome = transfer->wait(patience_ns);
    ASSERT_TRUE(outcome.has_value());
    EXPECT_TRUE(test::equals_ledger(outcome->receipt,
                                    pair.kinds.arrived(address_of(*pair.target), length)));
    ASSERT_TRUE(outcome->ok()) << to_string(*outcome->error);
    EXPECT_EQ(outcome->receipt.bytes[Carriage::direct], length);
    EXPECT_EQ(pair.kinds.look_at(address_of(*pair.target), length), pair.bytes);
  }
}

TEST(StreamOrders, DoNotUseAPathThatWasDisprovedMeanwhile) {
  PairRig pair;
  const auto move = [&] {
    return pair.rig.session->transfer(pair.source->place(), pair.target->place());
  };
  ASSERT_TRUE(move().ok());
  pair.kinds.plant(address_of(*pair.target), pair.old);
  pair.rig.close_gate(pair.stream);
  auto transfer = pair.enqueue(Policy::direct_required);
  ASSERT_TRUE(transfer.ok()) << to_string(transfer.error());
  pair.rig.host->faults().cuda_error = 1;
  EXPECT_FALSE(move().ok());
  pair.rig.host->faults().cuda_error = 0;
  pair.rig.open_gate();
  const auto outcome = transfer->wait(patience_ns);
  ASSERT_TRUE(outcome.has_value());
  ASSERT_FALSE(outcome->ok());
  EXPECT_EQ(outcome->receipt.bytes.total(), 0u);
  EXPECT_EQ(pair.kinds.look_at(address_of(*pair.target), length), pair.old);
}

TEST(StreamOrders, OfAPairThatNothingHasProvedTouchNothingBeforeTheirTurn) {
  PairRig pair;
  pair.rig.close_gate(pair.stream);
  auto transfer = pair.enqueue(Policy::direct_required);
  ASSERT_TRUE(transfer.ok()) << to_string(transfer.error());
  EXPECT_EQ(pair.kinds.look_at(address_of(*pair.target), length), pair.old);
  const std::vector<std::byte> later = random_bytes(length, 54);
  pair.kinds.plant(address_of(*pair.source), later);  // what the stream does before its turn
  pair.rig.open_gate();
  const auto outcome = transfer->wait(patience_ns);
  ASSERT_TRUE(outcome.has_value());
  ASSERT_TRUE(outcome->ok()) << to_string(*outcome->error);
  EXPECT_EQ(outcome->receipt.bytes[Carriage::direct], length);
  EXPECT_EQ(pair.kinds.look_at(address_of(*pair.target), length), later);
}

/// Memory of the session stands for no import.
TEST(StreamOrders, IntoAnImportThatNothingHasProvedAreRefused) {
  PairRig pair;
  const DevicePointer at = pair.kinds.allocate(AllocationKind::ipc_import, 1, length);
  auto import = pair.rig.session->adopt(at, length);
  ASSERT_TRUE(import.ok()) << to_string(import.error());
  pair.kinds.plant(at, pair.old);
  const auto refused =
      pair.streams->enqueue(pair.stream, pair.source->place(), import->place(), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().cause, Cause::async_path_unproven);
  EXPECT_EQ(pair.kinds.look_at(at, length), pair.old);
  ASSERT_TRUE(pair.rig.session->transfer(pair.source->place(), import->place()).ok());
  auto transfer = pair.streams->enqueue(pair.stream, pair.source->place(), import->place(), {});
  ASSERT_TRUE(transfer.ok()) << to_string(transfer.error());
  EXPECT_TRUE(transfer->wait(patience_ns)->ok());
}

TEST(StreamOrders, ToAFileOrDriveThatNothingHasProvedLeaveItUntouched) {
  const TemporaryDirectory directory;
  {
    PairRig pair;
    auto file = pair.rig.session->open_file(directory.file("out"),
                                            {.mode = FileMode::replace, .length_bytes = length});
    ASSERT_TRUE(file.ok());
    const auto refused = pair.streams->enqueue(pair.stream, pair.target->place(), file->place());
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().cause, Cause::async_path_unproven);
    ASSERT_TRUE(pair.rig.session->transfer(pair.target->place(), file->place()).ok());
    auto transfer = pair.streams->enqueue(pair.stream, pair.target->place(), file->place());
    ASSERT_TRUE(transfer.ok()) << to_string(transfer.error());
    EXPECT_TRUE(transfer->wait(patience_ns)->ok());
  }
  PairRig pair(machine_with("spare-drive"));
  const auto medium = *pair.rig.host->raw_medium(1);
  ASSERT_EQ(::pwrite(medium.descriptor, pair.old.data(), length, 0), static_cast<ssize_t>(length));
  auto drive =
      pair.rig.session->take_drive(pair.rig.session->machine().drives[1].bdf, {.take = true});
  ASSERT_TRUE(drive.ok()) << to_string(drive.error());
  const auto refused =
      pair.streams->enqueue(pair.stream, pair.target->place(), drive->place(0, length));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().cause, Cause::async_path_unproven);
  std::vector<std::byte> now(length);
  ASSERT_EQ(::pread(medium.descriptor, now.data(), length, 0), static_cast<ssize_t>(length));
  EXPECT_EQ(now, pair.old);
}

/// Ordered for the GPU that owns the memory says nothing of what another GPU's stream sees.
TEST(StreamOrders, OfAnotherGpusStreamRestOnMoreThanTheOwnersOrder) {
  const TemporaryDirectory directory;
  write_file(directory.file("in"), random_bytes(length, 55));
  struct Promise {
    int ordering;
    int flushes;
    std::optional<Visibility> other;  ///< empty: refused
  };
  for (const Promise& promise :
       {Promise{100, 0, std::nullopt}, Promise{100, 2, std::nullopt},
        Promise{100, 1, Visibility::flush_by_host}, Promise{200, 0, Visibility::native}}) {
    AsyncRig rig(machine_with("workstation"), {.deterministic = true},
                 {{cuda::attribute_gpu_direct_rdma_writes_ordering, promise.ordering},
                  {cuda::attribute_gpu_direct_rdma_flush_writes_options, promise.flushes}});
    test::GpuKinds kinds(*rig.host);
    auto file = rig.session->open_file(directory.file("in"));
    auto region = rig.session->allocate(0, length);
    auto streams = Streams::open(*rig.session);
    ASSERT_TRUE(file.ok() && region.ok() && streams.ok());
    auto own = streams->enqueue(rig.stream(), file->place(), region->place());
    ASSERT_TRUE(own.ok()) << to_string(own.error());
    EXPECT_EQ(own->visibility(), Visibility::native);
    EXPECT_TRUE(own->wait(patience_ns)->ok());
    const system::ContextGuard guard(kinds.api(), kinds.context(1));
    auto other = streams->enqueue(rig.stream(), file->place(), region->place());
    ASSERT_EQ(other.ok(), promise.other.has_value());
    if (!other.ok()) {
      EXPECT_EQ(other.error().cause, Cause::async_ordering_unproven);
      continue;
    }
    EXPECT_EQ(other->visibility(), *promise.other);
    EXPECT_TRUE(other->wait(patience_ns)->ok());
  }
}

/// One GPU, a file, and a stream that is held up.
class HeldStream : public ::testing::TestWithParam<bool> {
 protected:
  HeldStream()
      : rig_(machine_with("workstation"), fabric::SoftOptions{.deterministic = GetParam()}) {
    write_file(directory_.file("source"), bytes_);
    file_.emplace(*rig_.session->open_file(directory_.file("source")));
    region_.emplace(*rig_.session->allocate(0, length));
    streams_.emplace(*Streams::open(*rig_.session));
    stream_ = rig_.stream();
    rig_.close_gate(stream_);
  }
  [[nodiscard]] Result<StreamTransfer> enqueue() {
    return streams_->enqueue(stream_, file_->place(), region_->place());
  }

  const TemporaryDirectory directory_;
  const std::vector<std::byte> bytes_ = random_bytes(length, 53);
  AsyncRig rig_;
  std::optional<File> file_;
  std::optional<Region> region_;
  std::optional<Streams> streams_;
  cuda::CUstream stream_ = nullptr;
};

TEST_P(HeldStream, AnOrderThatCannotBePutThereLetsNoEarlierOneGo) {
  auto first = enqueue();
  ASSERT_TRUE(first.ok()) << to_string(first.error());
  auto* copy = static_cast<std::byte*>(rig_.pinned(length));
  ASSERT_EQ(rig_.driver->memcpy_dtoh_async(copy, address_of(*region_).value, length, stream_),
            cuda::success);
  rig_.driver->wait_code = cuda::error_out_of_memory;
  EXPECT_FALSE(enqueue().ok());
  rig_.driver->wait_code = cuda::success;
  rig_.let_time_pass();
  // The word that the stream waits for lies 64 bytes before the status.
  const DevicePointer done{first->status_word().value - 64};
  EXPECT_EQ(rig_.look_at_word(done), 0u) << "nothing has ended";
  auto third = enqueue();
  ASSERT_TRUE(third.ok()) << to_string(third.error());
  EXPECT_FALSE(first->poll().has_value());
  rig_.open_gate();
  ASSERT_TRUE(third->wait(patience_ns).has_value());
  ASSERT_TRUE(first->poll().has_value());
  EXPECT_TRUE(first->poll()->ok());
  EXPECT_TRUE(rig_.ends(stream_));
  EXPECT_EQ(std::vector<std::byte>(copy, copy + length), bytes_) << "later work overtook it";
}

TEST_P(HeldStream, OneThatCouldNotBePutThereHoldsUpNoClosing) {
  rig_.driver->wait_code = cuda::error_out_of_memory;
  EXPECT_FALSE(enqueue().ok());
  rig_.driver->wait_code = cuda::success;
  auto second = enqueue();
  ASSERT_TRUE(second.ok());
  streams_.reset();
  EXPECT_EQ(second->poll()->receipt.state, TransferState::cancelled);
  rig_.open_gate();
  EXPECT_TRUE(rig_.ends(stream_));
}

TEST_P(HeldStream, TakesABoundedNumberOfOrders) {
  std::vector<StreamTransfer> taken;
  for (int i = 0; i < 256; ++i) {
    auto transfer = streams_->enqueue(stream_, file_->place(0, 4096), region_->place(0, 4096));
    ASSERT_TRUE(transfer.ok()) << to_string(transfer.error());
    taken.push_back(std::move(*transfer));
  }
  const auto refused = enqueue();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().cause, Cause::async_too_many_orders);
  EXPECT_NE(refused.error().detail.find("256"), std::string::npos);
  rig_.open_gate();
  for (StreamTransfer& transfer : taken) EXPECT_TRUE(transfer.wait(patience_ns)->ok());
  auto again = enqueue();
  ASSERT_TRUE(again.ok()) << to_string(again.error());
  EXPECT_TRUE(again->wait(patience_ns)->ok());
}

/// Whoever reads a refusal learns what it is called and how to go on.
TEST(StreamOrders, ThatAreRefusedSayWhyAndWhatToDo) {
  const TemporaryDirectory directory;
  PairRig pair;
  write_file(directory.file("in"), pair.bytes);
  auto file = pair.rig.session->open_file(directory.file("in"));
  auto out = pair.rig.session->open_file(directory.file("out"),
                                         {.mode = FileMode::replace, .length_bytes = length});
  const DevicePointer at = pair.kinds.allocate(AllocationKind::ipc_import, 1, length);
  auto import = pair.rig.session->adopt(at, length);
  ASSERT_TRUE(file.ok() && out.ok() && import.ok());
  const Place source = pair.source->place();
  const Place target = pair.target->place();
  const cuda::CUstream captured = [&] {
    const system::ContextGuard guard(pair.kinds.api(), pair.kinds.context(1));
    const cuda::CUstream made = pair.rig.stream();
    EXPECT_EQ(pair.rig.driver->stream_begin_capture(made, cuda::capture_mode_relaxed),
              cuda::success);
    return made;
  }();
  pair.rig.close_gate(pair.stream);
  for (int i = 0; i < 256; ++i) {
    auto taken = pair.enqueue(Policy::direct_preferred);
    ASSERT_TRUE(taken.ok()) << i << ": " << to_string(taken.error());
  }
  const cuda::CUstream full = pair.stream;
  const cuda::CUstream free = [&] {
    const system::ContextGuard guard(pair.kinds.api(), pair.kinds.context(1));
    return pair.rig.stream();
  }();
  struct Case {
    const char* name;
    StreamHandle stream;
    Place from;
    Place to;
    Cause cause;
  };
  for (const Case& one :
       {Case{"an import that nothing has proved", free, source, import->place(),
             Cause::async_path_unproven},
        Case{"a file that nothing has proved", free, target, out->place(),
             Cause::async_path_unproven},
        Case{"one more than are kept", full, source, target, Cause::async_too_many_orders},
        Case{"the default stream", nullptr, source, target, Cause::async_default_stream},
        Case{"a captured stream", captured, source, target, Cause::async_graph_capture},
        Case{"inside one GPU", free, pair.source->place(0, 4096), pair.source->place(8192, 4096),
             Cause::async_kernel_may_deadlock}}) {
    const auto refused = pair.streams->enqueue(one.stream, one.from, one.to);
    ASSERT_FALSE(refused.ok()) << one.name;
    EXPECT_EQ(refused.error().cause, one.cause) << one.name;
    EXPECT_FALSE(refused.error().detail.empty()) << one.name;
    EXPECT_FALSE(remedy_of(refused.error()).empty()) << one.name;
  }
  cuda::CUgraph graph = nullptr;
  EXPECT_EQ(pair.rig.driver->stream_end_capture(captured, &graph), cuda::success);
  pair.rig.open_gate();
}

INSTANTIATE_TEST_SUITE_P(Both, HeldStream, ::testing::Values(true, false),
                         [](const auto& instance) {
                           return std::string(instance.param ? "Deterministic" : "OnThreads");
                         });

}  // namespace
}  // namespace nobounce
