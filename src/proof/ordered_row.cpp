// Rows of member async.
#include "proof/ordered_row.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

#include "evidence/slope.hpp"
#include "proof/benefit.hpp"
#include "proof/decide.hpp"
#include "proof/row_places.hpp"
#include "proof/series.hpp"

namespace nobounce::proof {

namespace {

using evidence::WitnessKind;
using evidence::WitnessReading;

std::string per_operation(double value, const char* what) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f %s per operation", value, what);
  return text;
}

class OrderedRow {
 public:
  OrderedRow(Session& session, system::Host& host, evidence::Witnesses& witnesses,
             const Subject& subject, const ProveOptions& options, OrderedRun& run, ProofRow& row)
      : session_(session),
        host_(host),
        witnesses_(witnesses),
        options_(options),
        run_(run),
        row_(row),
        places_(session, host, subject) {}

  void prove() {
    const auto& volumes = options_.volumes_bytes;
    if (Status made =
            places_.prepare(*std::max_element(volumes.begin(), volumes.end()), options_.seed);
        !made.ok()) {
      return give_up(made.error());
    }
    read_findings();
    if (row_.facts.state == FindingState::unmet && !options_.force) {
      for (const Finding& finding : row_.facts.findings) {
        if (finding.state == FindingState::unmet) add_cause(finding.cause);
      }
      row_.verdict = Verdict::impossible;
      return;
    }
    row_.physical.volumes_bytes = volumes;
    for (const std::uint64_t volume : volumes) {
      if (!control(volume) || !ordered(volume)) return;
    }
    conclude();
  }

 private:
  void add_cause(Cause cause) {
    if (cause == Cause::none || cause == Cause::policy_staged_only) return;
    if (std::find(row_.causes.begin(), row_.causes.end(), cause) == row_.causes.end())
      row_.causes.push_back(cause);
  }
  void give_up(const Error& error) {
    row_.missing.push_back(to_string(error));
    add_cause(error.cause);
    row_.verdict = Verdict::unknown;
  }
  void read_findings() {
    row_.facts.findings = run_.findings();
    row_.facts.state = FindingState::met;
    for (const Finding& finding : row_.facts.findings) {
      if (finding.state == FindingState::unmet) row_.facts.state = FindingState::unmet;
      if (finding.state == FindingState::unknown && row_.facts.state == FindingState::met)
        row_.facts.state = FindingState::unknown;
    }
  }
  [[nodiscard]] bool spoil(const Place& target) {
    const Status spoiled = session_.fill_pattern(target, options_.seed ^ 0x5a5a5a5a5a5a5a5aull);
    if (!spoiled.ok()) give_up(spoiled.error());
    return spoiled.ok();
  }
  [[nodiscard]] bool verify(const Place& source, const Place& target) {
    const Result<std::string> sent = session_.checksum(source);
    const Result<std::string> arrived = session_.checksum(target);
    if (!sent.ok() || !arrived.ok()) {
      give_up(sent.ok() ? arrived.error() : sent.error());
      return false;
    }
    row_.runtime.data_verified = row_.runtime.data_verified.value_or(true) && *sent == *arrived;
    return true;
  }

  bool control(std::uint64_t volume) {
    const Place source = places_.source(volume);
    const Place target = places_.target(volume);
    if (!spoil(target)) return false;
    const WitnessReading before = witnesses_.read();
    const Outcome outcome = places_.stage(volume);
    control_.add(volume, 0, before, witnesses_.read(), Background{});
    row_.runtime.control_bytes += outcome.receipt.bytes;
    if (!outcome.ok()) give_up(*outcome.error);
    return outcome.ok() && verify(source, target);
  }

  bool ordered(std::uint64_t volume) {
    const Place source = places_.source(volume);
    const Place target = places_.target(volume);
    if (!spoil(target)) return false;
    const WitnessReading before = witnesses_.read();
    const Result<OrderedResult> result = run_.run(source, target, options_.seed);
    transfer_.add(volume, 0, before, witnesses_.read(), Background{});
    if (!result.ok()) {
      give_up(result.error());
      return false;
    }
    const Receipt& receipt = result->outcome.receipt;
    const bool first = row_.runtime.bytes.total() == 0;
    row_.runtime.bytes += receipt.bytes;
    row_.runtime.known = first ? receipt.known : std::min(row_.runtime.known, receipt.known);
    row_.issuer = receipt.issuer;
    row_.poster = receipt.poster;
    if (receipt.link != Link::none) row_.link = receipt.link;
    for (std::uint8_t i = 0; i < receipt.cause_count; ++i)
      seen_causes_.push_back(receipt.causes[i]);
    counted_ = result->counted;
    operations_ += result->operations;
    system_calls_ += result->system_calls;
    wake_ups_ += result->wake_ups;
    if (result->seen_by_issuer.has_value()) {
      row_.runtime.data_verified =
          row_.runtime.data_verified.value_or(true) && *result->seen_by_issuer;
    }
    if (result->outcome.error.has_value()) {
      give_up(*result->outcome.error);
      return false;
    }
    compare_sums(volume, result->sum_seen);
    return verify(source, target);
  }

