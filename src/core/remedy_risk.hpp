// What a remedy costs: how long it lasts, whether it needs a reboot, what it gives up.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nobounce/cause.hpp>
#include <nobounce/finding.hpp>

namespace nobounce::core {

enum class Lasting : std::uint8_t {
  this_run,      ///< one command, process or container
  until_reboot,  ///< the next boot undoes it
  always
};

/// One of the ways that a remedy offers.
struct RemedyRisk {
  std::string_view way;  ///< `setpci`, `iommu=pt`
  Lasting lasting = Lasting::this_run;
  bool needs_reboot = false;
  std::string_view gives_up;  ///< what is less safe afterwards; empty: nothing
  bool operator==(const RemedyRisk&) const = default;
};

[[nodiscard]] std::string_view to_string(Lasting lasting);

/// Of the remedy in a cause's row. Empty where nothing on the machine is changed.
[[nodiscard]] std::vector<RemedyRisk> risks_of(Cause cause);

/// Of the remedy that is shown for a finding: its own, or the one of its cause's row.
[[nodiscard]] std::vector<RemedyRisk> risks_of(const Finding& finding);

/// `setpci: until the next reboot; devices below ...`
[[nodiscard]] std::string risk_text(const RemedyRisk& risk);

}  // namespace nobounce::core
