// Gets transfers ready to start.
#include "session/prepare.hpp"

#include <algorithm>
#include <mutex>
#include <string>
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
  const auto& segments = plan.cut.segments;
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

bool moves_by(const TransferPlan& plan, ProviderKind provider) {
  return !plan.cut.segments.empty() && plan.common->provider == provider;
}

void register_memory(SessionState& state, const TransferPlan& plan, const Place& source,
                     const Place& target) {
  if (!moves_by(plan, ProviderKind::storage)) return;
  const Place& memory = std::holds_alternative<GpuMemory>(source) ? source : target;
  attach_for_storage(state, std::get<GpuMemory>(memory));
}

/// Whether the plan is the last word on its pair: it needs no probe, or the probe was passed.
bool is_settled(SessionState& state, const TransferPlan& plan, const Place& source,
                const Place& target) {
  if (!moves_by(plan, ProviderKind::storage) && !moves_by(plan, ProviderKind::peer)) return true;
  const std::optional<PairKey> pair = pair_of(state, source, target);
  if (!pair.has_value()) return true;
  const std::optional<Belief> belief = belief_in(state, *pair);
  return belief.has_value() && belief->believed;
}

/// Bytes of something that was given up would come after those of the transfer, and nobody would
/// see it.
Status nothing_may_arrive(SessionState& state, const Place& source, const Place& target) {
  for (const Place* place : {&source, &target}) {
    if (!may_be_written(state, *place)) continue;
    return Error{.origin = ErrorOrigin::session,
                 .attempted = describe_transfer(state, source, target),
                 .cause = Cause::session_deadline_passed,
                 .detail =
                     "bytes of something that was given up, because it did not end, may "
                     "still arrive in its " +
                     std::string(place == &source ? "source" : "target"),
                 .remedy =
                     "use other memory until it has ended; if it never does, a GPU or a "
                     "drive hangs: the kernel's log (dmesg) and nvidia-smi say which"};
  }
  return {};
}

Result<TransferPlan> plan_anew(SessionState& state, const Place& source, const Place& target,
                               Policy policy, bool later) {
  Result<TransferPlan> plan = plan_transfer(state, source, target, policy);
  if (!plan.ok()) return plan;
  register_memory(state, *plan, source, target);
  if (Status mapped = map_for_drive(state, *plan, source, target); !mapped.ok()) {
    (void)disbelieve(state, *pair_of(state, source, target), mapped.error(),
                     "the drive's DMA mappings");
    return plan_transfer(state, source, target, policy);
  }
  if (later && probe_would_touch(state, *plan, source, target)) {
    return Error{.origin = ErrorOrigin::session,
                 .attempted = describe_transfer(state, source, target),
                 .cause = Cause::async_path_unproven,
                 .detail = std::string(cause_row(Cause::async_path_unproven).sentence)};
  }
  if (probe_disproves(state, *plan, source, target, later)) {
    // One that hangs in the places themselves would write after any other mover.
    if (Status quiet = nothing_may_arrive(state, source, target); !quiet.ok()) return quiet.error();
    return plan_transfer(state, source, target, policy);
  }
  return plan;
}

Result<TransferPlan> prepare(SessionState& state, const Place& source, const Place& target,
                             Policy policy, std::optional<core::Confirmed>* confirmed, bool later) {
  if (Status quiet = nothing_may_arrive(state, source, target); !quiet.ok()) return quiet.error();
  const Lessons lessons = lessons_of(state);
  const std::optional<PlanQuestion> asked = plan_question(state, source, target, policy);
  if (asked.has_value()) {
    if (std::shared_ptr<const CommonPlan> known = state.plans.find(asked->key, lessons)) {
      TransferPlan plan = plan_of(std::move(known), source, target);
      if (confirmed != nullptr) *confirmed = asked->confirmed;
      register_memory(state, plan, source, target);
      return plan;
    }
  }
  Result<TransferPlan> plan = plan_anew(state, source, target, policy, later);
  if (!plan.ok() || !asked.has_value()) return plan;
  // Kept only if nothing that it rests on changed while it was made.
  if (!is_settled(state, *plan, source, target) || lessons_of(state) != lessons) return plan;
  const std::optional<PlanQuestion> again = plan_question(state, source, target, policy);
  if (again.has_value() && again->key == asked->key) {
    state.plans.keep(asked->key, lessons, plan->common);
  }
  return plan;
}

}  // namespace

Result<TransferPlan> prepare_transfer(SessionState& state, const Place& source, const Place& target,
                                      Policy policy, std::optional<core::Confirmed>* confirmed) {
  return prepare(state, source, target, policy, confirmed, false);
}

Result<TransferPlan> prepare_for_later(SessionState& state, const Place& source,
                                       const Place& target, Policy policy) {
  return prepare(state, source, target, policy, nullptr, true);
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
  if (state.forked()) return outcome;
  outcome.receipt.source = device_at(state, source);
  outcome.receipt.target = device_at(state, target);
  const std::scoped_lock lock(state.dispatcher->mutex());
  state.ledger->enter_whole(outcome.receipt, false);
  return outcome;
}

}  // namespace nobounce::session
