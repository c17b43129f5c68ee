// Kernels that read and write a drive by themselves: commands, doorbells and completions are
// theirs, and no CPU takes part.
#include <unistd.h>

#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <nobounce/doorbell.hpp>
#include "async_rig.hpp"
#include "fabric/soft_queue_platform.hpp"
#include "support/soft_session.hpp"

namespace nobounce::test {
namespace {

using device::Operation;
using device::Request;
using Producer = device::NvmeProducer<fabric::SoftQueuePlatform>;

constexpr std::uint32_t spare = 1;
constexpr std::uint64_t page = 4096;

fabric::SoftOptions seeded(std::uint64_t seed) {
  fabric::SoftOptions options;
  options.deterministic = true;
  options.seed = seed;
  return options;
}

struct Rig {
  explicit Rig(const fabric::SoftOptions& options = seeded(1),
               const std::vector<std::string>& settings = {})
      : soft(machine_with("spare-drive", settings), options), content(random_bytes(1u << 20, 3)) {
    medium = *soft.host().raw_medium(spare);
    if (::pwrite(medium.descriptor, content.data(), content.size(), 0) !=
        static_cast<ssize_t>(content.size()))
      throw std::runtime_error("the medium cannot be written");
    Result<OwnedDrive> taken = soft->take_drive(soft->machine().drives[spare].bdf, {.take = true});
    if (!taken.ok()) throw std::runtime_error(to_string(taken.error()));
    drive.emplace(std::move(*taken));
    Result<Region> made = soft->allocate(0, 1u << 20);
    if (!made.ok()) throw std::runtime_error(to_string(made.error()));
    region.emplace(std::move(*made));
    system::Cuda& table = **soft.host().cuda();
    (void)table.device_primary_ctx_retain(&context, 0);
    (void)table.ctx_push_current(context);
    (void)table.stream_create(&stream, 1);
  }
  [[nodiscard]] Result<DoorbellQueue> open(const DoorbellOptions& options = {}) {
    return DoorbellQueue::open(*soft, drive->place(0, 1u << 20), region->place(), options);
  }
  void run(fabric::Kernel kernel) {
    ASSERT_EQ(soft.host().launch(stream, std::move(kernel)), system::cuda::success);
    system::Cuda& table = **soft.host().cuda();
    ASSERT_EQ(table.stream_synchronize(stream), system::cuda::success);
  }
  [[nodiscard]] std::vector<std::byte> part(std::uint64_t offset, std::size_t length) const {
    const auto begin = content.begin() + static_cast<std::ptrdiff_t>(offset);
    return {begin, begin + static_cast<std::ptrdiff_t>(length)};
  }

  SoftSession soft;
  std::vector<std::byte> content;
  fabric::Medium medium;
  std::optional<OwnedDrive> drive;
  std::optional<Region> region;
  system::cuda::CUcontext context = nullptr;
  system::cuda::CUstream stream = nullptr;
};

/// A thread of a kernel that sends its requests one after the other. Every step is bounded.
class Thread {
 public:
  Thread(std::uint32_t token, std::vector<Request> requests)
      : token_(token), requests_(std::move(requests)) {}

  [[nodiscard]] bool done() const { return next_ == requests_.size(); }
  [[nodiscard]] const std::vector<std::uint16_t>& codes() const { return codes_; }

  void step(Producer& producer) {
    if (done()) return;
    Request request = requests_[next_];
    request.token = token_;
    request.sequence = next_ + 1;
    if (!claimed_) {
      if (!producer.is_sound(request)) {
        end(device::code_bad_range);
        return;
      }
      ticket_ = producer.claim();
      claimed_ = true;
    }
    if (!filled_) {
      producer.reap();
      if (!producer.is_free(ticket_)) return;
      producer.fill(ticket_, request);
      filled_ = true;
    }
    if (!published_) {
      published_ = producer.publish(ticket_);
      if (!published_) return;
    }
    producer.reap();
    std::uint16_t code = 0;
    if (producer.poll(token_, request.sequence, code) != device::Result::pending) end(code);
  }

 private:
  void end(std::uint16_t code) {
    codes_.push_back(code);
    claimed_ = filled_ = published_ = false;
    ++next_;
  }

