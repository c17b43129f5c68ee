// The ledger of a session as a value: what it moved, by carriage.
#pragma once

#include <array>
#include <cstdint>

#include <nobounce/receipt.hpp>

namespace nobounce {

/// A consistent copy of a ledger.
struct LedgerSnapshot {
  std::uint64_t process_id = 0;
  std::uint64_t session = 0;  ///< number of the session in its process, from 1
  bool software_machine = false;
  bool alive = true;  ///< the process still runs
  std::uint64_t transfers_done = 0;
  std::uint64_t transfers_refused = 0;
  std::uint64_t transfers_failed = 0;  ///< those that could not even start are among them, where
                                       ///< they have a receipt
  std::uint64_t transfers_cancelled = 0;
  std::uint64_t transfers_running = 0;
  std::uint64_t staged_under_preferred =
      0;  ///< transfers that staged although direct was preferred, however they ended
  CarriageBytes bytes;
  std::array<CarriageBytes, 5> bytes_by_member{};  ///< indexed by Member
  std::uint64_t pinned_bytes = 0;    ///< most bounce memory that one transfer has used
  Cause last_cause = Cause::none;    ///< of the last transfer that was not direct
  Cause staged_cause = Cause::none;  ///< of the last one in staged_under_preferred
};

}  // namespace nobounce
