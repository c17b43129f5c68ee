// Session::start, Session::transfer and the Transfer handle.
#include <mutex>
#include <optional>
#include <utility>
#include <variant>

#include "session/given_up.hpp"
#include "session/prepare.hpp"
#include "session/transfer_state.hpp"

namespace nobounce {

using session::TransferPlan;
using session::TransferState_;

Result<Transfer> Session::start(const Place& source, const Place& target,
                                const TransferOptions& options) {
  if (state_->forked()) return session::forked_error("start a transfer");
  const std::uint64_t deadline_ns = session::time_ahead(*state_, options.deadline_ns);
  std::optional<core::Confirmed> confirmed;
  Result<TransferPlan> plan =
      session::prepare_transfer(*state_, source, target, options.policy, &confirmed);
  if (!plan.ok()) return std::move(plan).error();
  auto transfer = std::make_unique<TransferState_>(*state_, std::move(*plan), source, target,
                                                   options.policy, deadline_ns);
  transfer->begin(confirmed);
  return Transfer(std::move(transfer));
}

Outcome Session::transfer(const Place& source, const Place& target,
                          const TransferOptions& options) {
  const auto refused = [&](Error error) {
    return session::never_started(*state_, source, target, options.policy, std::move(error));
  };
  if (state_->forked()) return refused(session::forked_error("start a transfer"));
  const std::uint64_t deadline_ns = session::time_ahead(*state_, options.deadline_ns);
  std::optional<core::Confirmed> confirmed;
  Result<TransferPlan> plan =
      session::prepare_transfer(*state_, source, target, options.policy, &confirmed);
  if (!plan.ok()) return refused(std::move(plan).error());
  // All other movers keep deadlines by themselves; the kernel may not come back from a file.
  const auto in_file = [](const Place& place) { return std::holds_alternative<FileRange>(place); };
  if (deadline_ns != 0 && (in_file(source) || in_file(target))) {
    auto transfer = std::make_unique<TransferState_>(*state_, *std::move(plan), source, target,
                                                     options.policy, deadline_ns);
    transfer->begin(confirmed);
    return session::await_in_time(std::move(transfer), deadline_ns);
  }
  std::unique_lock once(state_->dispatcher->mutex());  // for all that begins it
  TransferState_ transfer(*state_, *std::move(plan), source, target, options.policy, deadline_ns);
  transfer.attend();
  transfer.begin(confirmed);
  once.unlock();
  transfer.wait_attended();
  return *std::move(transfer.outcome);
}

Transfer::Transfer(std::unique_ptr<TransferState_> state) : state_(std::move(state)) {}
Transfer::Transfer(Transfer&&) noexcept = default;
Transfer& Transfer::operator=(Transfer&& other) noexcept {
  if (this != &other) {
    const Transfer ended(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}
Transfer::~Transfer() {
  if (state_ == nullptr) return;
  if (state_->session.forked()) {
    (void)state_.release();  // a child has none of the threads that would finish it
    return;
  }
  session::let_go(std::move(state_), session::drop_patience_ns);
}

const std::optional<Outcome>& Transfer::poll() {
  if (!state_->done && !state_->session.forked()) session::move_along(state_->session);
  static const std::optional<Outcome> still_running;
  return state_->done ? state_->outcome : still_running;
}

std::optional<Outcome> Transfer::wait(std::uint64_t timeout_ns) {
  if (state_->session.forked()) return std::nullopt;
  if (!state_->wait(session::time_ahead(state_->session, timeout_ns))) return std::nullopt;
  return state_->outcome;
}

void Transfer::cancel() {
  if (!state_->session.forked()) state_->cancel(Cause::session_cancelled);
}

std::uint64_t Transfer::progress_bytes() const {
  return state_->arrived_bytes;
}
const Route& Transfer::route() const {
  return state_->route();
}

}  // namespace nobounce
