// KernelQueue, as its user holds it.
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
KernelQueue& KernelQueue::operator=(KernelQueue&&) noexcept = default;
KernelQueue::~KernelQueue() = default;

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
