// Session::start, Session::transfer and the Transfer handle.
#include <utility>

#include "session/probe.hpp"
#include "session/transfer_state.hpp"

namespace nobounce {

using session::SessionState;
using session::TransferPlan;
using session::TransferState_;

namespace {

/// Plans, registers memory and probes the pair; plans again if the probe failed.
Result<TransferPlan> prepare(SessionState& state, const Place& source, const Place& target,
                             Policy policy) {
  Result<TransferPlan> plan = session::plan_transfer(state, source, target, policy);
  if (!plan.ok()) return plan;
  for (const Segment& segment : plan->route.segments) {
    if (segment.provider != ProviderKind::storage) continue;
    const Place& memory = std::holds_alternative<GpuMemory>(source) ? source : target;
    session::attach_for_storage(state, std::get<GpuMemory>(memory));
    break;
  }
  if (session::probe_disproves(state, *plan, source, target)) {
    return session::plan_transfer(state, source, target, policy);
  }
  return plan;
}

Outcome never_started(SessionState& state, const Place& source, const Place& target,
                      const TransferOptions& options, Error error) {
  Outcome outcome;
  outcome.receipt.transfer_id = state.next_transfer++;
  outcome.receipt.requested_bytes = length_bytes(source);
  outcome.receipt.member = member_of(source, target);
  outcome.receipt.policy = options.policy;
  outcome.receipt.state = TransferState::failed;
  outcome.receipt.software_machine = state.host.kind() == HostKind::soft;
  outcome.receipt.add_cause(error.cause);
  outcome.error = std::move(error);
  return outcome;
}

}  // namespace

Result<Transfer> Session::start(const Place& source, const Place& target,
                                const TransferOptions& options) {
  if (state_->forked()) return session::forked_error("start a transfer");
  Result<TransferPlan> plan = prepare(*state_, source, target, options.policy);
  if (!plan.ok()) return std::move(plan).error();
  auto transfer =
      std::make_unique<TransferState_>(*state_, std::move(*plan), source, target, options);
  transfer->begin();
  return Transfer(std::move(transfer));
}

Outcome Session::transfer(const Place& source, const Place& target,
                          const TransferOptions& options) {
  Result<Transfer> started = start(source, target, options);
  if (!started.ok())
    return never_started(*state_, source, target, options, std::move(started).error());
  return *started->wait();
}

Transfer::Transfer(std::unique_ptr<TransferState_> state) : state_(std::move(state)) {}
Transfer::Transfer(Transfer&&) noexcept = default;
Transfer& Transfer::operator=(Transfer&&) noexcept = default;
Transfer::~Transfer() {
  // A forked child has none of the threads that would finish it.
  if (state_ != nullptr && state_->session.forked()) (void)state_.release();
}

const std::optional<Outcome>& Transfer::poll() {
  if (!state_->done && !state_->session.forked()) state_->session.dispatcher->dispatch();
  static const std::optional<Outcome> still_running;
  return state_->done ? state_->outcome : still_running;
}

std::optional<Outcome> Transfer::wait(std::uint64_t timeout_ns) {
  const std::uint64_t deadline_ns =
      timeout_ns == 0 ? 0 : state_->session.host.clock().now_ns() + timeout_ns;
  if (state_->session.forked() || !state_->wait(deadline_ns)) return std::nullopt;
  return state_->outcome;
}

void Transfer::cancel() {
  if (!state_->session.forked()) state_->cancel(Cause::session_cancelled);
}

std::uint64_t Transfer::progress_bytes() const {
  return state_->arrived_bytes;
}
const Route& Transfer::route() const {
  return state_->plan.route;
}

}  // namespace nobounce
