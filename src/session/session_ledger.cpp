// The running account of a session, and reading those of others.
#include "session/session_ledger.hpp"

#include <new>
#include <utility>

#include <nobounce/session.hpp>

namespace nobounce::session {
namespace {

constexpr std::string_view segment_prefix = "ledger.";
constexpr std::uint64_t sessions_per_process_max = 4096;
constexpr int errno_exists = 17;  // EEXIST

std::uint64_t load(const std::atomic<std::uint64_t>& value) {
  return value.load(std::memory_order_relaxed);
}
/// One writer at a time: a locked instruction would cost more than all the rest of a receipt.
void add(std::atomic<std::uint64_t>& value, std::uint64_t amount) {
  value.store(load(value) + amount, std::memory_order_relaxed);
}
/// Mostly the value is there already: then the cache line stays shared.
void set(std::atomic<std::uint64_t>& value, std::uint64_t wanted) {
  if (load(value) != wanted) value.store(wanted, std::memory_order_relaxed);
}
/// Ends of transfers are counted after their bytes, and read before them: whoever sees an end sees
/// the bytes, too.
void end(std::atomic<std::uint64_t>& count) {
  count.store(load(count) + 1, std::memory_order_release);
}
std::uint64_t ended(const std::atomic<std::uint64_t>& count) {
  return count.load(std::memory_order_acquire);
}

Cause cause_of(const std::atomic<std::uint64_t>& value) {
  const std::uint64_t cause = load(value);
  return cause < static_cast<std::uint64_t>(Cause::count_) ? static_cast<Cause>(cause)
                                                           : Cause::none;
}

std::string segment_name(std::uint64_t process, std::uint64_t session) {
  return std::string(segment_prefix) + std::to_string(process) + "." + std::to_string(session);
}

}  // namespace

SessionLedger::SessionLedger(system::Host& host, bool publish) : host_(&host) {
  const std::uint64_t process = host.process().id();
  std::uint64_t number = 1;
  for (; publish && number <= sessions_per_process_max; ++number) {
    Result<system::SharedSegment> made =
        host.storage().create_segment(segment_name(process, number), sizeof(LedgerPage));
    if (made.ok()) {
      segment_ = std::move(*made);
      page_ = new (segment_->bytes.data()) LedgerPage{};
      break;
    }
    if (made.error().code != errno_exists) break;
  }
  page_->process_id = process;
  page_->session = segment_.has_value() ? number : 1;
  page_->software_machine = host.kind() == HostKind::soft ? 1 : 0;
  page_->version = LedgerPage::version_value;
  page_->magic.store(LedgerPage::magic_value, std::memory_order_release);
}

SessionLedger::~SessionLedger() {
  if (!segment_.has_value()) return;
  host_->storage().unmap_segment(*segment_);
  host_->storage().remove_segment(segment_->name);
}

void SessionLedger::abandon() {
  segment_.reset();
}

void SessionLedger::start() {
  add(page_->started, 1);
}

/// What is said of the transfer comes before its end is counted: whoever sees the end sees it all.
void SessionLedger::enter(const Receipt& receipt, bool staged_unasked) {
  const Cause cause = receipt.cause_count > 0 ? receipt.causes[0] : Cause::none;
  if (staged_unasked) {
    set(page_->staged_cause, static_cast<std::uint64_t>(cause));
    add(page_->staged_under_preferred, 1);
  }
  if (cause != Cause::none) set(page_->last_cause, static_cast<std::uint64_t>(cause));
  switch (receipt.state) {
    case TransferState::done:
      end(page_->done);
      break;
    case TransferState::refused:
      end(page_->refused);
      break;
    case TransferState::failed:
      end(page_->failed);
      break;
    case TransferState::cancelled:
      end(page_->cancelled);
      break;
  }
}

void SessionLedger::arrived(Member member, const CarriageBytes& bytes, std::uint64_t pinned_bytes) {
  for (std::size_t i = 0; i < carriage_count; ++i) {
    if (bytes.by[i] != 0) add(page_->bytes[static_cast<std::size_t>(member)][i], bytes.by[i]);
  }
  if (pinned_bytes > load(page_->pinned_bytes)) set(page_->pinned_bytes, pinned_bytes);
}

void SessionLedger::enter_whole(const Receipt& receipt, bool staged_unasked) {
  start();
  arrived(receipt.member, receipt.bytes, receipt.pinned_bytes);
  enter(receipt, staged_unasked);
}

LedgerSnapshot snapshot_of(const LedgerPage& page) {
  LedgerSnapshot copy;
  copy.process_id = load(page.process_id);
  copy.session = load(page.session);
  copy.software_machine = load(page.software_machine) != 0;
  copy.transfers_done = ended(page.done);
  copy.transfers_refused = ended(page.refused);
  copy.transfers_failed = ended(page.failed);
  copy.transfers_cancelled = ended(page.cancelled);
  const std::uint64_t all_ended = copy.transfers_done + copy.transfers_refused +
                                  copy.transfers_failed + copy.transfers_cancelled;
  // Read after the ends, so that none of them is missing.
  copy.transfers_running = load(page.started) - all_ended;
  copy.staged_under_preferred = load(page.staged_under_preferred);
  copy.pinned_bytes = load(page.pinned_bytes);
  for (std::size_t member = 0; member < LedgerPage::members; ++member) {
    for (std::size_t i = 0; i < carriage_count; ++i) {
      copy.bytes_by_member[member].by[i] = load(page.bytes[member][i]);
    }
    copy.bytes += copy.bytes_by_member[member];
  }
  copy.last_cause = cause_of(page.last_cause);
  copy.staged_cause = cause_of(page.staged_cause);
  return copy;
}

LedgerSnapshot SessionLedger::snapshot() const {
  return snapshot_of(*page_);
}

}  // namespace nobounce::session

namespace nobounce {

Result<std::vector<LedgerSnapshot>> read_ledgers(system::Host& host, std::uint64_t process_id) {
  system::Storage& storage = host.storage();
  const std::string prefix = std::string(session::segment_prefix) +
                             (process_id == 0 ? "" : std::to_string(process_id) + ".");
  Result<std::vector<std::string>> names = storage.list_segments(prefix);
  if (!names.ok()) return std::move(names).error();
  std::vector<LedgerSnapshot> snapshots;
  for (const std::string& name : *names) {
    Result<system::SharedSegment> segment = storage.open_segment(name);
    if (!segment.ok()) continue;  // closed meanwhile, or another user's
    if (segment->bytes.size() >= sizeof(session::LedgerPage)) {
      const auto* page = reinterpret_cast<const session::LedgerPage*>(segment->bytes.data());
      if (page->magic.load(std::memory_order_acquire) == session::LedgerPage::magic_value &&
          page->version == session::LedgerPage::version_value) {
        LedgerSnapshot snapshot = session::snapshot_of(*page);
        snapshot.alive = host.process().alive(snapshot.process_id);
        if (!snapshot.alive) storage.remove_segment(name);
        snapshots.push_back(snapshot);
      }
    }
    storage.unmap_segment(*segment);
  }
  return snapshots;
}

}  // namespace nobounce
