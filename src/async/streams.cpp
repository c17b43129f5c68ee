// Streams and StreamTransfer, as their users hold them.
#include <utility>

#include "async/streams_state.hpp"
#include "session/prepare.hpp"
#include "session/session_access.hpp"

namespace nobounce {

using async::StreamOrder;
using async::StreamsState;

Result<Streams> Streams::open(Session& session) {
  session::SessionState& state = session::SessionAccess::state(session);
  if (state.forked()) return session::forked_error("order transfers on streams");
  auto streams = std::make_unique<StreamsState>(state);
  if (Status opened = streams->open(); !opened.ok()) return opened.error();
  return Streams(std::move(streams));
}

Streams::Streams(std::unique_ptr<StreamsState> state) : state_(std::move(state)) {}
Streams::Streams(Streams&&) noexcept = default;
Streams& Streams::operator=(Streams&&) noexcept = default;
Streams::~Streams() = default;

Result<StreamTransfer> Streams::enqueue(StreamHandle stream, const Place& source,
                                        const Place& target, const StreamOptions& options) {
  auto order = state_->enqueue(stream, source, target, options);
  if (!order.ok()) return std::move(order).error();
  return StreamTransfer(std::move(*order));
}

StreamTransfer::StreamTransfer(std::shared_ptr<StreamOrder> order) : order_(std::move(order)) {}
StreamTransfer::StreamTransfer(StreamTransfer&&) noexcept = default;
StreamTransfer& StreamTransfer::operator=(StreamTransfer&&) noexcept = default;
StreamTransfer::~StreamTransfer() = default;

std::optional<Outcome> StreamTransfer::poll() {
  if (!order_->ended.load(std::memory_order_acquire)) {
    order_->host->workers().give_way();
    if (!order_->ended.load(std::memory_order_acquire)) return std::nullopt;
  }
  return order_->outcome;
}

std::optional<Outcome> StreamTransfer::wait(std::uint64_t timeout_ns) {
  const std::uint64_t deadline_ns =
      timeout_ns == 0 ? 0 : order_->host->clock().now_ns() + timeout_ns;
  const bool ended = order_->host->workers().wait(
      [this] { return order_->ended.load(std::memory_order_acquire); }, deadline_ns);
  if (!ended) return std::nullopt;
  return order_->outcome;
}

Visibility StreamTransfer::visibility() const {
  return order_->visibility;
}
DevicePointer StreamTransfer::status_word() const {
  return order_->status_word;
}
std::uint64_t StreamTransfer::sequence() const {
  return order_->sequence;
}

}  // namespace nobounce
