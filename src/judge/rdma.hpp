// facts -> findings for a GPU and a network adapter: can the adapter reach the GPU's memory itself?
#pragma once

#include <cstdint>
#include <vector>

#include <nobounce/finding.hpp>
#include <nobounce/machine.hpp>
#include <nobounce/place.hpp>
#include "core/facts.hpp"

namespace nobounce::judge {

struct RdmaQuestion {
  const Machine& machine;
  const core::HostFacts& host;
  std::uint32_t gpu = 0;  ///< of the machine
  std::uint32_t nic = 0;
  AllocationKind kind = AllocationKind::device;
  /// The adapter was asked for by name: that a nearer one exists is held against it. Else it is
  /// only said.
  bool named = false;
};

struct RdmaJudgement {
  std::vector<Finding>
      findings;           ///< every precondition: library, adapter, ways of registering, bus
  bool possible = false;  ///< no finding is unmet (unknown ones do not forbid)
  bool degraded = false;  ///< possible, but through a host bridge, across sockets or slow
  std::vector<Cause> degraded_causes;
  Link link = Link::none;  ///< between GPU and adapter
};

/// Both must exist.
[[nodiscard]] RdmaJudgement judge_rdma(const RdmaQuestion& question);

}  // namespace nobounce::judge
