// The bus between a device and a GPU: what lies on the way, and whether peer requests pass it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nobounce/finding.hpp>
#include <nobounce/machine.hpp>
#include "core/facts.hpp"

namespace nobounce::judge {

struct PathJudgement {
  std::vector<Finding> findings;
  std::vector<Cause> degraded_causes;  ///< passes, but slower than it should
};

/// Topology, IOMMU, ACS, host bridges and links between a NIC or drive and a GPU. Both must exist.
[[nodiscard]] PathJudgement judge_path(const Machine& machine, DeviceRef device, std::uint32_t gpu,
                                       const core::TextFact& iommu);

/// The same between two GPUs over PCIe. A translating IOMMU forbids nothing by itself there: the
/// driver maps peer windows through it where its settings say so.
[[nodiscard]] PathJudgement judge_peer_path(const Machine& machine, std::uint32_t source_gpu,
                                            std::uint32_t target_gpu, const core::TextFact& iommu);

/// The one finding of a path whose other end nobody can name: unknown.
[[nodiscard]] Finding path_unknown(std::string subject, std::string observed, std::string source);

}  // namespace nobounce::judge