  std::uint32_t token_;
  std::vector<Request> requests_;
  std::size_t next_ = 0;
  std::uint64_t ticket_ = 0;
  bool claimed_ = false;
  bool filled_ = false;
  bool published_ = false;
  std::vector<std::uint16_t> codes_;
};

using Threads = std::vector<Thread>;

/// One kernel whose threads take turns.
fabric::Kernel kernel_of(std::shared_ptr<Threads> threads, const device::NvmeQueueSet& set) {
  return [threads = std::move(threads), set](fabric::Lane& lane) {
    Producer producer(fabric::SoftQueuePlatform(lane), set.queue<fabric::SoftQueuePlatform>());
    bool all = true;
    for (Thread& thread : *threads) {
      thread.step(producer);
      all = all && thread.done();
    }
    return all ? system::Step::done() : system::Step::busy();
  };
}

Request request_of(Operation operation, std::uint64_t offset, std::uint64_t place,
                   std::uint32_t length) {
  Request request;
  request.operation = operation;
  request.offset_bytes = offset;
  request.place = place;
  request.length_bytes = length;
  return request;
}

/// More threads than slots, commands of one page, of a few blocks and of many pages, whatever the
/// order in which the drive answers and the kernel's stores get out.
TEST(Doorbell, ReadsDirectlyAndOnNobodysOrderButTheKernels) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    fabric::SoftOptions options = seeded(seed);
    options.faults.nvme_reorder = 0.7;
    options.faults.nvme_delay = 0.4;
    Rig rig(options);
    Result<DoorbellQueue> queue = rig.open({.tokens = 8, .entries = 4});
    ASSERT_TRUE(queue.ok()) << to_string(queue.error());
    auto threads = std::make_shared<Threads>();
    for (std::uint32_t token = 0; token < 8; ++token) {
      const std::uint64_t at = token * std::uint64_t{128u << 10};
      threads->emplace_back(
          token, std::vector<Request>{
                     request_of(Operation::read, at, at, page),
                     request_of(Operation::read, at + page, at + page, 512 * 3),
                     request_of(Operation::read, at + 8192, at + 8192, (128u << 10) - 8192)});
    }
    rig.soft.begin_account();
    const std::uint64_t dram = rig.soft.host().ledger().dram_bytes();
    rig.run(kernel_of(threads, queue->queue()));
    for (const Thread& thread : *threads) {
      EXPECT_EQ(thread.codes(), (std::vector<std::uint16_t>{0, 0, 0}));
    }
    const std::uint64_t each = page + 512 * 3 + (128u << 10) - 8192;
    EXPECT_EQ(rig.soft.arrived(rig.region->place())[Carriage::direct], 8 * each);
    EXPECT_EQ(rig.soft.arrived(rig.region->place()).total(), 8 * each);
    // Counts of the owner's, in host memory: words, no payload.
    EXPECT_LT(rig.soft.host().ledger().dram_bytes() - dram, 64u << 10);
    const std::vector<std::byte> landed = rig.soft.look_at(rig.region->place());
    for (std::uint64_t token = 0; token < 8; ++token) {
      const std::uint64_t at = token * (128u << 10);
      const auto begin = landed.begin() + static_cast<std::ptrdiff_t>(at);
      EXPECT_TRUE(std::vector<std::byte>(begin, begin + page + 1536) == rig.part(at, page + 1536))
          << seed;
      EXPECT_TRUE(std::vector<std::byte>(begin + 8192, begin + (128 << 10)) ==
                  rig.part(at + 8192, (128u << 10) - 8192))
          << seed;
    }
    const Outcome outcome = queue->close();
    ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
    EXPECT_EQ(outcome.receipt.issuer, Issuer::kernel);
    EXPECT_EQ(outcome.receipt.poster, Poster::gpu);
    EXPECT_EQ(outcome.receipt.member, Member::storage);
    EXPECT_EQ(outcome.receipt.link, Link::pcie_switch);
    EXPECT_EQ(outcome.receipt.bytes[Carriage::direct], 8 * each);
    EXPECT_EQ(outcome.receipt.bytes.total(), 8 * each);
  }
}

