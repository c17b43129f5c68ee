// facts -> findings: may this process own that drive?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nobounce/finding.hpp>
#include "core/drive_facts.hpp"

namespace nobounce::judge {

enum class Consent : std::uint8_t { not_given, given };

/// In the order in which they matter: in use, not bound to vfio-pci (with the commands that bind
/// it), not asked for. A drive in use is refused whatever else holds.
[[nodiscard]] std::vector<Finding> judge_drive(const core::DriveFacts& facts, Consent consent);

}  // namespace nobounce::judge
