// One row of a proof.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "evidence/slope.hpp"
#include "proof/benefit.hpp"
#include "proof/decide.hpp"
#include "proof/prove.hpp"
#include "proof/row_places.hpp"
#include "proof/series.hpp"

namespace nobounce::proof {
namespace {

using evidence::WitnessKind;
using evidence::WitnessReading;

/// Everything a row gathers while it runs.
class RowRun {
 public:
  RowRun(Session& session, system::Host& host, evidence::Witnesses& witnesses,
         const Subject& subject, const ProveOptions& options, ProofRow& row)
      : session_(session),
        host_(host),
        witnesses_(witnesses),
        subject_(subject),
        options_(options),
        row_(row),
        places_(session, host, subject) {}

  void run() {
    largest_ = *std::max_element(options_.volumes_bytes.begin(), options_.volumes_bytes.end());
    if (Status prepared = places_.prepare(largest_, options_.seed); !prepared.ok())
      return give_up(prepared.error());
    if (Status opened = places_.open(largest_); !opened.ok()) return give_up(opened.error());
    if (!read_findings()) return;
    row_.physical.volumes_bytes = options_.volumes_bytes;
    warm_up();
    normalise_pcie();
    for (std::uint32_t round = 0; round < options_.rounds && going_; ++round) {
      for (const std::uint64_t volume : options_.volumes_bytes) {
        idle();
        if (!measure(volume, Policy::staged_only, control_)) return;
        // Not direct_required: where the session stages, the row is to show that it does.
        if (!measure(volume, Policy::direct_preferred, transfer_)) return;
      }
    }
    conclude();
  }

 private:
  void give_up(const Error& error) {
    going_ = false;
    row_.missing.push_back(to_string(error));
    add_causes();
    add_cause(error.cause);
    row_.verdict = Verdict::unknown;
  }

  void add_cause(Cause cause) {
    if (cause == Cause::none || cause == Cause::policy_staged_only) return;
    if (std::find(row_.causes.begin(), row_.causes.end(), cause) == row_.causes.end())
      row_.causes.push_back(cause);
  }

  /// Those that the plan and the receipts name.
  void add_causes() {
    for (const Cause cause : seen_causes_) add_cause(cause);
  }

  /// The static layer. False: it forbids the direct path, and the row ends with what the control
  /// shows.
  bool read_findings() {
    Result<Route> route =
        session_.plan(places_.source(largest_), places_.target(largest_), Policy::direct_preferred);
    if (!route.ok()) {
      give_up(route.error());
      return false;
    }
    row_.link = route->link;
    degraded_ = route->degraded;
    for (const Cause cause : route->causes) seen_causes_.push_back(cause);
    if (!route->candidates.empty())
      row_.facts.findings = route->candidates.front().assessment.findings;
    row_.facts.state = FindingState::met;
    for (const Finding& finding : row_.facts.findings) {
      if (finding.state == FindingState::unmet) row_.facts.state = FindingState::unmet;
      if (finding.state == FindingState::unknown && row_.facts.state == FindingState::met) {
        row_.facts.state = FindingState::unknown;
      }
    }
    const bool direct = !route->candidates.empty() && route->candidates.front().assessment.usable &&
                        route->candidates.front().carriage != Carriage::staged;
    if (direct || options_.force) return true;
    (void)measure(options_.volumes_bytes.front(), Policy::direct_preferred, transfer_);
    if (!going_) return false;
    row_.physical.unreadable = transfer_.failed(WitnessKind::host_dram).unreadable;
    if (row_.physical.unreadable == Cause::none) row_.physical.state = PhysicalState::inconclusive;
    add_causes();
    decide(row_, true, false);
    measure_what_is_refused();
    return false;
  }

  /// What the direct path would win if its preconditions were met, on a machine that has a clock.
  void measure_what_is_refused() {
    if (host_.kind() != HostKind::live) return;
    const Verdict verdict = row_.verdict;
    if (measure(largest_, Policy::staged_only, control_)) {
      row_.benefit =
          measured_benefit(session_, host_, subject_, places_, largest_, control_.best_ns(), 0);
    }
    row_.verdict = verdict;  // a control that fails is not what the row is about
  }

  /// The session's probe and the first use of memory and streams belong to no volume. What fails
  /// here fails again where it is told.
  void warm_up() {
    const std::uint64_t volume = options_.volumes_bytes.front();
    for (const Policy policy : {Policy::staged_only, Policy::direct_preferred}) {
      if (!places_.open(volume).ok()) return;
      const std::uint64_t begin_ns = host_.clock().now_ns();
      (void)transfer(volume, policy);
      last_elapsed_ns_ = host_.clock().now_ns() - begin_ns;
    }
  }

