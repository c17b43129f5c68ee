// The storage provider: takes operations in, keeps workers running, hands completions out.
#include "provider/storage/storage_provider.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "provider/storage/request_worker.hpp"

namespace nobounce::provider {

namespace {

using storage::Job;

constexpr unsigned workers_most = 8;
constexpr std::uint64_t destructor_patience_ns = 5'000'000'000;

struct Pair {
  FileRange range;
  GpuMemory memory;
  bool writing = false;
};

std::optional<Pair> pair_of(const Segment& segment) {
  const auto* file_source = std::get_if<FileRange>(&segment.source);
  const auto* file_target = std::get_if<FileRange>(&segment.target);
  const auto* gpu_source = std::get_if<GpuMemory>(&segment.source);
  const auto* gpu_target = std::get_if<GpuMemory>(&segment.target);
  if (file_source != nullptr && gpu_target != nullptr) {
    return Pair{*file_source, *gpu_target, false};
  }
  if (gpu_source != nullptr && file_target != nullptr) {
    return Pair{*file_target, *gpu_source, true};
  }
  return std::nullopt;
}

Finding unmet(const Error& error, std::string subject, std::string needed) {
  std::string observed = error.detail.empty() ? error.attempted : error.detail;
  if (error.code != 0) observed += " (" + std::to_string(error.code) + ")";
  return Finding{.cause = error.cause,
                 .subject = std::move(subject),
                 .state = FindingState::unmet,
                 .observed = std::move(observed),
                 .needed = std::move(needed),
                 .remedy = std::string(remedy_of(error)),
                 .source = error.attempted};
}

class StorageProvider final : public core::Provider,
                              private storage::Evidence,
                              private storage::Bell {
 public:
  StorageProvider(system::Host& host, system::CudaContexts& contexts,
                  const system::OpenFiles& files, const CufileConfiguration& configuration)
      : host_(host),
        contexts_(contexts),
        files_(files),
        driver_(host, configuration.ours()),
        handles_(driver_),
        buffers_(driver_, contexts),
        queue_(*this),
        workers_limit_(std::clamp(host.workers().concurrency(), 1u, workers_most)) {
    workers_.reserve(workers_limit_);
  }
  ~StorageProvider() override {
    if (!closed_) (void)close(host_.clock().now_ns() + destructor_patience_ns);
  }

  [[nodiscard]] ProviderKind kind() const override { return ProviderKind::storage; }
  [[nodiscard]] Assessment assess(const Segment& segment) override;
  [[nodiscard]] std::optional<core::Confirmed> confirm(const Segment& segment) override;
  [[nodiscard]] Status attach(const core::RegionView& region) override;
  void detach(const core::RegionView& region) override;
  void forget_file(std::uint32_t file) override { handles_.forget(file); }
  void submit(std::span<const core::Operation> operations) override;
  [[nodiscard]] std::size_t poll(std::uint64_t now_ns,
                                 std::span<core::Completion> completions) override;
  void cancel(core::OperationId operation) override { ring(queue_.cancel(operation)); }
  bool close(std::uint64_t deadline_ns) override;

 private:
  [[nodiscard]] std::optional<storage::PathCounters> read_counters(bool writing) override {
    return driver_.read_counters(writing);
  }
  void ring(const storage::RequestQueue::Ready& ready) override;

  [[nodiscard]] std::optional<Error> why_not(const Segment& segment) const;
  void start_workers(std::uint64_t wanted);

  struct Running {
    std::unique_ptr<storage::RequestWorker> worker;
    system::WorkerId id = 0;
  };

  system::Host& host_;
  system::CudaContexts& contexts_;
  const system::OpenFiles& files_;
  storage::CufileDriver driver_;
  storage::FileHandles handles_;
  storage::Buffers buffers_;
  storage::RequestQueue queue_;
  const unsigned workers_limit_;
  std::mutex workers_mutex_;      ///< of the growth of workers_; held while one is started
  std::vector<Running> workers_;  ///< reserved: never moves
  std::atomic<std::size_t> started_{0};
  bool closed_ = false;
};

std::optional<Error> StorageProvider::why_not(const Segment& segment) const {
  Error error{.origin = ErrorOrigin::input, .attempted = "move bytes through cuFile"};
  const std::optional<Pair> pair = pair_of(segment);
  if (!pair.has_value()) {
    error.detail = "the storage provider moves between a file and GPU memory";
    return error;
  }
  if (pair->range.length_bytes < segment.length_bytes ||
      pair->memory.length_bytes < segment.length_bytes) {
    error.cause = Cause::memory_too_small;
    error.detail = "a place is smaller than the segment";
    return error;
  }
  const system::OpenFile* file = files_.find(pair->range.file);
  if (file == nullptr) {
    error.detail = "no open file has this number";
    return error;
  }
  if (file->access == (pair->writing ? system::FileAccess::read : system::FileAccess::write)) {
    error.detail =
        file->path + (pair->writing ? " is open for reading only" : " is open for writing only");
    return error;
  }
  if (!file->direct.valid()) {
    error.cause = Cause::storage_direct_io_refused;
    error.detail = file->path + " could not be opened with O_DIRECT";
    return error;
  }
  return std::nullopt;
}

Assessment StorageProvider::assess(const Segment& segment) {
  Assessment assessment;
  if (auto error = why_not(segment)) {
    assessment.findings.push_back(
        unmet(*error, "cuFile", "a file open with O_DIRECT and GPU memory"));
    return assessment;
  }
  const Pair pair = *pair_of(segment);
  const system::OpenFile& file = *files_.find(pair.range.file);
  assessment.usable = true;
  const auto rule_out = [&](Finding finding) {
    assessment.findings.push_back(std::move(finding));
    assessment.usable = false;
  };
  const std::optional<Status> opened = driver_.opened();
  if (opened.has_value() && !opened->ok()) {
    rule_out(unmet(opened->error(), "libcufile", "an open cuFile driver"));
  }
  const core::Fact ours = driver_.configuration_ours();
  if (!ours.value.value_or(true)) {
    rule_out(Finding{.cause = Cause::storage_cufile_config_not_ours,
                     .subject = "libcufile",
                     .state = FindingState::unmet,
                     .observed = ours.observed,
                     .needed = "our configuration in force, with every staging switch off",
                     .remedy = std::string(cause_row(Cause::storage_cufile_config_not_ours).remedy),
                     .source = ours.source});
  }
  if (driver_.module_vanished()) {
    rule_out(Finding{.cause = Cause::storage_module_vanished,
                     .subject = "nvidia_fs",
                     .state = FindingState::unmet,
                     .observed = "the module was loaded when cuFile was opened and is gone",
                     .needed = "kernel module nvidia_fs loaded",
                     .remedy = std::string(cause_row(Cause::storage_module_vanished).remedy),
                     .source = "/proc/driver/nvidia-fs"});
  }
  const std::optional<Status> registered = handles_.known(file.id);
  if (registered.has_value() && !registered->ok()) {
    rule_out(unmet(registered->error(), file.path, "a file that cuFile accepts"));
  }
  // An unregistered buffer does not rule it out: cuFile bounces the bytes inside the GPU, and the
  // receipt says so.
  if (const std::optional<Error> refusal = buffers_.refusal(pair.memory)) {
    assessment.findings.push_back(unmet(*refusal, "gpu:" + std::to_string(pair.memory.gpu),
                                        "GPU memory registered with cuFile"));
  }
  return assessment;
}

std::optional<core::Confirmed> StorageProvider::confirm(const Segment& segment) {
  const std::optional<Pair> pair = pair_of(segment);
  // A refusal is one buffer's own: only assess tells it.
  if (!pair.has_value() || buffers_.is_refused(pair->memory)) return std::nullopt;
  const std::uint64_t file = handles_.standing(pair->range.file);
  return core::Confirmed{.facts = std::uint64_t{driver_.standing()} << 8 | file};
}

Status StorageProvider::attach(const core::RegionView& region) {
  if (const auto* memory = std::get_if<GpuMemory>(&region.place))
    buffers_.attach(*memory, region.kind);
  return {};
}

void StorageProvider::detach(const core::RegionView& region) {
  if (const auto* memory = std::get_if<GpuMemory>(&region.place)) buffers_.detach(*memory);
}

void StorageProvider::submit(std::span<const core::Operation> operations) {
  std::uint64_t requests = 0;
  bool refused = false;
  for (const core::Operation& operation : operations) {
    if (auto error = why_not(operation.segment)) {
      queue_.refuse(operation.id, std::move(*error));
      refused = true;
      continue;
    }
    const Pair pair = *pair_of(operation.segment);
    auto job = std::make_shared<Job>();
    job->operation = operation;
    job->writing = pair.writing;
    job->range = pair.range;
    job->memory = pair.memory;
    job->buffer = buffers_.find(pair.memory);
    job->file = files_.find(pair.range.file);
    requests += (operation.segment.length_bytes + storage::request_bytes_most - 1) /
                storage::request_bytes_most;
    ring(queue_.add(std::move(job)));
  }
  if (requests > 0) start_workers(requests);
  if (refused) host_.workers().notify();
}

void StorageProvider::ring(const storage::RequestQueue::Ready& ready) {
  if (ready.completed) host_.workers().notify();
  if (ready.wake == 0) return;
  for (std::size_t i = 0; i < started_.load(std::memory_order_acquire); ++i) {
    if ((ready.wake >> i & 1) != 0) host_.workers().wake(workers_[i].id);
  }
}

void StorageProvider::start_workers(std::uint64_t wanted) {
  if (started_.load(std::memory_order_acquire) >= std::min<std::uint64_t>(wanted, workers_limit_)) {
    return;
  }
  const std::lock_guard lock(workers_mutex_);
  while (workers_.size() < std::min<std::uint64_t>(wanted, workers_limit_)) {
    const auto number = static_cast<unsigned>(workers_.size());
    const storage::WorkerShare share{host_, contexts_, driver_, handles_, queue_, *this};
    auto worker = std::make_unique<storage::RequestWorker>(share, number);
    Result<system::WorkerId> id =
        host_.workers().start(*worker, "storage-" + std::to_string(number));
    if (!id.ok()) {
      // Fewer workers are slower; none at all would never finish.
      if (workers_.empty()) ring(queue_.fail_all(id.error()));
      return;
    }
    workers_.push_back({std::move(worker), *id});
    started_.store(workers_.size(), std::memory_order_release);
    // It may have parked and been named for waking before its number was known here.
    host_.workers().wake(*id);
  }
}

std::size_t StorageProvider::poll(std::uint64_t now_ns, std::span<core::Completion> completions) {
  ring(queue_.expire(now_ns));
  return queue_.take(completions);
}

bool StorageProvider::close(std::uint64_t deadline_ns) {
  if (closed_) return true;
  closed_ = true;
  ring(queue_.cancel_all());
  const bool ended = host_.workers().wait([this] { return queue_.idle(); }, deadline_ns);
  const std::lock_guard lock(workers_mutex_);
  for (Running& running : workers_) host_.workers().stop(running.id);
  handles_.release();
  buffers_.release();
  driver_.close();
  return ended;
}

}  // namespace

std::unique_ptr<core::Provider> make_storage_provider(system::Host& host,
                                                      system::CudaContexts& contexts,
                                                      const system::OpenFiles& files,
                                                      const CufileConfiguration& configuration) {
  return std::make_unique<StorageProvider>(host, contexts, files, configuration);
}

}  // namespace nobounce::provider
