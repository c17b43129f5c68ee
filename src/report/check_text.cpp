// The preconditions table as text.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "core/remedy_risk.hpp"
#include "report/check_report.hpp"
#include "report/labelled.hpp"

namespace nobounce::report {

namespace {

Paint paint_of(FindingState state) {
  switch (state) {
    case FindingState::met:
      return Paint::good;
    case FindingState::unmet:
      return Paint::bad;
    case FindingState::unknown:
      return Paint::notice;
  }
  return Paint::plain;
}

std::string causes_text(const std::vector<Cause>& causes) {
  std::string text;
  for (const Cause cause : causes) {
    if (!text.empty()) text += ", ";
    text += to_string(cause);
  }
  return text;
}

std::string pair_text(const CheckRow& row) {
  return visible(fmt::format("{} -> {}", row.source, row.target));
}

struct Columns {
  std::size_t direction = 5;
  std::size_t pair = 4;
  std::size_t path = 5;
  std::size_t causes = 7;
};

Columns columns_for(const std::vector<CheckRow>& rows) {
  Columns columns;
  for (const CheckRow& row : rows) {
    columns.pair = std::max(columns.pair, columns_of(pair_text(row)));
    columns.path = std::max(columns.path, columns_of(visible(row.path)));
    columns.direction = std::max(columns.direction, row.direction.size());
  }
  return columns;
}

std::string table(const std::vector<CheckRow>& rows, Style style) {
  const Columns columns = columns_for(rows);
  const auto line = [&](std::string_view member, std::string_view pair, std::string_view direction,
                        std::string_view path, std::string_view state, const std::string& verdict) {
    return fmt::format("{} {}  {}  {}  {} {}", left(member, 8), left(pair, columns.pair),
                       left(direction, columns.direction), left(path, columns.path), state,
                       verdict);
  };
  std::string text = painted(line("member", "pair", "", "where", left("state", 8), "verdict"),
                             Paint::faint, style) +
                     "\n";
  for (const CheckRow& row : rows) {
    const std::string causes = causes_text(row.causes);
    std::string verdict = painted(to_string(row.verdict), paint_of_verdict(row.verdict), style);
    if (!causes.empty()) verdict += "  " + causes;
    text += line(to_string(row.member), pair_text(row), row.direction, visible(row.path),
                 painted(left(to_string(row.state), 8), paint_of(row.state), style), verdict) +
            "\n";
  }
  return text;
}

/// A finding and how many rows hold it.
struct Counted {
  Finding finding;
  std::size_t rows = 0;
  bool degrades = false;  ///< it does not forbid the direct path, but makes it slower
};

/// Of a row that is direct but slower. Where no finding speaks of a cause, the cause itself does.
std::vector<Finding> degrading_findings(const CheckRow& row) {
  std::vector<Finding> result;
  if (row.verdict != Verdict::degraded) return result;
  for (const Cause cause : row.causes) {
    const std::size_t before = result.size();
    for (const Finding& finding : row.findings) {
      if (finding.cause == cause) result.push_back(finding);
    }
    if (result.size() > before) continue;
    result.push_back({.cause = cause,
                      .subject = fmt::format("{} -> {}", row.source, row.target),
                      .state = FindingState::met,
                      .observed = std::string(cause_row(cause).sentence)});
  }
  return result;
}

void count(std::vector<Counted>& result, const Finding& finding, bool degrades) {
  const auto same = std::find_if(result.begin(), result.end(), [&](const Counted& counted) {
    return counted.finding == finding && counted.degrades == degrades;
  });
  if (same != result.end()) {
    ++same->rows;
  } else {
    result.push_back({finding, 1, degrades});
  }
}

std::vector<Counted> distinct_findings(const std::vector<CheckRow>& rows, bool met_too) {
  std::vector<Counted> result;
  for (const CheckRow& row : rows) {
    const std::vector<Finding> degrading = degrading_findings(row);
    for (const Finding& finding : degrading) count(result, finding, true);
    for (const Finding& finding : row.findings) {
      const bool quiet = finding.state == FindingState::met || only_a_copy_can_tell(finding);
      if (quiet && !met_too) continue;
      if (std::find(degrading.begin(), degrading.end(), finding) != degrading.end()) continue;
      count(result, finding, false);
    }
  }
  std::stable_sort(result.begin(), result.end(), [](const Counted& one, const Counted& two) {
    const auto rank = [](const Counted& counted) {
      if (counted.degrades) return 2;
      return counted.finding.state == FindingState::unmet     ? 0
             : counted.finding.state == FindingState::unknown ? 1
                                                              : 3;
    };
    return rank(one) < rank(two);
  });
  return result;
}

std::string finding_lines(const Counted& counted, Style style) {
  const Finding& finding = counted.finding;
  const std::string rows = counted.rows == 1 ? "1 row" : fmt::format("{} rows", counted.rows);
  const std::string_view state = counted.degrades ? "degraded" : to_string(finding.state);
  const Paint paint = counted.degrades ? Paint::notice : paint_of(finding.state);
  std::string text =
      fmt::format("{} {}  {}  {}\n", painted(left(state, 8), paint, style),
                  painted(to_string(finding.cause), Paint::strong, style), visible(finding.subject),
                  painted("(" + rows + ")", Paint::faint, style));
  const auto detail = [&](std::string_view label, const std::string& value) {
    if (value.empty()) return;
    text += labelled("         " + left(label, 9), 18, visible(value));
  };
  detail("observed", finding.observed);
  detail("needed", finding.needed);
  detail("source", finding.source);
  if (finding.state != FindingState::met || counted.degrades) {
    detail("try",
           finding.remedy.empty() ? std::string(cause_row(finding.cause).remedy) : finding.remedy);
    for (const core::RemedyRisk& risk : core::risks_of(finding)) {
      detail("risk", core::risk_text(risk));
    }
  }
  return text;
}

std::string note_lines(const CheckNote& note, Style style) {
  std::string text = "note     ";
  if (note.cause != Cause::none) {
    text += painted(to_string(note.cause), Paint::strong, style) + "  ";
  }
  text += visible(note.subject) + "\n";
  const auto detail = [&](std::string_view label, std::string_view value) {
    text += labelled("         " + left(label, 9), 18, visible(value));
  };
  detail("observed", note.text);
  if (note.cause != Cause::none) detail("try", cause_row(note.cause).remedy);
  for (const core::RemedyRisk& risk : core::risks_of(note.cause)) {
    detail("risk", core::risk_text(risk));
  }
  return text;
}

std::string summary(const std::vector<CheckRow>& rows) {
  std::string text;
  for (const Verdict verdict : {Verdict::direct, Verdict::degraded, Verdict::staged,
                                Verdict::unknown, Verdict::impossible, Verdict::broken}) {
    const auto count = std::count_if(rows.begin(), rows.end(),
                                     [&](const CheckRow& row) { return row.verdict == verdict; });
    if (count == 0) continue;
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", count, to_string(verdict));
  }
  return text;
}

}  // namespace

std::string check_text(const CheckReport& report, CheckTextOptions options, Style style) {
  std::string text = table(report.rows, style);
  const std::vector<Counted> findings = distinct_findings(report.rows, options.met_findings_too);
  if (!findings.empty()) text += "\n";
  for (const Counted& counted : findings) text += finding_lines(counted, style);
  if (!report.notes.empty()) text += "\n";
  for (const CheckNote& note : report.notes) text += note_lines(note, style);
  text += fmt::format(
      "\n{} {}: {}. A capability proves nothing: only a transfer shows how bytes travel.\n",
      report.rows.size(), report.rows.size() == 1 ? "row" : "rows", summary(report.rows));
  return text;
}

}  // namespace nobounce::report