  [[nodiscard]] Outcome transfer(std::uint64_t volume, Policy policy) {
    if (policy == Policy::staged_only) return places_.stage(volume);
    return session_.transfer(places_.source(volume), places_.target(volume), {.policy = policy});
  }

  /// PCIe adds overhead to what it carries: 1.18 bytes counted for each byte of a plain pinned copy
  /// on an H200. Such copies of the row's own directions give the unit.
  void normalise_pcie() {
    if (host_.kind() != HostKind::live) return;
    Result<Region> buffer = session_.allocate_host(largest_);
    if (!buffer.ok() || !places_.open(largest_).ok()) return;
    double counted = 0;
    int legs = 0;
    const auto leg = [&](const Place& source, const Place& target) {
      const WitnessReading before = witnesses_.read();
      if (!session_.transfer(source, target).ok()) return false;
      const auto moved_bytes = evidence::moved(before.of(WitnessKind::gpu_pcie),
                                               witnesses_.read().of(WitnessKind::gpu_pcie));
      if (!moved_bytes.value.has_value()) return false;
      counted += *moved_bytes.value;
      ++legs;
      return true;
    };
    const Place source = places_.source(largest_);
    const Place target = places_.target(largest_);
    if (std::holds_alternative<GpuMemory>(source) && !leg(source, buffer->place())) return;
    if (std::holds_alternative<GpuMemory>(target) && !leg(buffer->place(), target)) return;
    if (legs > 0) pcie_unit_ = counted / legs / static_cast<double>(largest_);
  }

  /// The background of the machine, as long as a transfer takes.
  void idle() {
    const WitnessReading before = witnesses_.read();
    if (host_.kind() == HostKind::live) {
      (void)host_.workers().wait([] { return false; },
                                 before.time_ns + std::max(options_.idle_ns_min, last_elapsed_ns_));
    }
    background_.take(before, witnesses_.read());
  }

  /// One transfer between two readings, verified outside them. False: the row cannot go on.
  bool measure(std::uint64_t volume, Policy policy, Series& series) {
    if (Status opened = places_.open(volume); !opened.ok()) {
      give_up(opened.error());
      return false;
    }
    const Place source = places_.source(volume);
    const Place target = places_.target(volume);
    if (Status spoiled = spoil(source, target); !spoiled.ok()) {
      give_up(spoiled.error());
      return false;
    }
    const WitnessReading before = witnesses_.read();
    const std::uint64_t begin_ns = host_.clock().now_ns();
    const Outcome outcome = transfer(volume, policy);
    const std::uint64_t transfer_ns = host_.clock().now_ns() - begin_ns;
    const WitnessReading after = witnesses_.read();
    last_elapsed_ns_ = after.time_ns - before.time_ns;
    account(outcome, policy);
    if (!outcome.ok() && outcome.receipt.bytes.total() < volume) {
      give_up(*outcome.error);
      return false;
    }
    if (Status verified = verify(source, target); !verified.ok()) {
      give_up(verified.error());
      return false;
    }
    // A software machine has no background, and its clock is nobody's time.
    series.add(volume, transfer_ns, before, after,
               host_.kind() == HostKind::live ? background_ : Background{});
    return true;
  }

  /// Other bytes in GPU memory, so that a transfer that does nothing is seen. A file is new each
  /// time, and a peer is sent other bytes each time.
  Status spoil(const Place& source, const Place& target) {
    if (std::holds_alternative<RemoteMemory>(target))
      return session_.fill_pattern(source, options_.seed + ++runs_);
    if (!std::holds_alternative<GpuMemory>(target)) return {};
    return session_.fill_pattern(target, options_.seed ^ 0x5a5a5a5a5a5a5a5aull);
  }

  void account(const Outcome& outcome, Policy policy) {
    const Receipt& receipt = outcome.receipt;
    if (policy == Policy::staged_only) {
      row_.runtime.control_bytes += receipt.bytes;
      return;
    }
    const bool first = row_.runtime.bytes.total() == 0;
    row_.runtime.bytes += receipt.bytes;
    row_.runtime.known = first ? receipt.known : std::min(row_.runtime.known, receipt.known);
    if (receipt.link != Link::none) row_.link = receipt.link;
    row_.issuer = receipt.issuer;
    row_.poster = receipt.poster;
    for (std::uint8_t i = 0; i < receipt.cause_count; ++i)
      seen_causes_.push_back(receipt.causes[i]);
    degraded_ = degraded_ || receipt.degraded;
  }

  /// An end that cannot be read is no proof of wrong data.
  Status verify(const Place& source, const Place& target) {
    const Result<std::string> sent = session_.checksum(source);
    if (!sent.ok()) return sent.error();
    const Result<std::string> arrived = session_.checksum(target);
    if (!arrived.ok()) return arrived.error();
    row_.runtime.data_verified = row_.runtime.data_verified.value_or(true) && *sent == *arrived;
    return {};
  }