TEST(Doorbell, WritesWhatTheKernelWroteBefore) {
  Rig rig;
  Result<DoorbellQueue> queue = rig.open();
  ASSERT_TRUE(queue.ok()) << to_string(queue.error());
  const auto memory = std::get<GpuMemory>(rig.region->place());
  auto thread = std::make_shared<Thread>(
      0, std::vector<Request>{request_of(Operation::write, 65536, 0, 8192)});
  bool stored = false;
  const device::NvmeQueueSet set = queue->queue();
  rig.run([&, thread](fabric::Lane& lane) {
    if (!stored) {
      for (std::uint64_t i = 0; i < 8192; i += 8) {
        lane.store<std::uint64_t>(memory.address.plus(i), i * 77 + 1);
      }
      stored = true;
    }
    Producer producer(fabric::SoftQueuePlatform(lane), set.queue<fabric::SoftQueuePlatform>());
    thread->step(producer);
    return thread->done() ? system::Step::done() : system::Step::busy();
  });
  EXPECT_EQ(thread->codes(), std::vector<std::uint16_t>{0});
  std::vector<std::uint64_t> words(1024);
  ASSERT_EQ(::pread(rig.medium.descriptor, words.data(), 8192, 65536), 8192);
  for (std::uint64_t i = 0; i < 1024; ++i) EXPECT_EQ(words[i], i * 8 * 77 + 1);
  const Outcome reads = queue->close();
  ASSERT_TRUE(reads.ok());
  EXPECT_EQ(reads.receipt.bytes.total(), 0u) << "nothing was read";
  ASSERT_TRUE(queue->written().has_value());
  const Receipt& receipt = queue->written()->receipt;
  EXPECT_TRUE(queue->written()->ok());
  EXPECT_EQ(receipt.bytes[Carriage::direct], 8192u);
  EXPECT_EQ(receipt.source.kind, DeviceRef::Kind::gpu);
  EXPECT_EQ(receipt.target.kind, DeviceRef::Kind::drive);
}

/// One thread that sends a read and looks after nothing.
fabric::Kernel sender_of(const device::NvmeQueueSet& set) {
  return [set, sent = false](fabric::Lane& lane) mutable {
    Producer producer(fabric::SoftQueuePlatform(lane), set.queue<fabric::SoftQueuePlatform>());
    if (!sent) {
      Request request = request_of(Operation::read, 0, 0, page);
      request.sequence = 1;
      const std::uint64_t ticket = producer.claim();
      producer.fill(ticket, request);
      sent = producer.publish(ticket);
    }
    return sent ? system::Step::done() : system::Step::busy();
  };
}

TEST(Doorbell, CountsWhatWasUnderWayAtCloseAsAskedForAndNotArrived) {
  Rig rig;
  Result<DoorbellQueue> queue = rig.open();
  ASSERT_TRUE(queue.ok());
  rig.soft.host().faults().nvme_lost_completion = 1;
  rig.run(sender_of(queue->queue()));
  const Outcome outcome = queue->close();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error->cause, Cause::async_queue_stopped);
  EXPECT_EQ(outcome.receipt.requested_bytes, page);
  EXPECT_EQ(outcome.receipt.bytes.total(), 0u);
  EXPECT_EQ(outcome.receipt.state, TransferState::failed);
  EXPECT_FALSE(queue->written().has_value());
  EXPECT_EQ(queue->close().error->cause, Cause::async_queue_stopped) << "as before";
}

/// No kernel waits for a drive that is gone, although no command of the session's is under way.
TEST(Doorbell, TellsKernelsThatTheDriveFailed) {
  Rig rig;
  Result<DoorbellQueue> queue = rig.open();
  ASSERT_TRUE(queue.ok());
  rig.soft.host().faults().nvme_fatal = 1;
  const device::NvmeQueueSet set = queue->queue();
  rig.run(sender_of(set));
  bool failed = false;
  rig.run([&](fabric::Lane& lane) {
    Producer producer(fabric::SoftQueuePlatform(lane), set.queue<fabric::SoftQueuePlatform>());
    failed = producer.tickets().state() == device::State::failed;
    return failed ? system::Step::done() : system::Step::busy();
  });
  EXPECT_TRUE(failed);
  queue->stop();
  rig.soft.host().faults().nvme_fatal = 0;
  const Outcome outcome = queue->close();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error->cause, Cause::async_queue_failed);
  EXPECT_TRUE(rig.soft->transfer(rig.drive->place(0, page), rig.region->place(0, page)).ok());
  EXPECT_TRUE(rig.open().ok()) << "after the reset there are queues again";
}

