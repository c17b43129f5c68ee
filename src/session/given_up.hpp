// What nobody waits for any more although its bytes may still arrive: it is kept, with the places
// that it uses, until the session ends, and for good if it has not ended by then. Nothing of it is
// freed under a device.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <nobounce/place.hpp>
#include <nobounce/transfer.hpp>
#include "system/stray_copies.hpp"

namespace nobounce::session {

struct SessionState;
struct TransferState_;
struct BatchState;

class GivenUp {
 public:
  /// Copies that providers gave up on count, too.
  void add(system::StrayCopies& strays) { strays_ = &strays; }
  /// `ended` says whether it has ended; it must be cheap and take no lock. `read` and `written`:
  /// what it uses, where no running transfer says so.
  void keep(std::shared_ptr<void> mover, std::function<bool()> ended, std::vector<Place> read,
            std::vector<Place> written);
  /// A place that one of them uses.
  void keep(std::shared_ptr<void> place);
  /// Whether one that has not ended uses any of it, beside running transfers.
  [[nodiscard]] bool uses(const Place& place) const;
  /// The same, as far as bytes may still arrive there.
  [[nodiscard]] bool writes(const Place& place) const;
  /// Whether a copy that was given up on still flies: the driver frees nothing before it has
  /// landed.
  [[nodiscard]] bool copies_hang() const { return strays_ != nullptr && !strays_->all_landed(); }
  /// False as long as nothing was ever given up. Takes no lock.
  [[nodiscard]] bool any() const {
    return any_.load(std::memory_order_acquire) || (strays_ != nullptr && strays_->any());
  }
  [[nodiscard]] bool empty() const;
  [[nodiscard]] bool all_ended() const;
  /// Lets go of all of it, movers first. They must have ended.
  void clear();

 private:
  struct Mover {
    std::shared_ptr<void> kept;
    std::function<bool()> ended;
    std::vector<Place> read;
    std::vector<Place> written;
  };
  system::StrayCopies* strays_ = nullptr;
  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;
  std::vector<Mover> movers_;
  std::vector<std::shared_ptr<void>> places_;
};

/// How long what is dropped gets to end after it was told to.
constexpr std::uint64_t drop_patience_ns = 30'000'000'000;

/// Cancels it and waits for its end, for so long at most. What has not ended then is given up,
/// which one line on stderr says.
void let_go(std::unique_ptr<TransferState_> transfer, std::uint64_t patience_ns);
void let_go(std::unique_ptr<BatchState> batch, std::uint64_t patience_ns);

/// How long past its deadline a blocking transfer waits for a file, which may answer late or never.
constexpr std::uint64_t late_patience_ns = 2'000'000'000;

/// Waits until then for what must end by `deadline_ns`. What has not ended is given up, and its
/// outcome says what had arrived.
[[nodiscard]] Outcome await_in_time(std::unique_ptr<TransferState_> transfer,
                                    std::uint64_t deadline_ns);

/// Keeps what does not end, and says so in one line on stderr.
void give_up(SessionState& state, std::shared_ptr<void> mover, std::function<bool()> ended,
             std::vector<Place> read = {}, std::vector<Place> written = {});

/// Whether bytes of something that was given up, transfers included, may still arrive in a place.
[[nodiscard]] bool may_be_written(SessionState& state, const Place& place);

/// At the end of a session: waits a while for what was given up, and lets go of it. False: some of
/// it has not ended, and all that the session has must stay for good.
[[nodiscard]] bool end_given_up(SessionState& state);
/// Keeps a session until the process ends, which one line on stderr says.
void keep_for_good(std::unique_ptr<SessionState> state);

}  // namespace nobounce::session
