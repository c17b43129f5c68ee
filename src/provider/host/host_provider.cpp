// The host provider: pinned host memory <-> GPU memory, and copies inside one GPU.
#include "provider/host/host_provider.hpp"

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "provider/host/pinned_memory.hpp"
#include "system/copier.hpp"

namespace nobounce::provider {

namespace {

using system::CopyKind;

constexpr const char* attempted_copy = "copy between host and GPU memory";

/// What confirm says of memory that can be copied: every kind is `pinned`, which is 0.
constexpr std::uint64_t all_pinned = 0;
static_assert(static_cast<int>(host::MemoryKind::pinned) == 0);

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
      : contexts_(contexts), copier_(host, contexts, "host-copies") {}

  [[nodiscard]] ProviderKind kind() const override { return ProviderKind::host; }
  [[nodiscard]] Assessment assess(const Segment& segment) override;
  [[nodiscard]] std::optional<core::Confirmed> confirm(const Segment& segment) override;
  [[nodiscard]] Status attach(const core::RegionView&) override { return {}; }
  void detach(const core::RegionView&) override {}
  void submit(std::span<const core::Operation> operations) override;
  [[nodiscard]] std::size_t poll(std::uint64_t now_ns,
                                 std::span<core::Completion> completions) override;
  void cancel(core::OperationId operation) override;
  void rest(core::OperationId operation) override { copier_.rest(operation); }
  bool close(std::uint64_t deadline_ns) override;

 private:
  [[nodiscard]] std::optional<Error> why_not(const Segment& segment);

  system::CudaContexts& contexts_;
  system::Copier copier_;
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

std::optional<core::Confirmed> HostProvider::confirm(const Segment& segment) {
  const std::optional<Pair> pair = pair_of(segment);
  if (!pair.has_value()) return std::nullopt;
  const Result<system::cuda::CUcontext> context = contexts_.context(pair->gpu->gpu);
  if (!context.ok()) return std::nullopt;
  system::Cuda& cuda = contexts_.table();
  const system::ContextGuard guard(cuda, *context);
  if (guard.status() != system::cuda::success) return std::nullopt;
  std::uint64_t kinds = all_pinned;
  for (const Place* place : {&segment.source, &segment.target}) {
    host::MemoryKind kind = host::MemoryKind::pinned;
    if (const auto* memory = std::get_if<GpuMemory>(place)) kind = host::kind_of(cuda, *memory);
    if (const auto* memory = std::get_if<HostMemory>(place)) kind = host::kind_of(cuda, *memory);
    if (kind == host::MemoryKind::unknown) return std::nullopt;
    kinds = kinds << 8 | static_cast<std::uint64_t>(kind);
  }
  return core::Confirmed{.facts = kinds};
}

std::optional<Error> HostProvider::why_not(const Segment& segment) {
  Error error{.origin = ErrorOrigin::input, .attempted = attempted_copy};
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
    if (finding.cause == Cause::memory_kind_unknown) error.origin = ErrorOrigin::cuda;
    error.cause = finding.cause;
    error.detail = finding.observed;
    error.remedy = finding.remedy;
    break;
  }
  return error;
}

void HostProvider::submit(std::span<const core::Operation> operations) {
  bool told = true;  // whoever attends looks by himself
  for (const core::Operation& operation : operations) {
    const std::optional<core::Confirmed> kinds =
        operation.confirmed.has_value() ? operation.confirmed : confirm(operation.segment);
    const bool fits = length_bytes(operation.segment.source) >= operation.segment.length_bytes &&
                      length_bytes(operation.segment.target) >= operation.segment.length_bytes;
    if (!kinds.has_value() || kinds->facts != all_pinned || !fits) {
      if (auto error = why_not(operation.segment)) {
        copier_.refuse(operation.id, std::move(*error));
        told = false;
        continue;
      }
    }
    const Pair pair = *pair_of(operation.segment);
    copier_.copy(operation,
                 {.lane = {.gpu = pair.gpu->gpu, .kind = pair.kind},
                  .link = pair.kind == CopyKind::inside_gpu ? Link::none : Link::host_bridge,
                  .attempted = attempted_copy});
    told = told && operation.attended;
  }
  if (!told) copier_.submitted();
}

std::size_t HostProvider::poll(std::uint64_t now_ns, std::span<core::Completion> completions) {
  return copier_.poll(now_ns, completions);
}

void HostProvider::cancel(core::OperationId operation) {
  copier_.cancel(operation);
}

bool HostProvider::close(std::uint64_t deadline_ns) {
  return copier_.close(deadline_ns);
}

}  // namespace

std::unique_ptr<core::Provider> make_host_provider(system::Host& host,
                                                   system::CudaContexts& contexts) {
  return std::make_unique<HostProvider>(host, contexts);
}

}  // namespace nobounce::provider