/// Where the drive does not end the queue, it is reset before its memory is given back.
TEST(Doorbell, ResetsADriveThatDoesNotEndTheQueue) {
  bool unended = false;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rig rig(seeded(seed));
    Result<DoorbellQueue> queue = rig.open();
    ASSERT_TRUE(queue.ok());
    rig.soft.host().faults().nvme_fatal = 1;
    rig.run(sender_of(queue->queue()));
    const Outcome outcome = queue->close();
    rig.soft.host().faults().nvme_fatal = 0;
    ASSERT_FALSE(outcome.ok());
    // Else somebody had looked before, and the queue had ended with the reset.
    unended = unended || outcome.error->cause == Cause::nvme_controller_fatal;
    Result<DoorbellQueue> next = rig.open();
    ASSERT_TRUE(next.ok()) << to_string(next.error());
    auto threads = std::make_shared<Threads>();
    threads->emplace_back(0, std::vector<Request>{request_of(Operation::read, 0, 0, page)});
    rig.run(kernel_of(threads, next->queue()));
    EXPECT_EQ(threads->front().codes(), std::vector<std::uint16_t>{0});
    EXPECT_TRUE(next->close().ok());
  }
  EXPECT_TRUE(unended);
}

/// The library itself, not only `prove`, refuses what no GPU promises.
TEST(Doorbell, IsOpenedOnlyWhereTheGpuOrdersWhatTheDriveWrites) {
  struct Case {
    const char* name;
    std::map<int, int> attributes;
    int unknown;
    Cause cause;
  };
  for (const Case& one :
       {Case{"for all", {{cuda::attribute_gpu_direct_rdma_writes_ordering, 200}}, 0, Cause::none},
        Case{"for the owner",
             {{cuda::attribute_gpu_direct_rdma_writes_ordering, 100}},
             0,
             Cause::none},
        Case{"not at all, and flushed by the host",
             {{cuda::attribute_gpu_direct_rdma_writes_ordering, 0},
              {cuda::attribute_gpu_direct_rdma_flush_writes_options, 3}},
             0,
             Cause::async_ordering_unproven},
        Case{"nobody says",
             {},
             cuda::attribute_gpu_direct_rdma_writes_ordering,
             Cause::async_ordering_unproven},
        Case{"no words in host memory",
             {{cuda::attribute_unified_addressing, 0}},
             0,
             Cause::async_flush_unavailable}}) {
    AsyncRig rig(machine_with("spare-drive"), seeded(1), one.attributes);
    rig.driver->unknown_attribute = one.unknown;
    auto drive = rig.session->take_drive(rig.session->machine().drives[spare].bdf, {.take = true});
    auto region = rig.session->allocate(0, 1u << 20);
    ASSERT_TRUE(drive.ok() && region.ok()) << one.name;
    const auto queue =
        DoorbellQueue::open(*rig.session, drive->place(0, 1u << 20), region->place());
    ASSERT_EQ(queue.ok(), one.cause == Cause::none) << one.name;
    if (queue.ok()) continue;
    EXPECT_EQ(queue.error().cause, one.cause) << one.name;
    EXPECT_FALSE(queue.error().detail.empty()) << one.name;
    EXPECT_FALSE(remedy_of(queue.error()).empty()) << one.name;
  }
}

TEST(Doorbell, HoldsItsDriveAndItsRegion) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Rig rig;
        Result<DoorbellQueue> queue = rig.open();
        rig.drive.reset();
      },
      "an OwnedDrive was destroyed while a transfer or kernels used it");
  EXPECT_DEATH(
      {
        Rig rig;
        Result<DoorbellQueue> queue = rig.open();
        rig.region.reset();
      },
      "Region was destroyed while");
}

/// No start waits for ever for a device that never becomes ready, or fails meanwhile (as those of
/// NCCL and NIXL did).
TEST(Doorbell, StartsOrSaysWhyNot) {
  fabric::SoftOptions options = seeded(1);
  options.faults.nvme_never_ready = true;
  {
    SoftSession soft(machine_with("spare-drive"), options);
    const auto taken = soft->take_drive(soft->machine().drives[spare].bdf, {.take = true});
    ASSERT_FALSE(taken.ok());
    EXPECT_EQ(taken.error().cause, Cause::nvme_timeout);
  }
  Rig rig;
  rig.soft.host().faults().nvme_fatal = 1;
  EXPECT_FALSE(rig.open().ok());
  rig.soft.host().faults().nvme_never_ready = true;
  EXPECT_FALSE(rig.open().ok());
}

/// Less than what a probe reads proves nothing.
TEST(Doorbell, IsRefusedForLessThanAProbe) {
  Rig rig;
  const Result<DoorbellQueue> queue =
      DoorbellQueue::open(*rig.soft, rig.drive->place(0, 512), rig.region->place());
  ASSERT_FALSE(queue.ok());
  EXPECT_NE(queue.error().detail.find("4096"), std::string::npos);
}

