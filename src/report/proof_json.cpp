// The document `nobounce.proof/1`, written.
#include <algorithm>
#include <utility>

#include "report/proof_report.hpp"

namespace nobounce::report {

namespace {

core::Json bytes_json(const CarriageBytes& bytes) {
  core::JsonObject members;
  for (std::size_t i = 0; i < carriage_count; ++i) {
    members.emplace_back(std::string(to_string(static_cast<Carriage>(i))), bytes.by[i]);
  }
  return members;
}

core::Json causes_json(const std::vector<Cause>& causes) {
  core::JsonArray ids;
  for (const Cause cause : causes) ids.emplace_back(to_string(cause));
  return ids;
}

core::Json texts_json(const std::vector<std::string>& texts) {
  core::JsonArray items;
  for (const std::string& text : texts) items.emplace_back(text);
  return items;
}

template <typename T>
core::Json or_null(const std::optional<T>& value) {
  return value.has_value() ? core::Json(*value) : core::Json(nullptr);
}

core::Json rate_json(const std::optional<Slope>& slope) {
  return slope.has_value() ? core::Json(slope->per_byte) : core::Json(nullptr);
}

core::Json error_of(const std::optional<Slope>& slope) {
  return slope.has_value() ? core::Json(slope->error) : core::Json(nullptr);
}

core::Json static_json(const StaticLayer& layer) {
  std::vector<Cause> causes;
  core::JsonArray findings;
  for (const Finding& finding : layer.findings) {
    if (finding.state == FindingState::unmet &&
        std::find(causes.begin(), causes.end(), finding.cause) == causes.end()) {
      causes.push_back(finding.cause);
    }
    findings.push_back(core::JsonObject{
        {"cause", to_string(finding.cause)},
        {"subject", finding.subject},
        {"state", to_string(finding.state)},
        {"observed", finding.observed},
        {"needed", finding.needed},
        {"remedy", finding.remedy},
        {"source", finding.source},
    });
  }
  return core::JsonObject{{"state", to_string(layer.state)},
                          {"causes", causes_json(causes)},
                          {"findings", std::move(findings)}};
}

core::Json witnesses_json(const std::vector<WitnessSlope>& witnesses) {
  core::JsonArray items;
  for (const WitnessSlope& one : witnesses) {
    items.push_back(core::JsonObject{
        {"witness", one.witness},
        {"separates", one.separates},
        {"per_byte", rate_json(one.transfer)},
        {"control_per_byte", rate_json(one.control)},
        {"error", error_of(one.transfer)},
        {"control_error", error_of(one.control)},
        {"unreadable", one.unreadable == Cause::none ? core::Json(nullptr)
                                                     : core::Json(to_string(one.unreadable))},
        {"detail", one.detail},
    });
  }
  return items;
}

core::Json physical_json(const PhysicalLayer& layer) {
  core::JsonArray volumes;
  for (const std::uint64_t volume : layer.volumes_bytes) volumes.emplace_back(volume);
  return core::JsonObject{
      {"state", to_string(layer.state)},
      {"host_dram_bytes_per_byte", rate_json(layer.host_dram_bytes)},
      {"control_host_dram_bytes_per_byte", rate_json(layer.control_host_dram_bytes)},
      {"cpu_ns_per_byte", rate_json(layer.cpu_ns)},
      {"control_cpu_ns_per_byte", rate_json(layer.control_cpu_ns)},
      {"errors",
       core::JsonObject{
           {"host_dram_bytes_per_byte", error_of(layer.host_dram_bytes)},
           {"control_host_dram_bytes_per_byte", error_of(layer.control_host_dram_bytes)},
           {"cpu_ns_per_byte", error_of(layer.cpu_ns)},
           {"control_cpu_ns_per_byte", error_of(layer.control_cpu_ns)},
       }},
      {"witnesses", witnesses_json(layer.witnesses)},
      {"volumes_bytes", std::move(volumes)},
      {"unreadable", layer.unreadable == Cause::none ? core::Json(nullptr)
                                                     : core::Json(to_string(layer.unreadable))},
  };
}

core::Json row_json(const ProofRow& row) {
  return core::JsonObject{
      {"member", to_string(row.member)},
      {"source", row.source},
      {"target", row.target},
      {"direction", row.direction},
      {"issuer", to_string(row.issuer)},
      {"poster", to_string(row.poster)},
      {"verdict", to_string(row.verdict)},
      {"link", to_string(row.link)},
      {"static", static_json(row.facts)},
      {"runtime", core::JsonObject{{"bytes", bytes_json(row.runtime.bytes)},
                                   {"control_bytes", bytes_json(row.runtime.control_bytes)},
                                   {"known", to_string(row.runtime.known)},
                                   {"data_verified", or_null(row.runtime.data_verified)}}},
      {"physical", physical_json(row.physical)},
      {"known", to_string(row.known)},
      {"causes", causes_json(row.causes)},
      {"contradictions", texts_json(row.contradictions)},
      {"missing", texts_json(row.missing)},
      {"benefit", core::JsonObject{{"bottleneck", row.benefit.bottleneck},
                                   {"speedup_max", or_null(row.benefit.speedup_max)},
                                   {"model", row.benefit.model}}},
  };
}

core::Json changes_json(const std::vector<ProofChange>& changes) {
  core::JsonArray items;
  for (const ProofChange& change : changes) {
    core::JsonArray fields;
    for (const ProofChange::Field& field : change.fields) {
      fields.push_back(
          core::JsonObject{{"name", field.name}, {"before", field.before}, {"after", field.after}});
    }
    items.push_back(core::JsonObject{
        {"kind", to_string(change.kind)}, {"row", change.row}, {"fields", std::move(fields)}});
  }
  return items;
}

}  // namespace

core::Json proof_json(const Proof& proof, const ProofChanges& changes) {
  core::JsonArray rows;
  for (const ProofRow& row : proof.rows) rows.push_back(row_json(row));
  return core::JsonObject{
      {"schema", "nobounce.proof/1"},
      {"machine", core::JsonObject{{"kind", proof.host_kind}, {"name", proof.machine}}},
      {"rows", std::move(rows)},
      {"changes", changes.has_value() ? changes_json(*changes) : core::Json(nullptr)}};
}

}  // namespace nobounce::report
