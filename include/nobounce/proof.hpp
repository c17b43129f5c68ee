// A proof: for pairs and directions, three layers of evidence and the verdict they support
// together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nobounce/finding.hpp>
#include <nobounce/receipt.hpp>
#include <nobounce/words.hpp>

namespace nobounce {

/// What independent counters could say of a row.
enum class PhysicalState : std::uint8_t {
  separated,     ///< direct and control differ by far more than their spread
  inconclusive,  ///< the counters were read, but do not tell the two apart
  unreadable,    ///< no counter that could tell them apart can be read here
};
[[nodiscard]] std::string_view to_string(PhysicalState value);

/// A rate per payload byte over several volumes: the slope of a straight line, and its standard
/// error.
struct Slope {
  double per_byte = 0;
  double error = 0;
};

/// Static layer: what could be known before a byte moved.
struct StaticLayer {
  FindingState state = FindingState::unknown;  ///< worst of the findings
  std::vector<Finding> findings;
};

/// Runtime layer: what the receipts of the row's transfers say.
struct RuntimeLayer {
  CarriageBytes bytes;
  CarriageBytes control_bytes;
  Known known = Known::claimed;
  std::optional<bool> data_verified;  ///< by the owner of the target
};

/// What one counter that the mover does not own said, beside the same for the control.
struct WitnessSlope {
  std::string witness;            ///< `host_dram`, `gpu_nvlink`, ...
  bool separates = false;         ///< it can tell direct from staged for this row
  std::optional<Slope> transfer;  ///< of its unit (bytes, ns, operations) per payload byte
  std::optional<Slope> control;
  Cause unreadable = Cause::none;  ///< why there is no value
  std::string detail;              ///< the same in words
};

/// Physical layer: slopes against a forced-staged control of the same volumes.
struct PhysicalLayer {
  PhysicalState state = PhysicalState::unreadable;
  std::optional<Slope> host_dram_bytes;  ///< bytes of host DRAM read and written per payload byte
  std::optional<Slope> control_host_dram_bytes;
  std::optional<Slope> cpu_ns;  ///< CPU time per payload byte; empty on a software machine
  std::optional<Slope> control_cpu_ns;
  std::vector<WitnessSlope> witnesses;  ///< all that were asked, also those that could not be read
  std::vector<std::uint64_t> volumes_bytes;
  Cause unreadable = Cause::none;  ///< why, where unreadable

  [[nodiscard]] const WitnessSlope* of(std::string_view witness) const {
    for (const WitnessSlope& one : witnesses) {
      if (one.witness == witness) return &one;
    }
    return nullptr;
  }
};

/// Would the direct path help? The staged control's bottleneck and the most that direct could win.
struct Benefit {
  std::string bottleneck;  ///< "host bridge link of gpu:0"
  std::optional<double> speedup_max;
  bool model = false;  ///< from link widths and byte counts of a software machine, not measured
};

struct ProofRow {
  Member member = Member::storage;
  std::string source;
  std::string target;
  std::string direction;  ///< `read`, `write`, `copy`
  Issuer issuer = Issuer::host;
  Poster poster = Poster::cpu;
  Verdict verdict = Verdict::unknown;
  Link link = Link::none;
  StaticLayer facts;
  RuntimeLayer runtime;
  PhysicalLayer physical;
  Known known = Known::claimed;
  std::vector<Cause> causes;
  std::vector<std::string> contradictions;  ///< between layers, in words; printed first
  std::vector<std::string> missing;         ///< what an `unknown` verdict lacks
  Benefit benefit;
};

struct Proof {
  std::string host_kind;  ///< live, soft
  std::string machine;
  std::vector<ProofRow> rows;
};

enum class ProofChangeKind : std::uint8_t { appeared, vanished, changed };
[[nodiscard]] std::string_view to_string(ProofChangeKind value);

/// What is different for one row since an earlier proof.
struct ProofChange {
  struct Field {
    std::string name;  ///< `verdict`, `known`, `link`, `causes`
    std::string before;
    std::string after;
    bool operator==(const Field&) const = default;
  };
  ProofChangeKind kind = ProofChangeKind::changed;
  std::string row;            ///< `p2p gpu:0 -> gpu:1 copy`; `machine` where another one was proved
  std::vector<Field> fields;  ///< what changed; of a row that appeared or vanished its verdict
  bool operator==(const ProofChange&) const = default;
};

}  // namespace nobounce