/// A request that cannot be, and one that the drive refuses: each gets its own error, the others go
/// on, and the receipt counts what arrived.
TEST(Doorbell, TellsTheKernelItsErrors) {
  Rig rig;
  Result<DoorbellQueue> queue = rig.open({.tokens = 2, .entries = 4});
  ASSERT_TRUE(queue.ok());
  rig.soft.host().faults().read_error = 0.5;
  auto threads = std::make_shared<Threads>();
  std::vector<Request> reads{request_of(Operation::read, 1u << 20, 0, page),
                             request_of(Operation::read, 100, 0, page)};
  for (int i = 0; i < 20; ++i) reads.push_back(request_of(Operation::read, 0, 0, page));
  threads->emplace_back(0, reads);
  rig.run(kernel_of(threads, queue->queue()));
  const std::vector<std::uint16_t>& codes = threads->front().codes();
  ASSERT_EQ(codes.size(), 22u);
  EXPECT_EQ(codes[0], device::code_bad_range);
  EXPECT_EQ(codes[1], device::code_bad_range);
  std::uint64_t good = 0;
  for (std::size_t i = 2; i < codes.size(); ++i) {
    if (codes[i] == 0) {
      ++good;
    } else {
      EXPECT_EQ(codes[i], device::code_nvme | 0x281);
    }
  }
  const Outcome outcome = queue->close();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error->cause, Cause::nvme_command_failed);
  EXPECT_EQ(outcome.receipt.bytes[Carriage::direct], good * page);
}

/// Beside the driver's own queue: host-ordered transfers of the same drive go on meanwhile.
TEST(Doorbell, LeavesTheDriveToItsSessionToo) {
  Rig rig;
  Result<DoorbellQueue> queue = rig.open();
  ASSERT_TRUE(queue.ok());
  Result<Region> other = rig.soft->allocate(1, 1u << 20);
  ASSERT_TRUE(other.ok());
  Result<Transfer> transfer = rig.soft->start(rig.drive->place(0, 1u << 20), other->place());
  ASSERT_TRUE(transfer.ok());
  auto threads = std::make_shared<Threads>();
  threads->emplace_back(0, std::vector<Request>(50, request_of(Operation::read, 0, 0, page)));
  rig.run(kernel_of(threads, queue->queue()));
  EXPECT_TRUE(transfer->wait()->ok());
  EXPECT_TRUE(rig.soft.look_at(other->place()) == rig.content);
  EXPECT_TRUE(queue->close().ok());
}

TEST(Doorbell, IsRefusedWhereEitherCannotReachTheOther) {
  {
    Rig rig(seeded(1), {"/switches/0/acs=redirect"});
    const Result<DoorbellQueue> queue = rig.open();
    ASSERT_FALSE(queue.ok());
    EXPECT_EQ(queue.error().cause, Cause::machine_acs_redirect);
  }
  {
    Rig rig(seeded(1), {"/gpus/0/bar1_bytes=65536"});
    const Result<DoorbellQueue> queue = rig.open();
    ASSERT_FALSE(queue.ok());
    EXPECT_EQ(queue.error().cause, Cause::nvme_peer_unmapped);
  }
  Rig rig;
  EXPECT_FALSE(DoorbellQueue::open(*rig.soft, rig.region->place(), rig.region->place()).ok());
  EXPECT_FALSE(rig.open({.tokens = 0}).ok());
  EXPECT_FALSE(rig.open({.entries = 3}).ok());
}

/// Opened, closed and opened again until ids would run out, with and without close.
TEST(Doorbell, GivesEverythingBack) {
  Rig rig;
  const std::uint64_t before = rig.soft.host().bus().bar1_used_bytes(0);
  std::uint64_t after_first = 0;
  for (int i = 0; i < 20; ++i) {
    Result<DoorbellQueue> queue = rig.open();
    ASSERT_TRUE(queue.ok()) << to_string(queue.error());
    if (i % 2 == 0) {
      EXPECT_TRUE(queue->close().ok());
    }
    if (i == 0) after_first = rig.soft.host().bus().bar1_used_bytes(0);
  }
  EXPECT_GE(after_first, before);  // the region itself stays mapped
  EXPECT_EQ(rig.soft.host().bus().bar1_used_bytes(0), after_first);
}

}  // namespace
}  // namespace nobounce::test