  void conclude() {
    PhysicalLayer& physical = row_.physical;
    for (std::size_t i = 0; i < evidence::witness_count; ++i)
      physical.witnesses.push_back(joined(static_cast<WitnessKind>(i)));
    const auto slopes = [&](WitnessKind kind) { return *physical.of(to_string(kind)); };
    physical.host_dram_bytes = slopes(WitnessKind::host_dram).transfer;
    physical.control_host_dram_bytes = slopes(WitnessKind::host_dram).control;
    physical.cpu_ns = slopes(WitnessKind::cpu_time).transfer;
    physical.control_cpu_ns = slopes(WitnessKind::cpu_time).control;
    physical.unreadable = slopes(WitnessKind::host_dram).unreadable;
    physical.state = PhysicalState::inconclusive;
    if (physical.host_dram_bytes.has_value() && physical.control_host_dram_bytes.has_value() &&
        evidence::separated(*physical.host_dram_bytes, *physical.control_host_dram_bytes, 1.0)) {
      physical.state = PhysicalState::separated;
    }
    add_causes();
    decide(row_, false, degraded_);
    name_background();
    row_.benefit = host_.kind() == HostKind::live
                       ? measured_benefit(session_, host_, subject_, places_, largest_,
                                          control_.best_ns(), transfer_.best_ns())
                       : model_benefit(session_.machine(), subject_, &physical);
  }

  [[nodiscard]] WitnessSlope joined(WitnessKind kind) const {
    WitnessSlope slope;
    slope.witness = to_string(kind);
    slope.separates = evidence::separates(kind, row_.member, row_.link);
    slope.transfer = evidence::fit(transfer_.of(kind));
    slope.control = evidence::fit(control_.of(kind));
    const evidence::WitnessValue& failed = transfer_.failed(kind).unreadable != Cause::none
                                               ? transfer_.failed(kind)
                                               : control_.failed(kind);
    if (!slope.transfer.has_value() || !slope.control.has_value()) {
      slope.unreadable = failed.unreadable;
      slope.detail = failed.detail;
    } else if (kind == WitnessKind::gpu_pcie && pcie_unit_ > 0) {
      for (Slope* one : {&*slope.transfer, &*slope.control}) {
        one->per_byte /= pcie_unit_;
        one->error /= pcie_unit_;
      }
      slope.detail = "divided by " + std::to_string(pcie_unit_) +
                     ", what a plain pinned copy shows per byte here";
    }
    return slope;
  }

  /// Other work on the machine, where it may be what leaves the row open.
  void name_background() {
    if (row_.verdict != Verdict::unknown || !transfer_.drowned()) return;
    row_.missing.emplace_back("an idle machine: others moved as many bytes as the transfer");
    add_cause(Cause::evidence_not_idle);
  }

  Session& session_;
  system::Host& host_;
  evidence::Witnesses& witnesses_;
  const Subject& subject_;
  const ProveOptions& options_;
  ProofRow& row_;
  RowPlaces places_;
  bool going_ = true;
  bool degraded_ = false;
  std::vector<Cause> seen_causes_;
  std::uint64_t last_elapsed_ns_ = 0;
  std::uint64_t largest_ = 0;
  std::uint64_t runs_ = 0;
  double pcie_unit_ = 0;  ///< bytes counted per byte of a plain pinned copy; 0: not known
  Background background_;
  Series transfer_;
  Series control_;
};

/// `nvme0n1` of `drive:nvme0n1`.
std::string drive_of(const Subject& subject) {
  constexpr std::string_view prefix = "drive:";
  if (subject.medium.rfind(prefix, 0) != 0) return "";
  return subject.medium.substr(prefix.size());
}

std::vector<std::uint32_t> gpus_of(const Subject& subject) {
  if (subject.member == Member::p2p) return {subject.source_gpu, subject.target_gpu};
  return {subject.writing ? subject.source_gpu : subject.target_gpu};
}

}  // namespace

ProofRow prove_row(Session& session, system::Host& host, evidence::Witnesses& witnesses,
                   const Subject& subject, const ProveOptions& options) {
  ProofRow row;
  row.member = subject.member;
  const std::string source_gpu = "gpu:" + std::to_string(subject.source_gpu);
  const std::string target_gpu = "gpu:" + std::to_string(subject.target_gpu);
  const bool p2p = subject.member == Member::p2p;
  row.source = p2p || subject.writing ? source_gpu : subject.medium;
  row.target = !p2p && subject.writing ? subject.medium : target_gpu;
  row.direction = p2p ? "copy" : subject.writing ? "write" : "read";
  row.benefit = model_benefit(session.machine(), subject, nullptr);
  witnesses.watch(gpus_of(subject), drive_of(subject));
  RowRun(session, host, witnesses, subject, options, row).run();
  witnesses.watch({});
  return row;
}

}  // namespace nobounce::proof
