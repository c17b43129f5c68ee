// The staged provider: takes operations in, keeps readers running, hands completions out.
#include "provider/staged/staged_provider.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory_resource>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "provider/staged/job_queue.hpp"
#include "provider/staged/reader.hpp"

namespace nobounce::provider {

namespace {

using staged::Job;
using staged::Reader;

constexpr std::uint32_t readers_most = 16;  // the queue knows 64
constexpr std::uint32_t slots_per_reader_most = 4;
constexpr std::uint64_t destructor_patience_ns = 5'000'000'000;

struct Shape {
  std::uint64_t slot_bytes = 0;
  std::uint32_t readers = 0;
  std::uint32_t slots_per_reader = 0;  ///< 0: not one slot fits
};

Shape shape_of(const StagedOptions& options, unsigned concurrency) {
  Shape shape;
  shape.slot_bytes =
      std::max(options.slot_bytes - options.slot_bytes % staged::page_bytes, staged::page_bytes);
  const std::uint64_t slots = options.pinned_bytes_max / shape.slot_bytes;
  if (slots == 0) return shape;
  const std::uint64_t wanted =
      options.readers > 0 ? options.readers : std::min<std::uint64_t>(concurrency, readers_most);
  // Two slots each, so that a reader fills one while the other drains.
  shape.readers = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      wanted, 1, std::min<std::uint64_t>(std::max<std::uint64_t>(slots / 2, 1), 64)));
  const std::uint64_t most = options.rotate_slots ? slots : slots_per_reader_most;
  shape.slots_per_reader =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(slots / shape.readers, 1, most));
  return shape;
}

class StagedProvider final : public core::Provider {
 public:
  StagedProvider(system::Host& host, system::CudaContexts* contexts, const system::OpenFiles& files,
                 const StagedOptions& options)
      : host_(host),
        contexts_(contexts),
        files_(files),
        options_(options),
        shape_(shape_of(options, host.workers().concurrency())),
        queue_(shape_.slot_bytes),
        budget_(options.pinned_bytes_max) {
    readers_.reserve(shape_.readers);
  }
  ~StagedProvider() override {
    if (!closed_) (void)close(host_.clock().now_ns() + destructor_patience_ns);
  }

  [[nodiscard]] ProviderKind kind() const override { return ProviderKind::staged; }
  [[nodiscard]] Assessment assess(const Segment& segment) override;
  /// Nothing that it looks at changes while a file is open and a session lives.
  [[nodiscard]] std::optional<core::Confirmed> confirm(const Segment&) override {
    return core::Confirmed{};
  }
  [[nodiscard]] Status attach(const core::RegionView&) override { return {}; }
  void detach(const core::RegionView&) override {}
  void submit(std::span<const core::Operation> operations) override;
  [[nodiscard]] std::size_t poll(std::uint64_t now_ns,
                                 std::span<core::Completion> completions) override;
  void cancel(core::OperationId operation) override;
  bool close(std::uint64_t deadline_ns) override;

 private:
  [[nodiscard]] std::optional<Error> why_not(const Segment& segment) const;
  [[nodiscard]] std::optional<Error> why_not_place(const Place& place, std::uint64_t length_bytes,
                                                   bool written) const;
  void wake(std::uint64_t mask);
  void start_readers(std::uint64_t wanted);

  struct Running {
    std::unique_ptr<Reader> reader;
    system::WorkerId id = 0;
  };

  system::Host& host_;
  system::CudaContexts* contexts_;
  const system::OpenFiles& files_;
  const StagedOptions options_;
  const Shape shape_;
  std::pmr::synchronized_pool_resource job_memory_;  ///< ended jobs leave their memory to new ones
  staged::JobQueue queue_;
  staged::BounceBudget budget_;
  std::mutex readers_mutex_;      ///< of the growth of readers_; held while one is started
  std::vector<Running> readers_;  ///< reserved: never moves
  std::atomic<std::size_t> started_{0};
  bool closed_ = false;
};

std::optional<Error> StagedProvider::why_not_place(const Place& place, std::uint64_t length,
                                                   bool written) const {
  const auto refuse = [](Cause cause, std::string detail) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "move bytes through host memory",
                 .cause = cause,
                 .detail = std::move(detail)};
  };
  if (length_bytes(place) < length) {
    return refuse(Cause::memory_too_small, "the place is smaller than the segment");
  }
  if (const auto* range = std::get_if<FileRange>(&place)) {
    const system::OpenFile* file = files_.find(range->file);
    if (file == nullptr) return refuse(Cause::none, "no open file has this number");
    const system::FileAccess forbidden =
        written ? system::FileAccess::read : system::FileAccess::write;
    if (file->access == forbidden) {
      return refuse(Cause::none, file->path + (written ? " is open for reading only"
                                                       : " is open for writing only"));
    }
    return std::nullopt;
  }
  if (const auto* gpu = std::get_if<GpuMemory>(&place)) {
    if (contexts_ == nullptr) return refuse(Cause::machine_no_gpu, "CUDA is not available here");
    const Result<system::cuda::CUdevice> device = contexts_->device(gpu->gpu);
    if (!device.ok()) return device.error();
    return std::nullopt;
  }
  if (std::holds_alternative<HostMemory>(place)) return std::nullopt;
  return refuse(Cause::none, "only files, host memory and GPU memory can be staged here");
}

