// The document `nobounce.explain/1`.
#include <utility>

#include "report/explain_report.hpp"

namespace nobounce::report {

namespace {

core::Json explained_piece_json(const core::CapturePiece& piece) {
  return core::JsonObject{{"kind", piece.kind},
                          {"file", piece.file},
                          {"first_line", piece.first_line},
                          {"last_line", piece.last_line},
                          {"facts", piece.facts}};
}

core::Json explained_verdict_json(const core::ExplainedVerdict& verdict) {
  core::JsonArray causes;
  for (const Cause cause : verdict.causes) causes.emplace_back(to_string(cause));
  core::JsonArray evidence;
  for (const core::TextLine& line : verdict.evidence) {
    evidence.push_back(
        core::JsonObject{{"file", line.file}, {"line", line.line}, {"text", line.text}});
  }
  return core::JsonObject{{"member", to_string(verdict.member)},
                          {"subject", verdict.subject},
                          {"direction", verdict.direction},
                          {"verdict", to_string(verdict.verdict)},
                          {"reason", verdict.reason},
                          {"causes", std::move(causes)},
                          {"evidence", std::move(evidence)},
                          {"remedy", verdict.remedy}};
}

}  // namespace

core::Json explanation_json(const core::Explanation& explanation) {
  core::JsonArray pieces;
  for (const core::CapturePiece& piece : explanation.pieces)
    pieces.push_back(explained_piece_json(piece));
  core::JsonArray verdicts;
  for (const core::ExplainedVerdict& verdict : explanation.verdicts)
    verdicts.push_back(explained_verdict_json(verdict));
  core::JsonArray unrecognised;
  for (const std::string& file : explanation.unrecognised) unrecognised.emplace_back(file);
  return core::JsonObject{{"schema", "nobounce.explain/1"},
                          {"pieces", std::move(pieces)},
                          {"verdicts", std::move(verdicts)},
                          {"overall", to_string(explanation.overall)},
                          {"unrecognised", std::move(unrecognised)}};
}

}  // namespace nobounce::report
