// Transfer: a transfer in flight, and the outcome it ends with.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <nobounce/error.hpp>
#include <nobounce/receipt.hpp>
#include <nobounce/route.hpp>

namespace nobounce {

namespace session {
struct TransferState_;
}

/// The end of a transfer: always a receipt, and an error unless it is done. A refusal has origin
/// policy.
struct Outcome {
  Receipt receipt;
  std::optional<Error> error;
  [[nodiscard]] bool ok() const { return !error.has_value(); }
};

struct TransferOptions {
  Policy policy = Policy::direct_preferred;
  std::uint64_t deadline_ns =
      0;  ///< from the call; 0: none. On passing it the transfer is cancelled
};

/// Move-only handle. Any number of threads may use it at once, moving and dropping it aside.
/// Dropping it cancels the transfer and waits for its end, 30 s at most: then what the transfer
/// uses stays until the Session ends, or for good if it has not ended by then, and one line on
/// stderr says so. It must be gone before its Session. In a forked child it answers that nothing
/// has ended, and dropping it touches nothing.
class Transfer {
 public:
  explicit Transfer(std::unique_ptr<session::TransferState_> state);
  Transfer(Transfer&&) noexcept;
  Transfer& operator=(Transfer&&) noexcept;
  ~Transfer();

  /// Moves things along and returns the outcome once there is one. Never blocks.
  [[nodiscard]] const std::optional<Outcome>& poll();
  /// Waits for the end, at most `timeout_ns` (0: no limit). Empty if it is still running then.
  [[nodiscard]] std::optional<Outcome> wait(std::uint64_t timeout_ns = 0);
  /// Asks it to stop, and returns at once; the outcome still comes (by poll or wait) and counts the
  /// bytes that had arrived. A transfer that was already complete stays done.
  void cancel();
  /// Bytes that have arrived so far.
  [[nodiscard]] std::uint64_t progress_bytes() const;
  [[nodiscard]] const Route& route() const;

 private:
  std::unique_ptr<session::TransferState_> state_;
};

}  // namespace nobounce
