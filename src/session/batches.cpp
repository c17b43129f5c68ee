// Session::start_batch and the Batch handle.
#include <utility>

#include "session/batch_state.hpp"
#include "session/prepare.hpp"

namespace nobounce {

using session::BatchState;

Result<Batch> Session::start_batch(std::span<const TransferRequest> requests,
                                   const BatchOptions& options) {
  if (state_->forked()) return session::forked_error("start a batch of transfers");
  auto batch = std::make_unique<BatchState>(*state_, requests.size(), options);
  for (const TransferRequest& request : requests) batch->add(request);
  return Batch(std::move(batch));
}

Batch::Batch(std::unique_ptr<BatchState> state) : state_(std::move(state)) {}
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&& other) noexcept {
  if (this != &other) {
    const Batch ended(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}
Batch::~Batch() {
  if (state_ == nullptr) return;
  if (state_->session.forked()) {
    (void)state_.release();  // a child has none of the threads that would finish it
    return;
  }
  session::let_go(std::move(state_), session::drop_patience_ns);
}

std::size_t Batch::size() const {
  return state_->request_count;
}

bool Batch::poll() {
  if (!state_->done() && !state_->session.forked()) session::move_along(state_->session);
  return state_->done();
}

bool Batch::wait(std::uint64_t timeout_ns) {
  if (state_->done()) return true;
  if (state_->session.forked()) return false;
  return state_->wait(session::time_ahead(state_->session, timeout_ns));
}

void Batch::cancel() {
  if (!state_->session.forked()) state_->cancel();
}

std::uint64_t Batch::progress_bytes() const {
  std::uint64_t bytes = 0;
  for (const BatchState::Item& item : state_->items) {
    if (item.transfer != nullptr) bytes += item.transfer->arrived_bytes;
  }
  return bytes;
}

const Outcome* Batch::outcome(std::size_t index) const {
  return state_->outcome(index);
}

BatchReceipt Batch::receipt() const {
  return state_->receipt();
}

}  // namespace nobounce
