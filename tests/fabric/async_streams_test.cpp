// Stream-ordered transfers: they start when the stream is there, later work waits for them, and no
// wait is without an end.
#include <algorithm>

#include <gtest/gtest.h>

#include "async_rig.hpp"

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

class StreamOrdered : public ::testing::TestWithParam<bool> {
 protected:
  StreamOrdered() : bytes_(random_bytes(length, 7)) {
    write_file(directory_.file("source"), bytes_);
  }
  void build(const Machine& machine, const std::map<int, int>& attributes = {},
             const fabric::SoftFaults& faults = {}) {
    rig_.emplace(machine, fabric::SoftOptions{.deterministic = GetParam(), .faults = faults},
                 attributes);
    auto file = rig_->session->open_file(directory_.file("source"));
    ASSERT_TRUE(file.ok());
    file_.emplace(std::move(*file));
    auto region = rig_->session->allocate(0, length);
    ASSERT_TRUE(region.ok());
    region_.emplace(std::move(*region));
    auto streams = Streams::open(*rig_->session);
    ASSERT_TRUE(streams.ok()) << to_string(streams.error());
    streams_.emplace(std::move(*streams));
    stream_ = rig_->stream();
  }
  [[nodiscard]] Result<StreamTransfer> enqueue(const StreamOptions& options = {}) {
    return streams_->enqueue(stream_, file_->place(), region_->place(), options);
  }
  [[nodiscard]] bool arrived() const { return rig_->look_at(region_->place()) == bytes_; }

  const TemporaryDirectory directory_;
  const std::vector<std::byte> bytes_;
  std::optional<AsyncRig> rig_;
  std::optional<File> file_;
  std::optional<Region> region_;
  std::optional<Streams> streams_;
  cuda::CUstream stream_ = nullptr;
};

TEST_P(StreamOrdered, StartWhenTheStreamIsThereAndHoldItUntilTheyEnd) {
  build(machine_with("workstation"));
  rig_->close_gate(stream_);
  auto transfer = enqueue();
  ASSERT_TRUE(transfer.ok()) << to_string(transfer.error());
  auto* copy = static_cast<std::byte*>(rig_->pinned(length));
  ASSERT_EQ(rig_->driver->memcpy_dtoh_async(
                copy, std::get<GpuMemory>(region_->place()).address.value, length, stream_),
            cuda::success);
  rig_->let_time_pass();
  EXPECT_FALSE(transfer->poll().has_value());
  EXPECT_FALSE(arrived()) << "the stream is not there yet";
  rig_->open_gate();
  const auto outcome = transfer->wait(patience_ns);
  ASSERT_TRUE(outcome.has_value());
  ASSERT_TRUE(outcome->ok()) << to_string(*outcome->error);
  EXPECT_TRUE(rig_->ends(stream_));
  EXPECT_EQ(std::vector<std::byte>(copy, copy + length), bytes_) << "later work overtook it";
  const Receipt& receipt = outcome->receipt;
  EXPECT_EQ(receipt.issuer, Issuer::stream);
  EXPECT_EQ(receipt.poster, Poster::cpu_proxy) << "a worker told the drive, not the GPU";
  EXPECT_TRUE(has_cause(receipt, Cause::async_cpu_proxy));
  EXPECT_EQ(receipt.bytes[Carriage::direct], length);
  EXPECT_EQ(receipt.member, Member::storage);
  EXPECT_EQ(transfer->visibility(), Visibility::native);
  EXPECT_EQ(rig_->look_at_word(transfer->status_word()), device::completion_word(1, 0));
}

