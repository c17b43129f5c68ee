// facts -> findings for an ordered pair of GPUs: can bytes travel between them without host memory?
#pragma once

#include <cstdint>
#include <vector>

#include <nobounce/finding.hpp>
#include <nobounce/machine.hpp>
#include <nobounce/place.hpp>
#include "core/facts.hpp"

namespace nobounce::judge {

struct PeerQuestion {
  const Machine& machine;
  const core::HostFacts& host;
  std::uint32_t source = 0;  ///< GPUs of the machine
  std::uint32_t target = 0;
  AllocationKind source_kind = AllocationKind::device;
  AllocationKind target_kind = AllocationKind::device;
};

struct PeerJudgement {
  std::vector<Finding> findings;  ///< every precondition: driver, bus, access, memory
  bool possible = false;          ///< no finding is unmet (unknown ones do not forbid)
  bool degraded = false;          ///< possible, but through a host bridge, across sockets or slow
  std::vector<Cause> degraded_causes;
  Link link = Link::none;  ///< what a direct copy would travel over
  /// What to blame first where a probe's bytes do not arrive although nothing is unmet:
  /// p2p_wrong_data unless the path gives a better reason.
  Cause suspect = Cause::none;
};

/// A GPU and itself are no pair: no findings, not possible, no link.
[[nodiscard]] PeerJudgement judge_peer(const PeerQuestion& question);

/// Adds what a provider found out by trying. Where both speak of one cause and subject, the tried
/// finding replaces the judged one unless it is unknown.
void settle(std::vector<Finding>& judged, std::vector<Finding> tried);

}  // namespace nobounce::judge
