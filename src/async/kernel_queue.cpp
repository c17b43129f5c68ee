// KernelQueue, as its user holds it.
#include <memory>
#include <utility>

#include "async/kernel_queue_state.hpp"
#include "session/session_access.hpp"

namespace nobounce {

using async::KernelQueueState;

Result<KernelQueue> KernelQueue::open(Session& session, const Place& file,
                                      const KernelQueueOptions& options) {
  session::SessionState& state = session::SessionAccess::state(session);
  if (state.forked()) return session::forked_error("open a queue for kernels");
  auto queue = std::make_unique<KernelQueueState>(state);
  if (Status opened = queue->open(file, options); !opened.ok()) return opened.error();
  return KernelQueue(std::move(queue));
}

KernelQueue::KernelQueue(std::unique_ptr<KernelQueueState> state) : state_(std::move(state)) {}
KernelQueue::KernelQueue(KernelQueue&&) noexcept = default;
KernelQueue& KernelQueue::operator=(KernelQueue&& other) noexcept {
  if (this != &other) {
    const KernelQueue ended(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}
KernelQueue::~KernelQueue() {
  if (state_ == nullptr) return;
  session::SessionState& session = state_->session();
  if (session.forked() || state_->end(session::drop_patience_ns)) return;
  const std::shared_ptr<KernelQueueState> kept(std::move(state_));
  session::give_up(session, kept, [mover = kept.get()] { return mover->all_back(); },
                   {kept->file()});
  kept->let_go_of_file();
}

const device::QueueSet& KernelQueue::queues() const {
  return state_->for_kernels;
}
KernelQueueCounts KernelQueue::counts() const {
  return state_->counts();
}
Outcome KernelQueue::close(std::uint64_t timeout_ns) {
  return state_->close(timeout_ns);
}

}  // namespace nobounce