TEST_P(StreamOrdered, SeveralOnOneStreamGoOneAfterTheOther) {
  build(machine_with("workstation", {"/modules/nvidia_fs=false"}));
  rig_->close_gate(stream_);
  std::vector<StreamTransfer> transfers;
  for (std::uint64_t i = 0; i < 8; ++i) {
    const std::uint64_t part = length / 8;
    auto transfer = streams_->enqueue(stream_, file_->place(i * part, part),
                                      region_->place((7 - i) * part, part));
    ASSERT_TRUE(transfer.ok()) << to_string(transfer.error());
    EXPECT_EQ(transfer->sequence(), i + 1);
    transfers.push_back(std::move(*transfer));
  }
  rig_->open_gate();
  ASSERT_TRUE(transfers.back().wait(patience_ns).has_value());
  for (StreamTransfer& transfer : transfers) {
    const auto outcome = transfer.poll();
    ASSERT_TRUE(outcome.has_value()) << "a later one ended first";
    EXPECT_TRUE(outcome->ok());
    EXPECT_EQ(outcome->receipt.bytes[Carriage::staged], length / 8);
  }
  const auto landed = rig_->look_at(region_->place());
  for (std::uint64_t i = 0; i < 8; ++i) {
    const auto from = bytes_.begin() + static_cast<std::ptrdiff_t>(i * length / 8);
    const auto to = landed.begin() + static_cast<std::ptrdiff_t>((7 - i) * length / 8);
    EXPECT_TRUE(std::equal(from, from + length / 8, to)) << i;
  }
}

TEST_P(StreamOrdered, FortyEightStreamsAtOnce) {
  build(machine_with("workstation"));
  std::vector<cuda::CUstream> streams;
  std::vector<StreamTransfer> transfers;
  const std::uint64_t part = length / 64;
  for (std::uint64_t i = 0; i < 48; ++i) {
    streams.push_back(rig_->stream());
    rig_->close_gate(streams.back());
    auto transfer = streams_->enqueue(streams.back(), file_->place(i * part, part),
                                      region_->place(i * part, part));
    ASSERT_TRUE(transfer.ok()) << to_string(transfer.error());
    transfers.push_back(std::move(*transfer));
  }
  rig_->open_gate();
  for (StreamTransfer& transfer : transfers) {
    const auto outcome = transfer.wait(patience_ns);
    ASSERT_TRUE(outcome.has_value());
    EXPECT_TRUE(outcome->ok());
  }
  for (const cuda::CUstream stream : streams) EXPECT_TRUE(rig_->ends(stream));
  const auto landed = rig_->look_at(region_->place(0, 48 * part));
  EXPECT_TRUE(std::equal(landed.begin(), landed.end(), bytes_.begin()));
}

TEST_P(StreamOrdered, AFailedTransferLetsTheStreamGoOnWithAnErrorStatus) {
  fabric::SoftFaults faults;
  faults.read_error = 1;
  build(machine_with("workstation", {"/modules/nvidia_fs=false"}), {}, faults);
  auto transfer = enqueue();
  ASSERT_TRUE(transfer.ok()) << to_string(transfer.error());
  const auto outcome = transfer->wait(patience_ns);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_FALSE(outcome->ok());
  EXPECT_EQ(outcome->receipt.state, TransferState::failed);
  EXPECT_TRUE(rig_->ends(stream_));
  EXPECT_EQ(rig_->look_at_word(transfer->status_word()),
            device::completion_word(1, device::code_device));
  rig_->host->faults().read_error = 0;
  auto next = enqueue();
  ASSERT_TRUE(next.ok());
  const auto second = next->wait(patience_ns);
  ASSERT_TRUE(second.has_value());
  EXPECT_TRUE(second->ok());
  EXPECT_TRUE(arrived());
  EXPECT_EQ(rig_->look_at_word(next->status_word()), device::completion_word(2, 0));
}

TEST_P(StreamOrdered, AWatchdogEndsEveryWait) {
  build(machine_with("workstation", {"/modules/nvidia_fs=false"}));
  auto transfer = enqueue({.deadline_ns = 1});
  ASSERT_TRUE(transfer.ok()) << to_string(transfer.error());
  const auto outcome = transfer->wait(patience_ns);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_TRUE(rig_->ends(stream_));
  if (outcome->ok()) GTEST_SKIP() << "it was done before anybody looked";
  EXPECT_EQ(outcome->error->cause, Cause::async_wait_released_by_watchdog);
  EXPECT_TRUE(has_cause(outcome->receipt, Cause::async_wait_released_by_watchdog));
  EXPECT_EQ(rig_->look_at_word(transfer->status_word()),
            device::completion_word(1, device::code_deadline));
}

