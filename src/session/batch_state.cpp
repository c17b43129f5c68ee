// Begins a batch's transfers as others end, and sums their receipts.
#include "session/batch_state.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "session/check.hpp"
#include "session/prepare.hpp"

namespace nobounce::session {

namespace {

std::uint32_t& count_of(BatchReceipt& receipt, TransferState state) {
  switch (state) {
    case TransferState::done:
      return receipt.transfers_done;
    case TransferState::refused:
      return receipt.transfers_refused;
    case TransferState::cancelled:
      return receipt.transfers_cancelled;
    case TransferState::failed:
      break;
  }
  return receipt.transfers_failed;
}

void add_cause(BatchReceipt& sum, Cause cause) {
  const auto end = sum.causes.begin() + sum.cause_count;
  if (std::find(sum.causes.begin(), end, cause) != end) return;
  if (sum.cause_count < sum.causes.size()) sum.causes[sum.cause_count++] = cause;
}

void add_receipt(BatchReceipt& sum, const Receipt& receipt) {
  ++count_of(sum, receipt.state);
  if (receipt.bytes.total() > 0) {
    const bool first = sum.bytes.total() == 0;
    sum.known = first ? receipt.known : std::min(sum.known, receipt.known);
  }
  sum.requested_bytes += receipt.requested_bytes;
  sum.bytes += receipt.bytes;
  sum.pinned_bytes = std::max(sum.pinned_bytes, receipt.pinned_bytes);
  sum.degraded = sum.degraded || receipt.degraded;
  for (std::uint8_t i = 0; i < receipt.cause_count; ++i) add_cause(sum, receipt.causes[i]);
}

}  // namespace

BatchState::BatchState(SessionState& on, std::size_t requests, const BatchOptions& options)
    : session(on),
      request_count(requests),
      started_ns_(on.host.clock().now_ns()),
      ended_ns_(started_ns_),
      deadline_ns_(time_ahead(on, options.deadline_ns)),
      at_once_(std::max<std::size_t>(options.at_once, 1)) {
  items.reserve(requests);
  ++session.handles;
}

BatchState::~BatchState() {
  if (session.forked()) return;
  check(done(), "a batch was dropped before its end");
  // As with a transfer: whoever ended the last one may not have left on_end() yet.
  { const std::scoped_lock leaving(session.dispatcher->mutex()); }
  --session.handles;
}

void BatchState::add(const TransferRequest& request) {
  Result<TransferPlan> plan =
      prepare_transfer(session, request.source, request.target, request.policy);
  Item item;
  if (plan.ok()) {
    item.transfer =
        std::make_unique<TransferState_>(session, std::move(*plan), request.source, request.target,
                                         request.policy, deadline_ns_, this);
  } else {
    item.never_started = never_started(session, request.source, request.target, request.policy,
                                       std::move(plan).error());
  }
  const std::scoped_lock lock(session.dispatcher->mutex());
  items.push_back(std::move(item));
  begin_more(at_once_);
}

void BatchState::begin_more(std::size_t at_once) {
  if (beginning_) return;  // one that ended while it began: the outer call goes on
  beginning_ = true;
  while (next_ < items.size() && under_way_ < at_once) {
    const Item& item = items[next_++];
    if (item.transfer == nullptr) {
      end_one();
      continue;
    }
    ++under_way_;
    item.transfer->begin();
  }
  beginning_ = false;
}

void BatchState::end_one() {
  ended_ns_ = session.host.clock().now_ns();
  ++ended;
  if (done()) session.host.workers().notify();
}

void BatchState::on_end() {
  --under_way_;
  end_one();
  begin_more(at_once_);
}

void BatchState::cancel() {
  const std::scoped_lock lock(session.dispatcher->mutex());
  for (const Item& item : items) {
    if (item.transfer != nullptr) item.transfer->cancel(Cause::session_cancelled);
  }
  begin_more(items.size());  // those that waited end at once
}

bool BatchState::give_up() {
  const std::scoped_lock lock(session.dispatcher->mutex());
  for (const Item& item : items) {
    if (item.transfer != nullptr) (void)item.transfer->give_up();
  }
  return !done();
}

bool BatchState::wait(std::uint64_t deadline_ns) {
  return session.host.workers().wait(
      [this] {
        if (!done()) session.dispatcher->dispatch();
        return done();
      },
      deadline_ns);
}

const Outcome* BatchState::outcome(std::size_t index) const {
  check(index < items.size(), "a batch was asked for a transfer that it does not have");
  const Item& item = items[index];
  if (item.transfer == nullptr) return &*item.never_started;
  return item.transfer->done ? &*item.transfer->outcome : nullptr;
}

BatchReceipt BatchState::receipt() const {
  // In a forked child nobody would ever let go of the lock, and nothing changes any more.
  std::unique_lock lock(session.dispatcher->mutex(), std::defer_lock);
  if (!session.forked()) lock.lock();
  BatchReceipt sum;
  sum.started_ns = started_ns_;
  sum.software_machine = session.host.kind() == HostKind::soft;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Outcome* ended_as = outcome(i);
    if (ended_as == nullptr) {
      ++sum.transfers_open;
    } else {
      add_receipt(sum, ended_as->receipt);
    }
  }
  sum.elapsed_ns =
      (sum.transfers_open > 0 ? session.host.clock().now_ns() : ended_ns_) - started_ns_;
  return sum;
}

}  // namespace nobounce::session
