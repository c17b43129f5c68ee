// Gets transfers ready to start.
#include "session/prepare.hpp"

#include <utility>
#include <variant>

#include "session/probe.hpp"
#include "session/transfer_state.hpp"

namespace nobounce::session {

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