TEST_P(StreamOrdered, ACapturedStreamIsRefusedAndStaysUntouched) {
  build(machine_with("workstation"));
  ASSERT_EQ(rig_->driver->stream_begin_capture(stream_, cuda::capture_mode_relaxed), cuda::success);
  const auto refused = enqueue();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().cause, Cause::async_graph_capture);
  cuda::CUgraph graph = nullptr;
  ASSERT_EQ(rig_->driver->stream_end_capture(stream_, &graph), cuda::success);
  auto transfer = enqueue();
  ASSERT_TRUE(transfer.ok());
  EXPECT_TRUE(transfer->wait(patience_ns)->ok());
}

TEST_P(StreamOrdered, WhatAStreamMayNotWaitForIsRefusedBeforeItIsMarked) {
  build(machine_with("workstation"));
  const auto inside =
      streams_->enqueue(stream_, region_->place(0, 4096), region_->place(8192, 4096));
  ASSERT_FALSE(inside.ok());
  EXPECT_EQ(inside.error().cause, Cause::async_kernel_may_deadlock);
  const auto odd = streams_->enqueue(stream_, file_->place(1, 8192), region_->place(0, 8192));
  ASSERT_FALSE(odd.ok()) << "the unaligned ends need a copy inside the GPU";
  EXPECT_EQ(odd.error().cause, Cause::async_kernel_may_deadlock);
  for (const std::uintptr_t number : {0u, 1u, 2u}) {
    const auto null =
        streams_->enqueue(reinterpret_cast<StreamHandle>(number), file_->place(), region_->place());
    ASSERT_FALSE(null.ok()) << number;
    EXPECT_EQ(null.error().origin, ErrorOrigin::input);
  }
  EXPECT_EQ(rig_->driver->stream_query(stream_), cuda::success) << "nothing was put on it";
}

TEST_P(StreamOrdered, CopiesThatAreNoCopyEnginesAreRefused) {
  build(machine_with("workstation"));
  struct Case {
    std::uint64_t bytes;
    bool staged;
    bool taken;
  };
  // The session's slots have 256 KiB.
  for (const Case& one :
       {Case{4096, false, true}, Case{4096, true, false}, Case{32 * 1024, true, true},
        Case{28 * 1024, true, false}, Case{256 * 1024 + 4096, true, false},
        Case{256 * 1024, true, true}, Case{288 * 1024, true, true}}) {
    auto transfer =
        streams_->enqueue(stream_, file_->place(0, one.bytes), region_->place(0, one.bytes),
                          {.policy = one.staged ? Policy::staged_only : Policy::direct_preferred});
    ASSERT_EQ(transfer.ok(), one.taken) << one.bytes << (one.staged ? " staged" : " direct");
    if (one.taken) {
      EXPECT_TRUE(transfer->wait(patience_ns)->ok());
    } else {
      EXPECT_EQ(transfer.error().cause, Cause::async_kernel_may_deadlock);
    }
  }
  // Out of GPU memory every size is a copy engine's.
  auto host = rig_->session->allocate_host(4096);
  ASSERT_TRUE(host.ok());
  auto out = streams_->enqueue(stream_, region_->place(0, 4096), host->place());
  ASSERT_TRUE(out.ok()) << to_string(out.error());
  EXPECT_TRUE(out->wait(patience_ns)->ok());
}

TEST_P(StreamOrdered, UnderDirectRequiredWhatWouldStageIsRefusedAtOnce) {
  build(machine_with("workstation", {"/modules/nvidia_fs=false"}));
  const auto refused = enqueue({.policy = Policy::direct_required});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().origin, ErrorOrigin::policy);
  EXPECT_EQ(refused.error().cause, Cause::storage_nvidia_fs_absent);
}

TEST_P(StreamOrdered, InboundWritesAreFlushedByTheHostWhereTheGpuDoesNotOrderThem) {
  build(machine_with("workstation"),
        {{cuda::attribute_gpu_direct_rdma_writes_ordering, 0},
         {cuda::attribute_gpu_direct_rdma_flush_writes_options, cuda::flush_option_host}});
  auto transfer = enqueue();
  ASSERT_TRUE(transfer.ok()) << to_string(transfer.error());
  EXPECT_EQ(transfer->visibility(), Visibility::flush_by_host);
  EXPECT_TRUE(transfer->wait(patience_ns)->ok());
  EXPECT_EQ(rig_->driver->flushes, 1);
  // The GPU's own copy engine needs none.
  auto staged = enqueue({.policy = Policy::staged_only});
  ASSERT_TRUE(staged.ok());
  EXPECT_EQ(staged->visibility(), Visibility::native);
  EXPECT_TRUE(staged->wait(patience_ns)->ok());
  EXPECT_EQ(rig_->driver->flushes, 1);
}

