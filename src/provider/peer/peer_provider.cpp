// The peer provider: copies between two GPUs, and mappings of one's memory for the other.
#include "provider/peer/peer_provider.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/device_refs.hpp"
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

using core::gpu_ref;

/// Kinds of a source and a target as one number.
constexpr std::uint64_t both_kinds(AllocationKind source, AllocationKind target) {
  return static_cast<std::uint64_t>(source) << 8 | static_cast<std::uint64_t>(target);
}
constexpr std::uint64_t both_plain = both_kinds(AllocationKind::device, AllocationKind::device);
constexpr std::uint64_t import_to_plain =
    both_kinds(AllocationKind::ipc_import, AllocationKind::device);

class CopyingPeerProvider final : public PeerProvider {
 public:
  CopyingPeerProvider(system::Host& host, system::CudaContexts& contexts, const Machine& machine)
      : contexts_(contexts),
        machine_(machine),
        access_(contexts),
        memory_(contexts),
        copier_(host, contexts, "peer-copies"),
        links_(machine.gpus.size() * machine.gpus.size()) {
    for (std::atomic<std::uint8_t>& link : links_) link = link_unknown;
  }

  [[nodiscard]] ProviderKind kind() const override { return ProviderKind::peer; }
  [[nodiscard]] Assessment assess(const Segment& segment) override;
  [[nodiscard]] std::optional<core::Confirmed> confirm(const Segment& segment) override;
  [[nodiscard]] std::uint64_t lessons() const override {
    return access_.lessons() + memory_.lessons();
  }
  [[nodiscard]] Status attach(const core::RegionView& region) override {
    memory_.remember(region);
    return {};
  }
  void detach(const core::RegionView& region) override { memory_.forget(region); }
  void submit(std::span<const core::Operation> operations) override;
  [[nodiscard]] std::size_t poll(std::uint64_t now_ns,
                                 std::span<core::Completion> completions) override {
    const std::size_t count = copier_.poll(now_ns, completions);
    for (core::Completion& completion : completions.first(count)) disclaim_doubted(completion);
    return count;
  }
  void cancel(core::OperationId operation) override { copier_.cancel(operation); }
  void rest(core::OperationId operation) override { copier_.rest(operation); }
  bool close(std::uint64_t deadline_ns) override { return copier_.close(deadline_ns); }

  [[nodiscard]] Status open(const GpuMemory& source, const GpuMemory& target) override;
  [[nodiscard]] Result<DevicePointer> map_for(const core::RegionView& region,
                                              std::uint32_t gpu) override;

 private:
  [[nodiscard]] std::optional<Error> why_not(const Segment& segment);
  void start(const core::Operation& operation, const std::optional<core::Confirmed>& kinds);
  /// Asked when a copy was started: whether it rests on access that is still there. What was
  /// confirmed before is no evidence where somebody took the access away in between. `asked_here`:
  /// what was confirmed in the context that is current.
  [[nodiscard]] bool rests_on_access(const Pair& pair, const core::Confirmed* asked_here);
  /// Nobody saw how the bytes of a doubted copy travelled: they are not called direct.
  void disclaim_doubted(core::Completion& completion);
  [[nodiscard]] bool on_machine(std::uint32_t gpu) const { return gpu < machine_.gpus.size(); }
  /// Does not change while a session lives; found out once.
  [[nodiscard]] Link link_between(std::uint32_t source, std::uint32_t target);

  system::CudaContexts& contexts_;
  const Machine& machine_;
  peer::PeerAccess access_;
  peer::PeerMemory memory_;
  system::Copier copier_;
  std::mutex doubted_mutex_;
  std::atomic<std::size_t> doubted_count_{0};
  std::vector<core::OperationId> doubted_;  ///< started when no access was seen
  static constexpr std::uint8_t link_unknown = 0xff;
  std::vector<std::atomic<std::uint8_t>> links_;  ///< by source and target; link_unknown: not yet
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
  if (!target_imported) {
    if (Status granted = memory_.grant(target, source.gpu); !granted.ok()) return granted;
  }
  memory_.note(source, target.gpu);
  memory_.note(target, source.gpu);
  return {};
}

