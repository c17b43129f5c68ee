// Giving up on transfers that do not end, and keeping what they use.
#include "session/given_up.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "session/batch_state.hpp"
#include "session/prepare.hpp"
#include "session/transfer_state.hpp"

namespace nobounce::session {

namespace {

constexpr std::uint64_t end_patience_ns = 10'000'000'000;

bool any_overlaps(const std::vector<Place>& places, const Place& place) {
  return std::any_of(places.begin(), places.end(),
                     [&](const Place& used) { return overlaps(used, place); });
}

}  // namespace

void GivenUp::keep(std::shared_ptr<void> mover, std::function<bool()> ended,
                   std::vector<Place> read, std::vector<Place> written) {
  const std::lock_guard lock(mutex_);
  movers_.push_back({std::move(mover), std::move(ended), std::move(read), std::move(written)});
  any_.store(true, std::memory_order_release);
}

bool GivenUp::uses(const Place& place) const {
  if (strays_ != nullptr && strays_->uses(place)) return true;
  const std::lock_guard lock(mutex_);
  return std::any_of(movers_.begin(), movers_.end(), [&](const Mover& mover) {
    return !mover.ended() &&
           (any_overlaps(mover.read, place) || any_overlaps(mover.written, place));
  });
}

bool GivenUp::writes(const Place& place) const {
  if (strays_ != nullptr && strays_->writes(place)) return true;
  const std::lock_guard lock(mutex_);
  return std::any_of(movers_.begin(), movers_.end(), [&](const Mover& mover) {
    return !mover.ended() && any_overlaps(mover.written, place);
  });
}

void GivenUp::keep(std::shared_ptr<void> place) {
  const std::lock_guard lock(mutex_);
  places_.push_back(std::move(place));
  any_.store(true, std::memory_order_release);
}

bool GivenUp::empty() const {
  if (strays_ != nullptr && strays_->any()) return false;
  const std::lock_guard lock(mutex_);
  return movers_.empty() && places_.empty();
}

bool GivenUp::all_ended() const {
  if (strays_ != nullptr && !strays_->all_landed()) return false;
  const std::lock_guard lock(mutex_);
  return std::all_of(movers_.begin(), movers_.end(),
                     [](const Mover& mover) { return mover.ended(); });
}

void GivenUp::clear() {
  std::vector<Mover> movers;
  std::vector<std::shared_ptr<void>> places;
  {
    const std::lock_guard lock(mutex_);
    movers.swap(movers_);
    places.swap(places_);
  }
  movers.clear();
  if (strays_ != nullptr) strays_->clear();
  places.clear();
}

void give_up(SessionState& state, std::shared_ptr<void> mover, std::function<bool()> ended,
             std::vector<Place> read, std::vector<Place> written) {
  state.given_up.keep(std::move(mover), std::move(ended), std::move(read), std::move(written));
  state.host.process().warn(
      "nobounce: a transfer does not end, and its bytes may still arrive: what it uses of regions, "
      "files and drives of the session stays as it is until it has ended");
}

void let_go(std::unique_ptr<TransferState_> transfer, std::uint64_t patience_ns) {
  if (transfer->done) return;
  SessionState& state = transfer->session;
  transfer->cancel(Cause::session_cancelled);
  if (transfer->wait(time_ahead(state, patience_ns)) || !transfer->give_up()) return;
  const std::shared_ptr<TransferState_> kept(std::move(transfer));
  give_up(state, kept, [mover = kept.get()] { return mover->done.load(); });
}

void let_go(std::unique_ptr<BatchState> batch, std::uint64_t patience_ns) {
  if (batch->done()) return;
  SessionState& state = batch->session;
  batch->cancel();
  if (batch->wait(time_ahead(state, patience_ns)) || !batch->give_up()) return;
  const std::shared_ptr<BatchState> kept(std::move(batch));
  give_up(state, kept, [mover = kept.get()] { return mover->done(); });
}

Outcome await_in_time(std::unique_ptr<TransferState_> transfer, std::uint64_t deadline_ns) {
  const std::uint64_t most_ns = std::numeric_limits<std::uint64_t>::max() - late_patience_ns;
  if (transfer->wait(std::min(deadline_ns, most_ns) + late_patience_ns))
    return *std::move(transfer->outcome);
  transfer->cancel(Cause::session_deadline_passed);
  std::optional<Outcome> left = transfer->give_up_because(Cause::session_deadline_passed);
  if (!left.has_value()) return *std::move(transfer->outcome);
  SessionState& state = transfer->session;
  const std::shared_ptr<TransferState_> kept(std::move(transfer));
  give_up(state, kept, [mover = kept.get()] { return mover->done.load(); });
  return *std::move(left);
}

bool may_be_written(SessionState& state, const Place& place) {
  if (!state.given_up.any()) return false;
  if (state.given_up.writes(place)) return true;
  const std::scoped_lock lock(state.dispatcher->mutex());
  return std::any_of(state.running.begin(), state.running.end(), [&](const auto* transfer) {
    return transfer->given_up && overlaps(transfer->target, place);
  });
}

bool end_given_up(SessionState& state) {
  if (state.given_up.empty()) return true;
  const bool ended = state.host.workers().wait(
      [&] {
        state.dispatcher->dispatch();
        return state.given_up.all_ended();
      },
      state.host.clock().now_ns() + end_patience_ns);
  if (ended) state.given_up.clear();
  return ended;
}

void keep_for_good(std::unique_ptr<SessionState> state) {
  state->host.process().warn(
      "nobounce: a session ended while bytes of its transfers may still arrive: what it has stays "
      "until the process ends");
  // Never destroyed, and reachable all the same.
  static std::mutex& mutex = *new std::mutex;
  static auto& kept = *new std::vector<std::unique_ptr<SessionState>>;
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(state));
}

}  // namespace nobounce::session
