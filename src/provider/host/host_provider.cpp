// The host provider: pinned host memory <-> GPU memory, and copies inside one GPU.
#include "provider/host/host_provider.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "provider/host/copy_list.hpp"
#include "provider/host/pinned_memory.hpp"

namespace nobounce::provider {

namespace {

using host::CopyKind;
using host::CopyList;

constexpr std::uint64_t look_again_ns = 20'000;
constexpr std::uint64_t destructor_patience_ns = 5'000'000'000;

/// Looks at running copies when nobody polls, and tells waiters.
class CopyWatch final : public system::Worker {
 public:
  CopyWatch(system::Host& host, CopyList& copies) : host_(host), copies_(copies) {}
  [[nodiscard]] system::Step step() override {
    const std::uint64_t now_ns = host_.clock().now_ns();
    if (copies_.advance(now_ns)) host_.workers().notify();
    return copies_.idle() ? system::Step::idle() : system::Step::idle_until(now_ns + look_again_ns);
  }

 private:
  system::Host& host_;
  CopyList& copies_;
};

struct Pair {
  CopyKind kind = CopyKind::to_gpu;
  const GpuMemory* gpu = nullptr;    ///< the one, or the source inside a GPU
  const HostMemory* host = nullptr;  ///< null inside a GPU
};

std::optional<Pair> pair_of(const Segment& segment) {
  const auto* gpu_source = std::get_if<GpuMemory>(&segment.source);
  const auto* gpu_target = std::get_if<GpuMemory>(&segment.target);
  const auto* host_source = std::get_if<HostMemory>(&segment.source);
  const auto* host_target = std::get_if<HostMemory>(&segment.target);
  if (host_source != nullptr && gpu_target != nullptr) {
    return Pair{CopyKind::to_gpu, gpu_target, host_source};
  }
  if (gpu_source != nullptr && host_target != nullptr) {
    return Pair{CopyKind::to_host, gpu_source, host_target};
  }
  if (gpu_source != nullptr && gpu_target != nullptr && gpu_source->gpu == gpu_target->gpu) {
    return Pair{CopyKind::inside_gpu, gpu_source, nullptr};
  }
  return std::nullopt;
}

class HostProvider final : public core::Provider {
 public:
  HostProvider(system::Host& host, system::CudaContexts& contexts)
      : host_(host), contexts_(contexts), copies_(contexts), watch_(host, copies_) {}
  ~HostProvider() override {
    if (!closed_) (void)close(host_.clock().now_ns() + destructor_patience_ns);
  }

  [[nodiscard]] ProviderKind kind() const override { return ProviderKind::host; }
  [[nodiscard]] Assessment assess(const Segment& segment) override;
  [[nodiscard]] Status attach(const core::RegionView&) override { return {}; }
  void detach(const core::RegionView&) override {}
  void submit(std::span<const core::Operation> operations) override;
  [[nodiscard]] std::size_t poll(std::span<core::Completion> completions) override;
  void cancel(core::OperationId operation) override;
  bool close(std::uint64_t deadline_ns) override;

 private:
  [[nodiscard]] std::optional<Error> why_not(const Segment& segment);
  [[nodiscard]] Status start_watch();

  system::Host& host_;
  system::CudaContexts& contexts_;
  CopyList copies_;
  CopyWatch watch_;
  std::mutex watch_mutex_;  ///< of watch_id_
  std::optional<system::WorkerId> watch_id_;
  bool closed_ = false;
};

Assessment HostProvider::assess(const Segment& segment) {
  Assessment assessment;
  const std::optional<Pair> pair = pair_of(segment);
  if (!pair.has_value()) return assessment;
  const Result<system::cuda::CUcontext> context = contexts_.context(pair->gpu->gpu);
  if (!context.ok()) {
    assessment.findings.push_back(Finding{.cause = context.error().cause,
                                          .subject = "gpu:" + std::to_string(pair->gpu->gpu),
                                          .state = FindingState::unmet,
                                          .observed = context.error().detail,
                                          .needed = "a context of the GPU",
                                          .remedy = std::string(remedy_of(context.error())),
                                          .source = context.error().attempted});
    return assessment;
  }
  system::Cuda& cuda = contexts_.table();
  const system::ContextGuard guard(cuda, *context);
  if (pair->host != nullptr) {
    assessment.findings.push_back(host::judge_host_memory(cuda, *pair->host));
  }
  for (const Place* place : {&segment.source, &segment.target}) {
    if (const auto* gpu = std::get_if<GpuMemory>(place)) {
      assessment.findings.push_back(host::judge_gpu_memory(cuda, *gpu));
    }
  }
  assessment.usable = first_unmet(assessment.findings) == Cause::none;
  return assessment;
}

std::optional<Error> HostProvider::why_not(const Segment& segment) {
  Error error{.origin = ErrorOrigin::input, .attempted = "copy between host and GPU memory"};
  if (!pair_of(segment).has_value()) {
    error.detail = "the host provider moves between host memory and a GPU, or inside one GPU";
    return error;
  }
  if (length_bytes(segment.source) < segment.length_bytes ||
      length_bytes(segment.target) < segment.length_bytes) {
    error.cause = Cause::memory_too_small;
    error.detail = "a place is smaller than the segment";
    return error;
  }
  const Assessment assessment = assess(segment);
  if (assessment.usable) return std::nullopt;
  for (const Finding& finding : assessment.findings) {
    if (finding.state != FindingState::unmet) continue;
    error.cause = finding.cause;
    error.detail = finding.observed;
    error.remedy = finding.remedy;
    break;
  }
  return error;
}

Status HostProvider::start_watch() {
  const std::lock_guard lock(watch_mutex_);
  if (watch_id_.has_value()) {
    host_.workers().wake(*watch_id_);
    return {};
  }
  Result<system::WorkerId> id = host_.workers().start(watch_, "host-copies");
  if (!id.ok()) return std::move(id).error();
  watch_id_ = *id;
  return {};
}

void HostProvider::submit(std::span<const core::Operation> operations) {
  const Status watched = start_watch();
  for (const core::Operation& operation : operations) {
    if (!watched.ok()) {
      copies_.refuse(operation.id, watched.error());
    } else if (auto error = why_not(operation.segment)) {
      copies_.refuse(operation.id, std::move(*error));
    } else {
      const Pair pair = *pair_of(operation.segment);
      copies_.add(operation, pair.gpu->gpu, pair.kind, host_.clock().now_ns());
    }
  }
  if (watched.ok()) (void)start_watch();  // awake, so that it sees what was added
  host_.workers().notify();
}

std::size_t HostProvider::poll(std::span<core::Completion> completions) {
  (void)copies_.advance(host_.clock().now_ns());
  return copies_.take(completions);
}

void HostProvider::cancel(core::OperationId operation) {
  copies_.cancel(operation);
}

bool HostProvider::close(std::uint64_t deadline_ns) {
  if (closed_) return true;
  closed_ = true;
  copies_.cancel_all();
  const bool ended = host_.workers().wait(
      [this] {
        (void)copies_.advance(host_.clock().now_ns());
        return copies_.idle();
      },
      deadline_ns);
  const std::lock_guard lock(watch_mutex_);
  if (watch_id_.has_value()) host_.workers().stop(*watch_id_);
  watch_id_.reset();
  return copies_.release() && ended;
}

}  // namespace

std::unique_ptr<core::Provider> make_host_provider(system::Host& host,
                                                   system::CudaContexts& contexts) {
  return std::make_unique<HostProvider>(host, contexts);
}

}  // namespace nobounce::provider