std::optional<core::Confirmed> CopyingPeerProvider::confirm(const Segment& segment) {
  const std::optional<Pair> pair = pair_of(segment);
  if (!pair.has_value()) return std::nullopt;
  const GpuMemory& source = *pair->source;
  const GpuMemory& target = *pair->target;
  const std::optional<peer::PeerAccess::Contexts> contexts =
      access_.enabled(source.gpu, target.gpu);
  if (!contexts.has_value()) return std::nullopt;
  std::uint64_t both = 0;
  {
    const system::ContextGuard guard(contexts_.table(), contexts->source);
    if (guard.status() != system::cuda::success) return std::nullopt;
    const std::optional<peer::PeerMemory::Kinds> kinds = memory_.confirm(source, target);
    if (!kinds.has_value()) return std::nullopt;
    both = both_kinds(kinds->source, kinds->target);
    // Between plain memory the copy is the source's own work: that it reaches the target is enough
    // for the bytes to go directly (measured, and what the software machine does). Where it does
    // not, whoever plans anew gets access back or says why not.
    if (both == both_plain) {
      if (!kinds->target_reached_here) return std::nullopt;
      return core::Confirmed{.facts = both, .context = contexts->source};
    }
    // So it is from an import that this context has (measured): another one's is not seen from
    // here.
    if (both == import_to_plain && memory_.reached_here(source)) {
      if (!kinds->target_reached_here) return std::nullopt;
      return core::Confirmed{.facts = both, .context = contexts->source};
    }
    if (!access_.enable_again(contexts->target)) return std::nullopt;
  }
  // Of an import only the other way may be one that reaches it.
  const system::ContextGuard guard(contexts_.table(), contexts->target);
  if (guard.status() != system::cuda::success || !access_.enable_again(contexts->source)) {
    return std::nullopt;
  }
  return core::Confirmed{.facts = both};
}

Link CopyingPeerProvider::link_between(std::uint32_t source, std::uint32_t target) {
  std::atomic<std::uint8_t>& known = links_[source * machine_.gpus.size() + target];
  if (const std::uint8_t link = known.load(std::memory_order_relaxed); link != link_unknown)
    return static_cast<Link>(link);
  const Link link = path_between(machine_, gpu_ref(source), gpu_ref(target)).link;
  known.store(static_cast<std::uint8_t>(link), std::memory_order_relaxed);
  return link;
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

bool CopyingPeerProvider::rests_on_access(const Pair& pair, const core::Confirmed* asked_here) {
  if (asked_here != nullptr && memory_.reached_here(*pair.target) &&
      (asked_here->facts == both_plain || memory_.reached_here(*pair.source))) {
    return true;
  }
  // Either GPU may be the one that does the work.
  return memory_.seen_to_reach(pair.source->gpu, *pair.target) ||
         memory_.seen_to_reach(pair.target->gpu, *pair.source);
}

void CopyingPeerProvider::disclaim_doubted(core::Completion& completion) {
  if (doubted_count_ == 0) return;
  const std::lock_guard lock(doubted_mutex_);
  const auto found = std::find(doubted_.begin(), doubted_.end(), completion.id);
  if (found == doubted_.end()) return;
  doubted_.erase(found);
  doubted_count_ = doubted_.size();
  std::uint64_t& direct = completion.bytes[Carriage::direct];
  completion.bytes[Carriage::unattributed] += direct;
  direct = 0;
  if (completion.cause == Cause::none) completion.cause = Cause::p2p_peer_access_not_enabled;
}

void CopyingPeerProvider::submit(std::span<const core::Operation> operations) {
  bool told = true;  // whoever attends looks by himself
  for (const core::Operation& operation : operations) {
    // A piece of a long transfer may start long after the transfer did.
    const std::optional<core::Confirmed> kinds =
        operation.confirmed.has_value() ? operation.confirmed : confirm(operation.segment);
    const bool fits = length_bytes(operation.segment.source) >= operation.segment.length_bytes &&
                      length_bytes(operation.segment.target) >= operation.segment.length_bytes;
    if (!kinds.has_value() || !fits) {
      if (auto error = why_not(operation.segment)) {
        copier_.refuse(operation.id, std::move(*error));
        told = false;
        continue;
      }
    }
    start(operation, kinds);
    told = told && operation.attended;
  }
  if (!told) copier_.submitted();
}

void CopyingPeerProvider::start(const core::Operation& operation,
                                const std::optional<core::Confirmed>& kinds) {
  const Pair pair = *pair_of(operation.segment);
  const std::uint32_t source = pair.source->gpu;
  const std::uint32_t target = pair.target->gpu;
  // One for the copy and for the question after it: to make a context current is what they cost.
  std::optional<system::ContextGuard> guard;
  const core::Confirmed* asked_here = nullptr;
  if (kinds.has_value() && kinds->context != nullptr) {
    guard.emplace(contexts_.table(), kinds->context);
    if (guard->status() == system::cuda::success) asked_here = &*kinds;
  }
  copier_.copy(operation,
               {.lane = {.gpu = source, .kind = system::CopyKind::to_peer, .peer = target},
                .link = link_between(source, target),
                .by_address = kinds.has_value() && kinds->facts == both_plain,
                .current = asked_here == nullptr ? nullptr : asked_here->context,
                .attempted = attempted_copy});
  if (!rests_on_access(pair, asked_here)) {
    const std::lock_guard lock(doubted_mutex_);
    doubted_.push_back(operation.id);
    doubted_count_ = doubted_.size();
  }
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
