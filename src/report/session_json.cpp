// The document `nobounce.stat/1`.
#include <utility>

#include "report/session_report.hpp"

namespace nobounce::report {

namespace {

core::Json ledger_bytes(const CarriageBytes& bytes) {
  core::JsonObject object;
  for (std::size_t i = 0; i < carriage_count; ++i) {
    const auto carriage = static_cast<Carriage>(i);
    object.emplace_back(std::string(to_string(carriage)), bytes[carriage]);
  }
  return object;
}

core::Json ledger_json(const LedgerSnapshot& ledger) {
  core::JsonObject by_member;
  for (std::size_t i = 0; i < ledger.bytes_by_member.size(); ++i) {
    by_member.emplace_back(std::string(to_string(static_cast<Member>(i))),
                           ledger_bytes(ledger.bytes_by_member[i]));
  }
  return core::JsonObject{
      {"process_id", ledger.process_id},
      {"session", ledger.session},
      {"software_machine", ledger.software_machine},
      {"alive", ledger.alive},
      {"transfers", core::JsonObject{{"done", ledger.transfers_done},
                                     {"refused", ledger.transfers_refused},
                                     {"failed", ledger.transfers_failed},
                                     {"cancelled", ledger.transfers_cancelled},
                                     {"running", ledger.alive ? ledger.transfers_running : 0},
                                     {"cut_off", ledger.alive ? 0 : ledger.transfers_running}}},
      {"staged_under_preferred", ledger.staged_under_preferred},
      {"bytes", ledger_bytes(ledger.bytes)},
      {"bytes_by_member", std::move(by_member)},
      {"pinned_bytes", ledger.pinned_bytes},
      {"last_cause", ledger.last_cause == Cause::none ? core::Json(nullptr)
                                                      : core::Json(to_string(ledger.last_cause))},
  };
}

}  // namespace

core::Json sessions_json(const std::vector<LedgerSnapshot>& ledgers) {
  core::JsonArray sessions;
  for (const LedgerSnapshot& ledger : ledgers) sessions.push_back(ledger_json(ledger));
  return core::JsonObject{{"schema", "nobounce.stat/1"}, {"sessions", std::move(sessions)}};
}

}  // namespace nobounce::report
