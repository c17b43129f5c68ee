// Session ledgers as text and as Prometheus metrics.
#include <array>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include "report/quantity.hpp"
#include "report/session_report.hpp"

namespace nobounce::report {

namespace {

constexpr std::array<Carriage, carriage_count> ledger_carriages{
    Carriage::direct,     Carriage::device_bounced, Carriage::in_place,
    Carriage::cpu_mapped, Carriage::staged,         Carriage::unattributed};
constexpr std::array<Member, 5> members{Member::host, Member::p2p, Member::rdma, Member::storage,
                                        Member::async};

std::string session_text(const LedgerSnapshot& ledger, Style style) {
  std::string text = fmt::format(
      "{}  session {} of process {}{}{}\n", painted("ledger", Paint::strong, style), ledger.session,
      ledger.process_id, ledger.software_machine ? ", software machine" : "",
      ledger.alive ? "" : ", no longer running");
  text += fmt::format("  transfers   {} done, {} refused, {} failed, {} cancelled, {} {}\n",
                      ledger.transfers_done, ledger.transfers_refused, ledger.transfers_failed,
                      ledger.transfers_cancelled, ledger.transfers_running,
                      ledger.alive ? "running" : "cut off");
  const std::uint64_t total = ledger.bytes.total();
  text += fmt::format("  bytes       {}\n", exact_bytes(total));
  const std::size_t digits = grouped(total).size();
  for (const Carriage carriage : ledger_carriages) {
    const std::uint64_t bytes = ledger.bytes[carriage];
    if (bytes == 0) continue;
    text += fmt::format("              {} {} B  {}\n", left(to_string(carriage), 15),
                        right(grouped(bytes), digits), right(share(bytes, total), 8));
  }
  if (ledger.staged_under_preferred != 0) {
    text += fmt::format("  staged      {} transfers staged although direct was preferred\n",
                        ledger.staged_under_preferred);
  }
  if (ledger.pinned_bytes != 0)
    text += fmt::format("  bounce      {} at most for one transfer\n",
                        exact_bytes(ledger.pinned_bytes));
  if (ledger.last_cause != Cause::none) {
    const CauseRow& row = cause_row(ledger.last_cause);
    text += fmt::format("  last cause  {}: {}\n", row.id, row.sentence);
  }
  return text;
}

struct Metric {
  std::string_view name;
  std::string_view type;
  std::string_view help;
  std::uint64_t LedgerSnapshot::*field;
};

constexpr std::array<Metric, 3> metrics{{
    {"nobounce_transfers_running", "gauge", "Transfers in flight.",
     &LedgerSnapshot::transfers_running},
    {"nobounce_transfer_pinned_bytes_max", "gauge",
     "Most bounce memory in host DRAM that one transfer has used.", &LedgerSnapshot::pinned_bytes},
    {"nobounce_staged_under_preferred_total", "counter",
     "Transfers that staged although direct was preferred.",
     &LedgerSnapshot::staged_under_preferred},
}};

struct Ending {
  std::string_view state;
  std::uint64_t LedgerSnapshot::*field;
};

constexpr std::array<Ending, 4> endings{{
    {"done", &LedgerSnapshot::transfers_done},
    {"refused", &LedgerSnapshot::transfers_refused},
    {"failed", &LedgerSnapshot::transfers_failed},
    {"cancelled", &LedgerSnapshot::transfers_cancelled},
}};

std::string labels_of(const LedgerSnapshot& ledger) {
  return fmt::format("pid=\"{}\",session=\"{}\",machine=\"{}\"", ledger.process_id, ledger.session,
                     ledger.software_machine ? "soft" : "live");
}

std::string head(std::string_view name, std::string_view type, std::string_view help) {
  return fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

}  // namespace

std::string sessions_text(const std::vector<LedgerSnapshot>& ledgers, Style style) {
  if (ledgers.empty()) return "no running session of this user publishes a ledger\n";
  std::string text;
  for (const LedgerSnapshot& ledger : ledgers) {
    if (!text.empty()) text += "\n";
    text += session_text(ledger, style);
  }
  return text;
}

std::string sessions_prometheus(const std::vector<LedgerSnapshot>& ledgers) {
  std::string text =
      head("nobounce_bytes_total", "counter", "Bytes that arrived, by member and carriage.");
  for (const LedgerSnapshot& ledger : ledgers) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      for (const Carriage carriage : ledger_carriages) {
        const std::uint64_t bytes = ledger.bytes_by_member[i][carriage];
        // Carriages that may be judged are always there, so that an alert on staged bytes has a
        // series to watch.
        const bool always = members[i] == Member::storage &&
                            (carriage == Carriage::direct || carriage == Carriage::staged);
        if (bytes == 0 && !always) continue;
        text += fmt::format("nobounce_bytes_total{{{},member=\"{}\",carriage=\"{}\"}} {}\n",
                            labels_of(ledger), to_string(members[i]), to_string(carriage), bytes);
      }
    }
  }
  text += head("nobounce_transfers_total", "counter", "Transfers that ended, by how.");
  for (const LedgerSnapshot& ledger : ledgers) {
    for (const Ending& ending : endings) {
      text += fmt::format("nobounce_transfers_total{{{},state=\"{}\"}} {}\n", labels_of(ledger),
                          ending.state, ledger.*ending.field);
    }
  }
  for (const Metric& metric : metrics) {
    text += head(metric.name, metric.type, metric.help);
    for (const LedgerSnapshot& ledger : ledgers) {
      // What a process had in flight when it was killed is not running any more.
      const bool over = !ledger.alive && metric.field == &LedgerSnapshot::transfers_running;
      text += fmt::format("{}{{{}}} {}\n", metric.name, labels_of(ledger),
                          over ? 0 : ledger.*metric.field);
    }
  }
  return text;
}

}  // namespace nobounce::report
