// facts -> findings for storage: can bytes travel between this file and this GPU without host
// memory?
#pragma once

#include <vector>

#include <nobounce/finding.hpp>
#include <nobounce/machine.hpp>
#include <nobounce/place.hpp>
#include "core/facts.hpp"

namespace nobounce::judge {

struct StorageQuestion {
  const Machine& machine;
  const core::HostFacts& host;
  const core::StorageFileFacts& file;
  std::uint32_t gpu = 0;
  bool writing = false;  ///< GPU -> file
  AllocationKind allocation = AllocationKind::device;
};

struct StorageJudgement {
  std::vector<Finding>
      findings;  ///< every precondition, in the order of the path: host, file, drive, bus, GPU
  bool possible = false;  ///< no finding is unmet (unknown ones do not forbid)
  bool degraded = false;  ///< possible, but through a host bridge or across sockets
  std::vector<Cause> degraded_causes;
};

[[nodiscard]] StorageJudgement judge_storage(const StorageQuestion& question);

}  // namespace nobounce::judge
