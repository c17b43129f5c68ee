// Batch: many transfers submitted together, and what became of each and of all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <nobounce/transfer.hpp>

namespace nobounce {

namespace session {
struct BatchState;
}

/// One transfer of a batch. Strictness is each transfer's own.
struct TransferRequest {
  Place source;
  Place target;
  Policy policy = Policy::direct_preferred;
};

struct BatchOptions {
  std::uint64_t deadline_ns = 0;  ///< from now, for all of them; 0: none. On passing it what has
                                  ///< not ended is cancelled
  std::uint32_t at_once = 32;     ///< transfers under way at a time; the others wait their turn
};

/// The receipts of a batch in sum. Trivially copyable, allocates nothing.
struct BatchReceipt {
  std::uint32_t transfers_done = 0;
  std::uint32_t transfers_refused = 0;
  std::uint32_t transfers_failed = 0;
  std::uint32_t transfers_cancelled = 0;
  std::uint32_t transfers_open = 0;   ///< under way or waiting for their turn
  std::uint64_t requested_bytes = 0;  ///< of those that have ended, as everything below
  CarriageBytes bytes;
  std::uint64_t started_ns = 0;    ///< session clock (monotonic)
  std::uint64_t elapsed_ns = 0;    ///< until the last one ended; until now while some are open
  std::uint64_t pinned_bytes = 0;  ///< bounce memory that one of them used, at most
  Known known = Known::claimed;    ///< the weakest of those that moved bytes
  bool degraded = false;           ///< at least one was
  bool software_machine = false;
  std::uint8_t cause_count = 0;
  std::array<Cause, Receipt::causes_max> causes{};  ///< each once, in the order of the requests

  [[nodiscard]] std::uint32_t transfers() const {
    return transfers_done + transfers_refused + transfers_failed + transfers_cancelled +
           transfers_open;
  }
};

/// Move-only handle of transfers that were submitted together. Any number of threads may use it at
/// once, moving and dropping it aside. Transfers of a batch have no order among themselves: where
/// targets overlap, or one reads what another writes, any of the bytes may end up there. Dropping
/// it cancels what has not ended and waits for the end, as long as a Transfer does; it must be gone
/// before its Session.
class Batch {
 public:
  explicit Batch(std::unique_ptr<session::BatchState> state);
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;
  ~Batch();

  [[nodiscard]] std::size_t size() const;
  /// Moves things along; whether all have ended. Never blocks. Transfers that wait for their turn
  /// start in here or in wait(), of this batch or of any transfer of the session.
  [[nodiscard]] bool poll();
  /// Waits until all have ended, at most `timeout_ns` (0: no limit). False if some are still open.
  [[nodiscard]] bool wait(std::uint64_t timeout_ns = 0);
  /// Asks all that have not ended to stop; their outcomes count the bytes that had arrived.
  void cancel();

  /// Of all together, so far.
  [[nodiscard]] std::uint64_t progress_bytes() const;
  /// How request `index` ended, null while it has not. Valid as long as the batch.
  [[nodiscard]] const Outcome* outcome(std::size_t index) const;
  [[nodiscard]] BatchReceipt receipt() const;

 private:
  std::unique_ptr<session::BatchState> state_;
};

}  // namespace nobounce
