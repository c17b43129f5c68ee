// The document `nobounce.check/1`.
#include <utility>

#include "core/remedy_risk.hpp"
#include "report/check_report.hpp"

namespace nobounce::report {

namespace {

core::Json risks_json(const std::vector<core::RemedyRisk>& risks) {
  core::JsonArray ways;
  for (const core::RemedyRisk& risk : risks) {
    ways.push_back(core::JsonObject{{"way", risk.way},
                                    {"lasts", to_string(risk.lasting)},
                                    {"needs_reboot", risk.needs_reboot},
                                    {"gives_up", risk.gives_up}});
  }
  return ways;
}

core::Json finding_json(const Finding& finding) {
  // Where nothing is to be done, nothing is risked.
  const bool shown = !finding.remedy.empty();
  return core::JsonObject{
      {"cause", to_string(finding.cause)},
      {"subject", finding.subject},
      {"state", to_string(finding.state)},
      {"observed", finding.observed},
      {"needed", finding.needed},
      {"remedy", finding.remedy},
      {"risk", risks_json(shown ? core::risks_of(finding) : std::vector<core::RemedyRisk>{})},
      {"source", finding.source},
  };
}

core::Json row_json(const CheckRow& row) {
  core::JsonArray findings;
  for (const Finding& finding : row.findings) findings.push_back(finding_json(finding));
  core::JsonArray causes;
  for (const Cause cause : row.causes) causes.emplace_back(to_string(cause));
  return core::JsonObject{
      {"member", to_string(row.member)},
      {"source", row.source},
      {"target", row.target},
      {"direction", row.direction},
      {"path", row.path.empty() ? core::Json(nullptr) : core::Json(row.path)},
      {"state", to_string(row.state)},
      {"verdict", to_string(row.verdict)},
      {"degraded", row.degraded},
      {"findings", std::move(findings)},
      {"causes", std::move(causes)},
  };
}

}  // namespace

core::Json check_json(const CheckReport& report) {
  core::JsonArray rows;
  for (const CheckRow& row : report.rows) rows.push_back(row_json(row));
  core::JsonArray notes;
  for (const CheckNote& note : report.notes) {
    const std::string_view remedy = cause_row(note.cause).remedy;
    notes.push_back(core::JsonObject{{"cause", to_string(note.cause)},
                                     {"subject", note.subject},
                                     {"text", note.text},
                                     {"remedy", remedy},
                                     {"risk", risks_json(core::risks_of(note.cause))}});
  }
  return core::JsonObject{{"schema", "nobounce.check/1"},
                          {"machine", label_json(report.machine)},
                          {"rows", std::move(rows)},
                          {"notes", std::move(notes)}};
}

}  // namespace nobounce::report
