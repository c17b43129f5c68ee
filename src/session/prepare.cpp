// Gets transfers ready to start.
#include "session/prepare.hpp"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "session/pairs.hpp"
#include "session/probe.hpp"
#include "session/transfer_state.hpp"

namespace nobounce::session {

namespace {

/// The region of GPU memory that the transfer uses, made known to the drive's IOMMU.
Status map_for_drive(SessionState& state, const TransferPlan& plan, const Place& source,
                     const Place& target) {
  const auto* from = std::get_if<GpuMemory>(&source);
  const auto* to = std::get_if<GpuMemory>(&target);
  const GpuMemory* gpu = from != nullptr ? from : to;
  const auto uses_drive = [](const Segment& segment) {
    return segment.provider == ProviderKind::nvme && segment.length_bytes > 0;
  };
  const std::vector<Segment>& segments = plan.route.segments;
  if (gpu == nullptr || std::none_of(segments.begin(), segments.end(), uses_drive)) return {};
  core::RegionView view;
  {
    const std::scoped_lock lock(state.regions_mutex);
    const RegionEntry* region = find_region(state, *gpu);
    if (region == nullptr) return {};
    view = core::RegionView{region->memory, region->kind};
  }
  const BlockRange& range = std::get<BlockRange>(from != nullptr ? target : source);
  return state.providers.nvme->map(range.drive, view);
}

}  // namespace

Result<TransferPlan> prepare_transfer(SessionState& state, const Place& source, const Place& target,
                                      Policy policy) {
  Result<TransferPlan> plan = plan_transfer(state, source, target, policy);
  if (!plan.ok()) return plan;
  for (const Segment& segment : plan->route.segments) {
    if (segment.provider != ProviderKind::storage) continue;
    const Place& memory = std::holds_alternative<GpuMemory>(source) ? source : target;
    attach_for_storage(state, std::get<GpuMemory>(memory));
    break;
  }
  if (Status mapped = map_for_drive(state, *plan, source, target); !mapped.ok()) {
    (void)disbelieve(state, *pair_of(state, source, target), mapped.error(),
                     "the drive's DMA mappings");
    return plan_transfer(state, source, target, policy);
  }
  if (probe_disproves(state, *plan, source, target)) {
    return plan_transfer(state, source, target, policy);
  }
  return plan;
}

Outcome never_started(SessionState& state, const Place& source, const Place& target, Policy policy,
                      Error error) {
  Outcome outcome;
  outcome.receipt.transfer_id = state.next_transfer++;
  outcome.receipt.requested_bytes = length_bytes(source);
  outcome.receipt.member = member_of(source, target);
  outcome.receipt.policy = policy;
  outcome.receipt.state = TransferState::failed;
  outcome.receipt.software_machine = state.host.kind() == HostKind::soft;
  outcome.receipt.add_cause(error.cause);
  outcome.error = std::move(error);
  return outcome;
}

}  // namespace nobounce::session
