// What differs between two machines, or two times of one, that can matter to a member
// (`nobounce.diff/1`).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nobounce/cause.hpp>
#include "core/json.hpp"
#include "report/machine_label.hpp"
#include "report/style.hpp"

namespace nobounce::report {

/// Worst first. `verdict`: a pair travels otherwise. `setting`: a precondition of a member differs.
/// `detail`: may explain a difference in speed or version. `other`: nothing known depends on it.
enum class DiffWeight : std::uint8_t { verdict, setting, detail, other };
[[nodiscard]] std::string_view to_string(DiffWeight weight);

struct DiffLine {
  DiffWeight weight = DiffWeight::other;
  std::string subject;  ///< `p2p gpu:0 -> gpu:1 copy`, `/kernel/iommu`
  std::string before;
  std::string after;
  std::string members;  ///< which members it can matter to: `storage, rdma`; empty: none known
  Cause cause = Cause::none;
};

struct DiffReport {
  MachineLabel before;
  MachineLabel after;
  std::vector<DiffLine> lines;
};

[[nodiscard]] std::string diff_text(const DiffReport& report, Style style);
[[nodiscard]] core::Json diff_json(const DiffReport& report);

}  // namespace nobounce::report
