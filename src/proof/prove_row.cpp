// One row of a proof.
#include <algorithm>
#include <optional>
#include <utility>

#include "evidence/slope.hpp"
#include "proof/decide.hpp"
#include "proof/prove.hpp"

namespace nobounce::proof {
namespace {

using evidence::WitnessKind;
using evidence::WitnessReading;

/// The two places of a row at one volume. The file, if any, is closed and removed with it.
class Stage {
 public:
  Stage(Session& session, system::Host& host, const Subject& subject)
      : session_(session), host_(host), subject_(subject) {}
  ~Stage() {
    file_.reset();
    if (!subject_.path.empty()) (void)host_.storage().remove(subject_.path);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// Makes GPU memory for the largest volume, fills the source, and writes the file that a read row
  /// reads.
  Status prepare(std::uint64_t bytes_max, std::uint64_t seed) {
    if (subject_.member == Member::p2p) {
      if (Status made = allocate(source_, subject_.source_gpu, bytes_max); !made.ok()) return made;
      if (Status made = allocate(target_, subject_.target_gpu, bytes_max); !made.ok()) return made;
      return session_.fill_pattern(source_->place(), seed);
    }
    if (subject_.writing) {
      if (Status made = allocate(source_, subject_.source_gpu, bytes_max); !made.ok()) return made;
      return session_.fill_pattern(source_->place(), seed);
    }
    if (Status made = allocate(target_, subject_.target_gpu, bytes_max); !made.ok()) return made;
    if (Status filled = session_.fill_pattern(target_->place(), seed); !filled.ok()) return filled;
    return write_source_file(bytes_max);
  }

  /// Opens what one run needs; for writes a new file, so that nothing of the run before is left.
  Status open(std::uint64_t bytes) {
    if (!subject_.writing || subject_.member == Member::p2p) return {};
    file_.reset();
    Result<File> file =
        session_.open_file(subject_.path, {.mode = FileMode::replace, .length_bytes = bytes});
    if (!file.ok()) return file.error();
    file_.emplace(std::move(*file));
    return {};
  }

  [[nodiscard]] Place source(std::uint64_t bytes) const {
    return source_.has_value() ? source_->place(0, bytes) : file_->place(0, bytes);
  }
  [[nodiscard]] Place target(std::uint64_t bytes) const {
    return target_.has_value() ? target_->place(0, bytes) : file_->place(0, bytes);
  }

 private:
  Status allocate(std::optional<Region>& region, std::uint32_t gpu, std::uint64_t bytes) {
    Result<Region> made = session_.allocate(gpu, bytes);
    if (!made.ok()) return made.error();
    region.emplace(std::move(*made));
    return {};
  }

  /// The pattern goes out by way of host memory: this is preparation, not evidence.
  Status write_source_file(std::uint64_t bytes) {
    {
      Result<File> file =
          session_.open_file(subject_.path, {.mode = FileMode::replace, .length_bytes = bytes});
      if (!file.ok()) return file.error();
      const Outcome written =
          session_.transfer(target_->place(), file->place(), {.policy = Policy::staged_only});
      if (!written.ok()) return *written.error;
      if (Status committed = file->commit(false); !committed.ok()) return committed;
    }
    Result<File> reopened = session_.open_file(subject_.path);
    if (!reopened.ok()) return reopened.error();
    file_.emplace(std::move(*reopened));
    return {};
  }

  Session& session_;
  system::Host& host_;
  const Subject& subject_;
  std::optional<Region> source_;
  std::optional<Region> target_;
  std::optional<File> file_;
};

/// Everything a row gathers while it runs.
class RowRun {
 public:
  RowRun(Session& session, system::Host& host, evidence::Witnesses& witnesses,
         const Subject& subject, const ProveOptions& options, ProofRow& row)
      : session_(session),
        host_(host),
        witnesses_(witnesses),
        options_(options),
        row_(row),
        stage_(session, host, subject) {}