std::optional<Error> StagedProvider::why_not(const Segment& segment) const {
  if (auto error = why_not_place(segment.source, segment.length_bytes, false)) return error;
  if (auto error = why_not_place(segment.target, segment.length_bytes, true)) return error;
  if (shape_.slots_per_reader == 0 && segment.length_bytes > 0) {
    return Error{.origin = ErrorOrigin::session,
                 .attempted = "allocate bounce memory",
                 .cause = Cause::session_pinned_limit,
                 .detail = "one slot has " + std::to_string(shape_.slot_bytes) +
                           " bytes, the limit is " + std::to_string(options_.pinned_bytes_max)};
  }
  return std::nullopt;
}

Assessment StagedProvider::assess(const Segment& segment) {
  const std::optional<Error> error = why_not(segment);
  Assessment assessment;
  assessment.usable = !error.has_value();
  if (error.has_value()) {
    assessment.findings.push_back(
        Finding{.cause = error->cause,
                .subject = "staging",
                .state = FindingState::unmet,
                .observed = error->detail,
                .needed = "open files, host memory or GPU memory, and room for one slot",
                .remedy = std::string(remedy_of(*error)),
                .source = "the session"});
  }
  return assessment;
}

void StagedProvider::submit(std::span<const core::Operation> operations) {
  std::uint64_t mask = 0;
  std::uint64_t pieces = 0;
  bool ready = false;
  for (const core::Operation& operation : operations) {
    if (auto error = why_not(operation.segment)) {
      queue_.refuse(operation.id, std::move(*error));
      ready = true;
      continue;
    }
    auto job = std::allocate_shared<Job>(std::pmr::polymorphic_allocator<Job>(&job_memory_));
    job->operation = operation;
    if (const auto* file = std::get_if<FileRange>(&operation.segment.source)) {
      job->source_file = files_.find(file->file);
    }
    if (const auto* file = std::get_if<FileRange>(&operation.segment.target)) {
      job->target_file = files_.find(file->file);
    }
    const std::uint64_t cut = staged::piece_count(*job, shape_.slot_bytes);
    pieces += cut;
    ready = ready || cut == 0;
    mask |= queue_.add(std::move(job));
  }
  if (pieces > 0) {
    wake(mask);
    std::uint64_t awake = 0;
    for (std::uint64_t rest = mask; rest != 0; rest &= rest - 1) ++awake;
    if (pieces > awake) start_readers(pieces - awake);
  }
  if (ready) host_.workers().notify();
}

void StagedProvider::wake(std::uint64_t mask) {
  for (std::size_t i = 0; i < started_.load(std::memory_order_acquire); ++i) {
    if ((mask >> i & 1) != 0) host_.workers().wake(readers_[i].id);
  }
}

void StagedProvider::start_readers(std::uint64_t wanted) {
  if (started_.load(std::memory_order_acquire) == shape_.readers) return;
  const std::lock_guard lock(readers_mutex_);
  while (wanted > 0 && readers_.size() < shape_.readers) {
    const auto number = static_cast<unsigned>(readers_.size());
    const staged::ReaderShare share{host_,
                                    contexts_,
                                    queue_,
                                    budget_,
                                    shape_.slot_bytes,
                                    shape_.slots_per_reader,
                                    options_.rotate_slots};
    auto reader = std::make_unique<Reader>(share, number);
    Result<system::WorkerId> id =
        host_.workers().start(*reader, "staged-" + std::to_string(number));
    if (!id.ok()) {
      // Fewer readers are slower; none at all would never finish.
      if (readers_.empty() && queue_.fail_all(id.error())) host_.workers().notify();
      return;
    }
    readers_.push_back({std::move(reader), *id});
    started_.store(readers_.size(), std::memory_order_release);
    // It may have parked and been named for waking before its number was known here.
    host_.workers().wake(*id);
    --wanted;
  }
}

std::size_t StagedProvider::poll(std::uint64_t now_ns, std::span<core::Completion> completions) {
  (void)queue_.expire(now_ns);
  return queue_.take(completions);
}

void StagedProvider::cancel(core::OperationId operation) {
  if (queue_.cancel(operation)) host_.workers().notify();
}

bool StagedProvider::close(std::uint64_t deadline_ns) {
  if (closed_) return true;
  closed_ = true;
  if (queue_.cancel_all()) host_.workers().notify();
  const bool ended = host_.workers().wait([this] { return queue_.idle(); }, deadline_ns);
  const std::lock_guard lock(readers_mutex_);
  bool released = true;
  for (Running& running : readers_) {
    host_.workers().stop(running.id);
    released = running.reader->release() && released;
  }
  return ended && released;
}

}  // namespace

std::unique_ptr<core::Provider> make_staged_provider(system::Host& host,
                                                     system::CudaContexts* contexts,
                                                     const system::OpenFiles& files,
                                                     const StagedOptions& options) {
  return std::make_unique<StagedProvider>(host, contexts, files, options);
}

}  // namespace nobounce::provider
