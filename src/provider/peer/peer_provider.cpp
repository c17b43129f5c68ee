// The peer provider: copies between two GPUs, and mappings of one's memory for the other.
#include "provider/peer/peer_provider.hpp"

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "provider/peer/peer_access.hpp"
#include "provider/peer/peer_memory.hpp"
#include "system/copier.hpp"

namespace nobounce::provider {

namespace {

constexpr const char* attempted_copy = "copy between two GPUs";

struct Pair {
  const GpuMemory* source = nullptr;
  const GpuMemory* target = nullptr;
};

std::optional<Pair> pair_of(const Segment& segment) {
  const Pair pair{std::get_if<GpuMemory>(&segment.source), std::get_if<GpuMemory>(&segment.target)};
  if (pair.source == nullptr || pair.target == nullptr) return std::nullopt;
  if (pair.source->gpu == pair.target->gpu) return std::nullopt;
  return pair;
}

DeviceRef gpu_ref(std::uint32_t gpu) {
  return {DeviceRef::Kind::gpu, static_cast<std::uint16_t>(gpu)};
}

class CopyingPeerProvider final : public PeerProvider {
 public:
  CopyingPeerProvider(system::Host& host, system::CudaContexts& contexts, const Machine& machine)
      : machine_(machine),
        access_(contexts),
        memory_(contexts),
        copier_(host, contexts, "peer-copies") {}

  [[nodiscard]] ProviderKind kind() const override { return ProviderKind::peer; }
  [[nodiscard]] Assessment assess(const Segment& segment) override;
  [[nodiscard]] Status attach(const core::RegionView& region) override {
    memory_.remember(region);
    return {};
  }
  void detach(const core::RegionView& region) override { memory_.forget(region); }
  void submit(std::span<const core::Operation> operations) override;
  [[nodiscard]] std::size_t poll(std::span<core::Completion> completions) override {
    return copier_.poll(completions);
  }
  void cancel(core::OperationId operation) override { copier_.cancel(operation); }
  bool close(std::uint64_t deadline_ns) override { return copier_.close(deadline_ns); }

  [[nodiscard]] Status open(const GpuMemory& source, const GpuMemory& target) override;
  [[nodiscard]] Result<DevicePointer> map_for(const core::RegionView& region,
                                              std::uint32_t gpu) override;

 private:
  [[nodiscard]] std::optional<Error> why_not(const Segment& segment);
  [[nodiscard]] bool on_machine(std::uint32_t gpu) const { return gpu < machine_.gpus.size(); }

  const Machine& machine_;
  peer::PeerAccess access_;
  peer::PeerMemory memory_;
  system::Copier copier_;
};

Assessment CopyingPeerProvider::assess(const Segment& segment) {
  Assessment assessment;
  const std::optional<Pair> pair = pair_of(segment);
  if (!pair.has_value() || !on_machine(pair->source->gpu) || !on_machine(pair->target->gpu)) {
    return assessment;
  }
  assessment.findings.push_back(access_.finding(pair->source->gpu, pair->target->gpu));
  assessment.findings.push_back(memory_.finding(*pair->source, pair->target->gpu));
  assessment.findings.push_back(memory_.finding(*pair->target, pair->source->gpu));
  if (memory_.imported(*pair->source) && memory_.imported(*pair->target)) {
    for (Finding& finding : assessment.findings) {
      if (finding.cause != Cause::memory_kind_ipc_import) continue;
      finding.state = FindingState::unmet;
      const Error why = peer::PeerMemory::two_imports(*pair->source, *pair->target);
      finding.observed = why.detail;
      finding.remedy = why.remedy;
    }
  }
  assessment.usable = true;
  for (const Finding& finding : assessment.findings) {
    if (finding.state == FindingState::unmet) assessment.usable = false;
  }
  return assessment;
}

Status CopyingPeerProvider::open(const GpuMemory& source, const GpuMemory& target) {
  if (Status enabled = access_.enable_both(source.gpu, target.gpu); !enabled.ok()) return enabled;
  const bool source_imported = memory_.imported(source);
  const bool target_imported = memory_.imported(target);
  if (source_imported && target_imported) return peer::PeerMemory::two_imports(source, target);
  if (!source_imported) {
    if (Status granted = memory_.grant(source, target.gpu); !granted.ok()) return granted;
  }
  return target_imported ? Status{} : memory_.grant(target, source.gpu);
}

std::optional<Error> CopyingPeerProvider::why_not(const Segment& segment) {
  Error error{.origin = ErrorOrigin::input, .attempted = attempted_copy};
  const std::optional<Pair> pair = pair_of(segment);
  if (!pair.has_value() || !on_machine(pair->source->gpu) || !on_machine(pair->target->gpu)) {
    error.detail = "the peer provider moves between the memory of two GPUs of the machine";
    return error;
  }
  if (pair->source->length_bytes < segment.length_bytes ||
      pair->target->length_bytes < segment.length_bytes) {
    error.cause = Cause::memory_too_small;
    error.detail = "a place is smaller than the segment";
    return error;
  }
  if (const Status opened = open(*pair->source, *pair->target); !opened.ok()) {
    return opened.error();
  }
  return std::nullopt;
}

void CopyingPeerProvider::submit(std::span<const core::Operation> operations) {
  for (const core::Operation& operation : operations) {
    if (auto error = why_not(operation.segment)) {
      copier_.refuse(operation.id, std::move(*error));
      continue;
    }
    const Pair pair = *pair_of(operation.segment);
    const std::uint32_t source = pair.source->gpu;
    const std::uint32_t target = pair.target->gpu;
    copier_.copy(operation,
                 {.lane = {.gpu = source, .kind = system::CopyKind::to_peer, .peer = target},
                  .link = path_between(machine_, gpu_ref(source), gpu_ref(target)).link,
                  .attempted = attempted_copy});
  }
  copier_.submitted();
}

Result<DevicePointer> CopyingPeerProvider::map_for(const core::RegionView& region,
                                                   std::uint32_t gpu) {
  const auto* memory = std::get_if<GpuMemory>(&region.place);
  if (memory == nullptr || !on_machine(memory->gpu) || !on_machine(gpu)) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "map memory for gpu:" + std::to_string(gpu),
                 .detail = "only memory of a GPU of the machine is mapped for another one"};
  }
  if (memory->gpu == gpu) return memory->address;
  if (Status enabled = access_.enable(gpu, memory->gpu); !enabled.ok()) return enabled.error();
  if (Status granted = memory_.grant(*memory, gpu); !granted.ok()) return granted.error();
  return memory->address;  // one address space for all GPUs
}

}  // namespace

std::unique_ptr<PeerProvider> make_peer_provider(system::Host& host, system::CudaContexts& contexts,
                                                 const Machine& machine) {
  return std::make_unique<CopyingPeerProvider>(host, contexts, machine);
}

}  // namespace nobounce::provider