  void run() {
    const std::uint64_t largest =
        *std::max_element(options_.volumes_bytes.begin(), options_.volumes_bytes.end());
    if (Status prepared = stage_.prepare(largest, options_.seed); !prepared.ok())
      return give_up(prepared.error());
    if (Status opened = stage_.open(largest); !opened.ok()) return give_up(opened.error());
    if (!read_findings(largest)) return;
    row_.physical.volumes_bytes = options_.volumes_bytes;
    warm_up();
    for (std::uint32_t round = 0; round < options_.rounds && going_; ++round) {
      for (const std::uint64_t volume : options_.volumes_bytes) {
        idle();
        if (!measure(volume, Policy::staged_only, control_dram_, control_cpu_)) return;
        // Not direct_required: where the session stages, the row is to show that it does.
        if (!measure(volume, Policy::direct_preferred, dram_, cpu_)) return;
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
  bool read_findings(std::uint64_t largest) {
    Result<Route> route =
        session_.plan(stage_.source(largest), stage_.target(largest), Policy::direct_preferred);
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
    (void)measure(options_.volumes_bytes.front(), Policy::direct_preferred, dram_, cpu_);
    if (!going_) return false;
    if (!dram_.empty()) row_.physical.state = PhysicalState::inconclusive;
    add_causes();
    decide(row_, true, false);
    return false;
  }

  /// The session's probe and the first use of memory and streams belong to no volume. What fails
  /// here fails again where it is told.
  void warm_up() {
    const std::uint64_t volume = options_.volumes_bytes.front();
    for (const Policy policy : {Policy::staged_only, Policy::direct_preferred}) {
      if (!stage_.open(volume).ok()) return;
      const std::uint64_t begin_ns = host_.clock().now_ns();
      (void)session_.transfer(stage_.source(volume), stage_.target(volume), {.policy = policy});
      last_elapsed_ns_ = host_.clock().now_ns() - begin_ns;
    }
  }

  /// The background of the machine, as long as a transfer takes.
  void idle() {
    const WitnessReading before = witnesses_.read();
    if (host_.kind() == HostKind::live) {
      (void)host_.workers().wait([] { return false; },
                                 before.time_ns + std::max(options_.idle_ns_min, last_elapsed_ns_));
    }
    const WitnessReading after = witnesses_.read();
    idle_ns_ = after.time_ns - before.time_ns;
    idle_dram_ = delta(before, after, WitnessKind::host_dram);
    idle_cpu_ = delta(before, after, WitnessKind::cpu_time);
  }

  static std::optional<double> delta(const WitnessReading& before, const WitnessReading& after,
                                     WitnessKind kind) {
    if (!before.of(kind).value.has_value() || !after.of(kind).value.has_value())
      return std::nullopt;
    return *after.of(kind).value - *before.of(kind).value;
  }

  /// Takes the background away: it grows with time, not with bytes.
  [[nodiscard]] double without_background(double counted, const std::optional<double>& idle,
                                          std::uint64_t elapsed) const {
    if (!idle.has_value() || idle_ns_ == 0 || host_.kind() != HostKind::live) return counted;
    return counted - *idle * static_cast<double>(elapsed) / static_cast<double>(idle_ns_);
  }

  /// One transfer between two readings, verified outside them. False: the row cannot go on.
  bool measure(std::uint64_t volume, Policy policy, std::vector<evidence::Point>& dram,
               std::vector<evidence::Point>& cpu) {
    if (Status opened = stage_.open(volume); !opened.ok()) {
      give_up(opened.error());
      return false;
    }
    const Place source = stage_.source(volume);
    const Place target = stage_.target(volume);
    if (Status spoiled = spoil(target); !spoiled.ok()) {
      give_up(spoiled.error());
      return false;
    }
    const WitnessReading before = witnesses_.read();
    const Outcome outcome = session_.transfer(source, target, {.policy = policy});
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
    if (const auto counted = delta(before, after, WitnessKind::host_dram)) {
      dram.push_back({volume, without_background(*counted, idle_dram_, last_elapsed_ns_)});
    } else if (row_.physical.unreadable == Cause::none) {
      row_.physical.unreadable = after.of(WitnessKind::host_dram).unreadable;
    }
    if (const auto counted = delta(before, after, WitnessKind::cpu_time)) {
      cpu.push_back({volume, without_background(*counted, idle_cpu_, last_elapsed_ns_)});
    }
    return true;
  }

  /// Other bytes in GPU memory, so that a transfer that does nothing is seen. A file is new each
  /// time.
  Status spoil(const Place& target) {
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
    physical.host_dram_bytes = evidence::fit(dram_);
    physical.control_host_dram_bytes = evidence::fit(control_dram_);
    physical.cpu_ns = evidence::fit(cpu_);
    physical.control_cpu_ns = evidence::fit(control_cpu_);
    physical.state = PhysicalState::inconclusive;
    if (physical.host_dram_bytes.has_value() && physical.control_host_dram_bytes.has_value() &&
        evidence::separated(*physical.host_dram_bytes, *physical.control_host_dram_bytes, 1.0)) {
      physical.state = PhysicalState::separated;
    }
    add_causes();
    decide(row_, false, degraded_);
  }

  Session& session_;
  system::Host& host_;
  evidence::Witnesses& witnesses_;
  const ProveOptions& options_;
  ProofRow& row_;
  Stage stage_;
  bool going_ = true;
  bool degraded_ = false;
  std::vector<Cause> seen_causes_;
  std::uint64_t last_elapsed_ns_ = 0;
  std::uint64_t idle_ns_ = 0;
  std::optional<double> idle_dram_;
  std::optional<double> idle_cpu_;
  std::vector<evidence::Point> dram_;
  std::vector<evidence::Point> cpu_;
  std::vector<evidence::Point> control_dram_;
  std::vector<evidence::Point> control_cpu_;
};

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
  row.benefit = model_benefit(session.machine(), subject);
  RowRun(session, host, witnesses, subject, options, row).run();
  return row;
}

}  // namespace nobounce::proof