TEST_P(StreamOrdered, AFlushThatFailsIsNoSuccess) {
  build(machine_with("workstation"),
        {{cuda::attribute_gpu_direct_rdma_writes_ordering, 0},
         {cuda::attribute_gpu_direct_rdma_flush_writes_options, cuda::flush_option_host}});
  rig_->driver->flush_code = cuda::error_not_supported;
  auto transfer = enqueue();
  ASSERT_TRUE(transfer.ok());
  const auto outcome = transfer->wait(patience_ns);
  ASSERT_TRUE(outcome.has_value());
  ASSERT_FALSE(outcome->ok());
  EXPECT_EQ(outcome->error->cause, Cause::async_flush_unavailable);
  EXPECT_TRUE(rig_->ends(stream_));
}

TEST_P(StreamOrdered, WithoutAnyPromiseOfOrderTheyAreRefusedNotHopedFor) {
  build(machine_with("workstation"), {{cuda::attribute_gpu_direct_rdma_writes_ordering, 0},
                                      {cuda::attribute_gpu_direct_rdma_flush_writes_options, 0}});
  const auto refused = enqueue();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().cause, Cause::async_ordering_unproven);
  auto staged = enqueue({.policy = Policy::staged_only});
  ASSERT_TRUE(staged.ok());
  EXPECT_TRUE(staged->wait(patience_ns)->ok());
  EXPECT_TRUE(arrived());
}

TEST_P(StreamOrdered, NeedStreamMemoryOperations) {
  AsyncRig rig(machine_with("workstation"), {.deterministic = GetParam()},
               {{cuda::attribute_can_use_64_bit_stream_mem_ops, 0}});
  const auto refused = Streams::open(*rig.session);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().cause, Cause::async_stream_memory_ops_unavailable);
}

TEST_P(StreamOrdered, AStreamThatTakesHalfOfItsMarksIsNotHeldUp) {
  build(machine_with("workstation"));
  rig_->driver->wait_code = cuda::error_not_supported;
  const auto refused = enqueue();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().cause, Cause::async_stream_memory_ops_unavailable);
  rig_->driver->wait_code = cuda::success;
  auto transfer = enqueue();
  ASSERT_TRUE(transfer.ok());
  EXPECT_EQ(transfer->sequence(), 2u);
  EXPECT_TRUE(transfer->wait(patience_ns)->ok());
  EXPECT_TRUE(rig_->ends(stream_));
  EXPECT_TRUE(arrived());
}

TEST_P(StreamOrdered, ClosingLetsStreamsThatAreNotThereYetPassBy) {
  build(machine_with("workstation"));
  rig_->close_gate(stream_);
  auto transfer = enqueue();
  ASSERT_TRUE(transfer.ok());
  streams_.reset();
  const auto outcome = transfer->poll();
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->receipt.state, TransferState::cancelled);
  rig_->open_gate();
  EXPECT_TRUE(rig_->ends(stream_));
  EXPECT_FALSE(arrived());
}

TEST_P(StreamOrdered, GpuToFileAndBackThroughPinnedMemory) {
  build(machine_with("workstation"));
  auto host = rig_->session->allocate_host(length);
  ASSERT_TRUE(host.ok());
  auto in = streams_->enqueue(stream_, file_->place(), region_->place());
  auto out = streams_->enqueue(stream_, region_->place(), host->place());
  ASSERT_TRUE(in.ok() && out.ok());
  ASSERT_TRUE(out->wait(patience_ns)->ok());
  EXPECT_EQ(std::vector<std::byte>(host->host_address(), host->host_address() + length), bytes_);
}

INSTANTIATE_TEST_SUITE_P(Both, StreamOrdered, ::testing::Values(true, false),
                         [](const auto& instance) {
                           return std::string(instance.param ? "Deterministic" : "OnThreads");
                         });

}  // namespace
}  // namespace nobounce
