// The session's running account, in memory that `nobounce stat` may map. It allocates nothing. Who
// enters something holds the dispatcher's mutex; who reads needs no lock, in this process or
// another.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include <nobounce/ledger.hpp>
#include <nobounce/receipt.hpp>
#include "system/host.hpp"

namespace nobounce::session {

/// The layout in the shared segment. Changing it changes `version`.
struct LedgerPage {
  static constexpr std::uint64_t magic_value = 0x6e6f626f756e6365;  // "nobounce"
  static constexpr std::uint64_t version_value = 3;
  static constexpr std::size_t members = 5;

  std::atomic<std::uint64_t> magic;
  std::atomic<std::uint64_t> version;
  std::atomic<std::uint64_t> process_id;
  std::atomic<std::uint64_t> session;
  std::atomic<std::uint64_t> software_machine;
  std::atomic<std::uint64_t> done;
  std::atomic<std::uint64_t> refused;
  std::atomic<std::uint64_t> failed;
  std::atomic<std::uint64_t> cancelled;
  std::atomic<std::uint64_t> started;  ///< those that have not ended are running
  std::atomic<std::uint64_t> staged_under_preferred;
  std::atomic<std::uint64_t> pinned_bytes;
  std::atomic<std::uint64_t> last_cause;
  std::atomic<std::uint64_t> staged_cause;
  std::atomic<std::uint64_t> bytes[members][carriage_count];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

class SessionLedger {
 public:
  /// `publish`: in a shared segment; where that fails (no /dev/shm) the ledger is private and says
  /// nothing.
  SessionLedger(system::Host& host, bool publish);
  ~SessionLedger();
  SessionLedger(const SessionLedger&) = delete;
  SessionLedger& operator=(const SessionLedger&) = delete;

  void start();
  /// Enters bytes as they arrive, so that a long transfer shows while it runs.
  void arrived(Member member, const CarriageBytes& bytes, std::uint64_t pinned_bytes);
  /// Enters a finished transfer. `staged_unasked`: it staged although the policy preferred direct.
  void enter(const Receipt& receipt, bool staged_unasked);
  /// Start, arrival and end at once, of what is known only when it has ended.
  void enter_whole(const Receipt& receipt, bool staged_unasked);
  [[nodiscard]] LedgerSnapshot snapshot() const;
  /// In a forked child: forget the segment without unmapping or removing it.
  void abandon();

 private:
  system::Host* host_;
  LedgerPage private_page_{};
  LedgerPage* page_ = &private_page_;
  std::optional<system::SharedSegment> segment_;
};

[[nodiscard]] LedgerSnapshot snapshot_of(const LedgerPage& page);

}  // namespace nobounce::session
