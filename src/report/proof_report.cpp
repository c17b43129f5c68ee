// The proof as text.
#include "report/proof_report.hpp"
#include "report/labelled.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/core.h>

namespace nobounce::report {

namespace {

constexpr std::size_t row_indent = 9;
constexpr std::size_t label_columns = 9;

std::string pair_text(const ProofRow& row) {
  return visible(fmt::format("{} -> {}", row.source, row.target));
}

std::string verdict_text(const ProofRow& row) {
  return row.verdict == Verdict::unknown || row.verdict == Verdict::impossible
             ? std::string(to_string(row.verdict))
             : fmt::format("{} ({})", to_string(row.verdict), to_string(row.known));
}

std::string link_text(const ProofRow& row) {
  return row.link == Link::none ? "-" : std::string(to_string(row.link));
}

/// Never `-0.00`.
std::string slope_text(const std::optional<Slope>& slope) {
  if (!slope.has_value()) return "-";
  const std::string text = fmt::format("{:.2f}", slope->per_byte);
  return text == "-0.00" ? "0.00" : text;
}

/// A labelled paragraph below a row.
std::string paragraph(std::string_view label, std::string_view text) {
  const std::size_t indent = row_indent + label_columns;
  return labelled(std::string(row_indent, ' ') + left(label, label_columns), indent, visible(text));
}

std::string contradictions(const std::vector<ProofRow>& rows, Style style) {
  std::string text;
  for (const ProofRow& row : rows) {
    for (const std::string& sentence : row.contradictions) {
      text += painted("CONTRADICTION", Paint::bad, style) +
              fmt::format("  {} {} {}\n", to_string(row.member), pair_text(row), row.direction);
      text += wrapped(visible(sentence), 4, text_width);
    }
  }
  if (text.empty()) return text;
  return text +
         "    Two layers of evidence exclude one another. Believe neither before it is "
         "known which lies.\n\n";
}

/// Each cause below each row that has it; its sentence and its remedy only the first time.
std::string causes_text(const ProofRow& row, std::set<Cause>& explained, Style style) {
  std::string text;
  for (const Cause cause : row.causes) {
    const CauseRow& entry = cause_row(cause);
    text += std::string(row_indent, ' ') + left(text.empty() ? "because" : "", label_columns) +
            painted(entry.id, Paint::strong, style) + "\n";
    if (!explained.insert(cause).second) continue;
    text += wrapped(entry.sentence, row_indent + label_columns + 2, text_width);
    const auto finding =
        std::find_if(row.facts.findings.begin(), row.facts.findings.end(), [&](const Finding& one) {
          return one.cause == cause && one.state == FindingState::unmet && !one.remedy.empty();
        });
    const std::string remedy =
        finding != row.facts.findings.end() ? finding->remedy : std::string(entry.remedy);
    if (!remedy.empty())
      text += wrapped("try: " + visible(remedy), row_indent + label_columns + 2, text_width);
  }
  return text;
}

std::string benefit_text(const Benefit& benefit) {
  if (!benefit.speedup_max.has_value()) return benefit.bottleneck;
  const std::string source =
      benefit.model ? "a model from link widths and byte counts, not measured" : "measured here";
  // A gain that rounding shows as none is none.
  if (*benefit.speedup_max < 1.05) {
    return fmt::format(
        "staging waits for the {}, and so would direct: it would be no faster, it would spare host "
        "memory ({})",
        benefit.bottleneck, source);
  }
  return fmt::format("staging waits for the {}; direct is at most {:.1f} times as fast ({})",
                     benefit.bottleneck, *benefit.speedup_max, source);
}

/// The counters of links, where they were read: a row whose host DRAM nobody counts rests on them.
std::string links_text(const PhysicalLayer& physical) {
  std::string text;
  for (const auto& [witness, name] :
       {std::pair{"gpu_nvlink", "NVLink"}, std::pair{"gpu_pcie", "PCIe of the GPUs"}}) {
    const WitnessSlope* slope = physical.of(witness);
    if (slope == nullptr || !slope->separates || !slope->transfer || !slope->control) continue;
    text += fmt::format("{}{} {} bytes per byte, {} for the control", text.empty() ? "" : "; ",
                        name, slope_text(slope->transfer), slope_text(slope->control));
  }
  return text;
}

/// What ordering and posting took, of rows that counted it.
std::string cost_text(const PhysicalLayer& physical) {
  std::string text;
  for (const char* witness : {"system_calls", "wake_ups"}) {
    const WitnessSlope* slope = physical.of(witness);
    if (slope != nullptr) text += (text.empty() ? "" : ", ") + slope->detail;
  }
  return text;
}

struct ProofColumns {
  std::size_t pair = 4;
  std::size_t verdict = 7;
  std::size_t link = 4;
};

std::string line(const ProofColumns& columns, std::string_view member, std::string_view pair,
                 std::string_view direction, const std::string& verdict, std::string_view link,
                 std::string_view dram, std::string_view control) {
  return fmt::format("{} {}  {}  {}  {}  {}  {}\n", left(member, row_indent - 1),
                     left(pair, columns.pair), left(direction, 5), verdict,
                     left(link, columns.link), right(dram, 6), right(control, 7));
}

std::string row_text(const ProofRow& row, const ProofColumns& columns, std::set<Cause>& explained,
                     Style style) {
  std::string text =
      line(columns, to_string(row.member), pair_text(row), row.direction,
           painted(left(verdict_text(row), columns.verdict), paint_of_verdict(row.verdict), style),
           link_text(row), slope_text(row.physical.host_dram_bytes),
           slope_text(row.physical.control_host_dram_bytes));
  if (const std::string links = links_text(row.physical); !links.empty())
    text += paragraph("links", links);
  if (row.issuer != Issuer::host)
    text += paragraph("ordered", fmt::format("by a {}, posted by {}", to_string(row.issuer),
                                             to_string(row.poster)));
  if (const std::string cost = cost_text(row.physical); !cost.empty())
    text += paragraph("cost", cost);
  text += causes_text(row, explained, style);
  for (const std::string& missing : row.missing) text += paragraph("missing", missing);
  if (!row.benefit.bottleneck.empty()) text += paragraph("helps?", benefit_text(row.benefit));
  return text;
}

std::string summary(const std::vector<ProofRow>& rows) {
  std::string text;
  for (const Verdict verdict : {Verdict::direct, Verdict::degraded, Verdict::staged,
                                Verdict::unknown, Verdict::impossible, Verdict::broken}) {
    const auto count = std::count_if(rows.begin(), rows.end(),
                                     [&](const ProofRow& row) { return row.verdict == verdict; });
    if (count == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, to_string(verdict));
  }
  return text;
}

}  // namespace

std::string proof_text(const Proof& proof, Style style) {
  ProofColumns columns;
  for (const ProofRow& row : proof.rows) {
    columns.pair = std::max(columns.pair, columns_of(pair_text(row)));
    columns.verdict = std::max(columns.verdict, columns_of(verdict_text(row)));
    columns.link = std::max(columns.link, columns_of(link_text(row)));
  }
  std::string text = contradictions(proof.rows, style);
  text += painted(line(columns, "member", "pair", "", left("verdict", columns.verdict), "link",
                       "DRAM/B", "control"),
                  Paint::faint, style);
  std::set<Cause> explained;
  for (const ProofRow& row : proof.rows) text += row_text(row, columns, explained, style);
  text += fmt::format("\n{} {}: {}.\n", proof.rows.size(), proof.rows.size() == 1 ? "row" : "rows",
                      summary(proof.rows));
  text +=
      "DRAM/B: bytes of host DRAM read and written per payload byte; control: the same for a "
      "transfer\nthat was made to stage.\n";
  return text;
}

std::string changes_text(const std::vector<ProofChange>& changes, std::string_view name,
                         Style style) {
  if (changes.empty()) return fmt::format("\nNothing changed since {}.\n", visible(name));
  std::string text = fmt::format("\nChanged since {}:\n", visible(name));
  for (const ProofChange& change : changes) {
    text += fmt::format("  {} {}\n", painted(left(to_string(change.kind), 8), Paint::notice, style),
                        visible(change.row));
    for (const ProofChange::Field& field : change.fields) {
      const auto shown = [](const std::string& value) {
        return value.empty() ? "-" : visible(value);
      };
      text += fmt::format("           {}: {} -> {}\n", field.name, shown(field.before),
                          shown(field.after));
    }
  }
  return text;
}

}  // namespace nobounce::report