  /// What the issuer added up, beside what lies in the control's host memory.
  void compare_sums(std::uint64_t volume, std::optional<std::uint64_t> seen) {
    if (!seen.has_value()) return;
    const std::optional<std::uint64_t> sent = places_.sum_of_staged(volume);
    if (sent.has_value())
      row_.runtime.data_verified = row_.runtime.data_verified.value_or(true) && *sent == *seen;
  }

  void conclude() {
    PhysicalLayer& physical = row_.physical;
    for (std::size_t i = 0; i < evidence::witness_count; ++i) {
      const auto kind = static_cast<WitnessKind>(i);
      WitnessSlope slope;
      slope.witness = to_string(kind);
      slope.separates = evidence::separates(kind, Member::storage, row_.link);
      slope.transfer = evidence::fit(transfer_.of(kind));
      slope.control = evidence::fit(control_.of(kind));
      if (!slope.transfer.has_value() || !slope.control.has_value()) {
        slope.unreadable = transfer_.failed(kind).unreadable;
        slope.detail = transfer_.failed(kind).detail;
      }
      physical.witnesses.push_back(std::move(slope));
    }
    const WitnessSlope& dram = *physical.of(to_string(WitnessKind::host_dram));
    physical.host_dram_bytes = dram.transfer;
    physical.control_host_dram_bytes = dram.control;
    physical.unreadable = dram.unreadable;
    physical.state = PhysicalState::inconclusive;
    if (dram.transfer.has_value() && dram.control.has_value() &&
        evidence::separated(*dram.transfer, *dram.control, 1.0)) {
      physical.state = PhysicalState::separated;
    }
    if (counted_) {
      add_cost("system_calls", system_calls_, "system calls");
      add_cost("wake_ups", wake_ups_, "wake-ups");
    }
    for (const Cause cause : seen_causes_) add_cause(cause);
    decide(row_, false, false);
    // Only of a row that is known: what is unknown stays so, with what it lacks.
    const bool known = row_.verdict == Verdict::direct || row_.verdict == Verdict::staged;
    if (row_.poster == Poster::cpu_proxy && known && row_.contradictions.empty()) {
      // Degraded is direct with a flaw: what a proxy stages stays staged.
      if (row_.verdict == Verdict::direct) row_.verdict = Verdict::degraded;
      row_.missing.clear();  // who posts is known from the receipts alone
      add_cause(Cause::async_cpu_proxy);
    }
  }

  void add_cost(const char* name, std::uint64_t count, const char* what) {
    WitnessSlope slope;
    slope.witness = name;
    const auto bytes = static_cast<double>(std::max<std::uint64_t>(row_.runtime.bytes.total(), 1));
    slope.transfer = Slope{static_cast<double>(count) / bytes, 0};
    slope.control = Slope{0, 0};
    const auto operations = static_cast<double>(std::max<std::uint64_t>(operations_, 1));
    slope.detail = per_operation(static_cast<double>(count) / operations, what);
    row_.physical.witnesses.push_back(std::move(slope));
  }

  Session& session_;
  system::Host& host_;
  evidence::Witnesses& witnesses_;
  const ProveOptions& options_;
  OrderedRun& run_;
  ProofRow& row_;
  RowPlaces places_;
  Series transfer_;
  Series control_;
  std::vector<Cause> seen_causes_;
  bool counted_ = false;
  std::uint64_t operations_ = 0;
  std::uint64_t system_calls_ = 0;
  std::uint64_t wake_ups_ = 0;
};

}  // namespace

ProofRow prove_ordered_row(Session& session, system::Host& host, evidence::Witnesses& witnesses,
                           const Subject& subject, const ProveOptions& options, OrderedRun& run) {
  ProofRow row;
  row.member = Member::async;
  row.source = subject.medium;
  row.target = "gpu:" + std::to_string(subject.target_gpu);
  row.direction = "read";
  row.issuer = run.issuer();
  row.benefit = model_benefit(session.machine(), subject, nullptr);
  witnesses.watch({subject.target_gpu});
  OrderedRow(session, host, witnesses, subject, options, run, row).prove();
  witnesses.watch({});
  return row;
}

}  // namespace nobounce::proof
