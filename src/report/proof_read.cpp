// The document `nobounce.proof/1`, read back: strict, so that a file of another version is not half
// understood.
#include <algorithm>
#include <initializer_list>
#include <utility>

#include "report/proof_report.hpp"

namespace nobounce::report {

namespace {

/// Where a value stands, and the first thing that was wrong anywhere.
class Reader {
 public:
  /// Members of an object, each of which must be there, and no other.
  bool object(const core::Json& json, const std::string& where,
              std::initializer_list<std::string_view> names) {
    if (json.as_object() == nullptr) return wrong(where, "is no object");
    for (const auto& [name, value] : *json.as_object()) {
      if (std::find(names.begin(), names.end(), name) == names.end())
        return wrong(where + core::pointer_step(name), "is unknown");
    }
    for (const std::string_view name : names) {
      if (json.find(name) == nullptr) return wrong(where + "/" + std::string(name), "is missing");
    }
    return true;
  }

  template <typename Function>
  void each(const core::Json& json, const std::string& where, Function function) {
    if (json.as_array() == nullptr) {
      wrong(where, "is no array");
      return;
    }
    for (std::size_t i = 0; i < json.as_array()->size(); ++i)
      function((*json.as_array())[i], where + "/" + std::to_string(i));
  }

  void text(const core::Json& json, const std::string& where, std::string& target) {
    if (json.as_text() == nullptr) {
      wrong(where, "is no text");
      return;
    }
    target = *json.as_text();
  }

  void count(const core::Json& json, const std::string& where, std::uint64_t& target) {
    if (json.as_unsigned() == nullptr) {
      wrong(where, "is no number of bytes");
      return;
    }
    target = *json.as_unsigned();
  }

  void flag(const core::Json& json, const std::string& where, bool& target) {
    if (json.as_bool() == nullptr) {
      wrong(where, "is neither true nor false");
      return;
    }
    target = *json.as_bool();
  }

  /// A number or null.
  void number(const core::Json& json, const std::string& where, std::optional<double>& target) {
    target.reset();
    if (json.is_null()) return;
    if (const auto* real = std::get_if<double>(&json.value)) {
      target = *real;
    } else if (const auto* natural = std::get_if<std::uint64_t>(&json.value)) {
      target = static_cast<double>(*natural);
    } else if (const auto* integer = std::get_if<std::int64_t>(&json.value)) {
      target = static_cast<double>(*integer);
    } else {
      wrong(where, "is neither a number nor null");
    }
  }

  /// `last`: the enum's last word.
  template <typename Word>
  void word(const core::Json& json, const std::string& where, Word& target, Word last) {
    std::string written;
    text(json, where, written);
    for (int i = 0; i <= static_cast<int>(last); ++i) {
      if (to_string(static_cast<Word>(i)) != written) continue;
      target = static_cast<Word>(i);
      return;
    }
    wrong(where, "has no such word: \"" + written + "\"");
  }

  void cause(const core::Json& json, const std::string& where, Cause& target) {
    std::string id;
    text(json, where, id);
    const std::optional<Cause> found = cause_from_string(id);
    if (found.has_value()) {
      target = *found;
    } else {
      wrong(where, "is no cause of this version: \"" + id + "\"");
    }
  }

  void causes(const core::Json& json, const std::string& where, std::vector<Cause>& target) {
    each(json, where, [&](const core::Json& item, const std::string& place) {
      cause(item, place, target.emplace_back());
    });
  }

  void texts(const core::Json& json, const std::string& where, std::vector<std::string>& target) {
    each(json, where, [&](const core::Json& item, const std::string& place) {
      text(item, place, target.emplace_back());
    });
  }

  bool wrong(const std::string& where, const std::string& what) {
    if (problem_.empty()) problem_ = (where.empty() ? "the document" : where) + " " + what;
    return false;
  }

  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  std::string problem_;
};

void read_bytes(Reader& reader, const core::Json& json, const std::string& where,
                CarriageBytes& bytes) {
  if (!reader.object(
          json, where,
          {"direct", "device_bounced", "in_place", "cpu_mapped", "staged", "unattributed"})) {
    return;
  }
  for (std::size_t i = 0; i < carriage_count; ++i) {
    const std::string_view name = to_string(static_cast<Carriage>(i));
    reader.count(*json.find(name), where + "/" + std::string(name), bytes.by[i]);
  }
}

void read_finding(Reader& reader, const core::Json& json, const std::string& where,
                  Finding& finding) {
  if (!reader.object(json, where,
                     {"cause", "subject", "state", "observed", "needed", "remedy", "source"})) {
    return;
  }
  reader.cause(*json.find("cause"), where + "/cause", finding.cause);
  reader.word(*json.find("state"), where + "/state", finding.state, FindingState::unknown);
  reader.text(*json.find("subject"), where + "/subject", finding.subject);
  reader.text(*json.find("observed"), where + "/observed", finding.observed);
  reader.text(*json.find("needed"), where + "/needed", finding.needed);
  reader.text(*json.find("remedy"), where + "/remedy", finding.remedy);
  reader.text(*json.find("source"), where + "/source", finding.source);
}

void read_static(Reader& reader, const core::Json& json, const std::string& where,
                 StaticLayer& layer) {
  if (!reader.object(json, where, {"state", "causes", "findings"})) return;
  reader.word(*json.find("state"), where + "/state", layer.state, FindingState::unknown);
  std::vector<Cause> repeated;  // they follow from the findings
  reader.causes(*json.find("causes"), where + "/causes", repeated);
  reader.each(*json.find("findings"), where + "/findings",
              [&](const core::Json& item, const std::string& place) {
                read_finding(reader, item, place, layer.findings.emplace_back());
              });
}

void read_runtime(Reader& reader, const core::Json& json, const std::string& where,
                  RuntimeLayer& layer) {
  if (!reader.object(json, where, {"bytes", "control_bytes", "known", "data_verified"})) return;
  read_bytes(reader, *json.find("bytes"), where + "/bytes", layer.bytes);
  read_bytes(reader, *json.find("control_bytes"), where + "/control_bytes", layer.control_bytes);
  reader.word(*json.find("known"), where + "/known", layer.known, Known::witnessed);
  const core::Json& verified = *json.find("data_verified");
  if (!verified.is_null())
    reader.flag(verified, where + "/data_verified", layer.data_verified.emplace());
}

void read_slope(Reader& reader, const core::Json& rates, const core::Json& errors,
                const std::string& where, const char* name, std::optional<Slope>& slope) {
  std::optional<double> per_byte;
  std::optional<double> error;
  reader.number(*rates.find(name), where + "/" + name, per_byte);
  reader.number(*errors.find(name), where + "/errors/" + name, error);
  if (per_byte.has_value() != error.has_value())
    reader.wrong(where + "/errors/" + name, "and its rate must both be there or both be null");
  if (per_byte.has_value() && error.has_value()) slope = Slope{*per_byte, *error};
}

std::optional<Slope> slope_of(Reader& reader, const core::Json& json, const std::string& where,
                              const char* rate, const char* error) {
  std::optional<double> per_byte;
  std::optional<double> spread;
  reader.number(*json.find(rate), where + "/" + rate, per_byte);
  reader.number(*json.find(error), where + "/" + error, spread);
  if (per_byte.has_value() != spread.has_value())
    reader.wrong(where + "/" + error, "and its rate must both be there or both be null");
  if (!per_byte.has_value() || !spread.has_value()) return std::nullopt;
  return Slope{*per_byte, *spread};
}

void read_witness(Reader& reader, const core::Json& json, const std::string& where,
                  WitnessSlope& witness) {
  if (!reader.object(json, where,
                     {"witness", "separates", "per_byte", "control_per_byte", "error",
                      "control_error", "unreadable", "detail"})) {
    return;
  }
  reader.text(*json.find("witness"), where + "/witness", witness.witness);
  reader.flag(*json.find("separates"), where + "/separates", witness.separates);
  witness.transfer = slope_of(reader, json, where, "per_byte", "error");
  witness.control = slope_of(reader, json, where, "control_per_byte", "control_error");
  if (!json.find("unreadable")->is_null())
    reader.cause(*json.find("unreadable"), where + "/unreadable", witness.unreadable);
  reader.text(*json.find("detail"), where + "/detail", witness.detail);
}

void read_physical(Reader& reader, const core::Json& json, const std::string& where,
                   PhysicalLayer& layer) {
  if (!reader.object(json, where,
                     {"state", "host_dram_bytes_per_byte", "control_host_dram_bytes_per_byte",
                      "cpu_ns_per_byte", "control_cpu_ns_per_byte", "errors", "witnesses",
                      "volumes_bytes", "unreadable"}))
    return;
  const core::Json& errors = *json.find("errors");
  if (!reader.object(errors, where + "/errors",
                     {"host_dram_bytes_per_byte", "control_host_dram_bytes_per_byte",
                      "cpu_ns_per_byte", "control_cpu_ns_per_byte"})) {
    return;
  }
  reader.word(*json.find("state"), where + "/state", layer.state, PhysicalState::unreadable);
  read_slope(reader, json, errors, where, "host_dram_bytes_per_byte", layer.host_dram_bytes);
  read_slope(reader, json, errors, where, "control_host_dram_bytes_per_byte",
             layer.control_host_dram_bytes);
  read_slope(reader, json, errors, where, "cpu_ns_per_byte", layer.cpu_ns);
  read_slope(reader, json, errors, where, "control_cpu_ns_per_byte", layer.control_cpu_ns);
  reader.each(*json.find("witnesses"), where + "/witnesses",
              [&](const core::Json& item, const std::string& place) {
                read_witness(reader, item, place, layer.witnesses.emplace_back());
              });
  reader.each(*json.find("volumes_bytes"), where + "/volumes_bytes",
              [&](const core::Json& item, const std::string& place) {
                reader.count(item, place, layer.volumes_bytes.emplace_back());
              });
  if (!json.find("unreadable")->is_null())
    reader.cause(*json.find("unreadable"), where + "/unreadable", layer.unreadable);
}

void read_benefit(Reader& reader, const core::Json& json, const std::string& where,
                  Benefit& benefit) {
  if (!reader.object(json, where, {"bottleneck", "speedup_max", "model"})) return;
  reader.text(*json.find("bottleneck"), where + "/bottleneck", benefit.bottleneck);
  reader.number(*json.find("speedup_max"), where + "/speedup_max", benefit.speedup_max);
  reader.flag(*json.find("model"), where + "/model", benefit.model);
}

void read_row(Reader& reader, const core::Json& json, const std::string& where, ProofRow& row) {
  if (!reader.object(json, where,
                     {"member", "source", "target", "direction", "issuer", "poster", "verdict",
                      "link", "static", "runtime", "physical", "known", "causes", "contradictions",
                      "missing", "benefit"})) {
    return;
  }
  reader.word(*json.find("member"), where + "/member", row.member, Member::async);
  reader.text(*json.find("source"), where + "/source", row.source);
  reader.text(*json.find("target"), where + "/target", row.target);
  reader.text(*json.find("direction"), where + "/direction", row.direction);
  reader.word(*json.find("issuer"), where + "/issuer", row.issuer, Issuer::kernel);
  reader.word(*json.find("poster"), where + "/poster", row.poster, Poster::gpu);
  reader.word(*json.find("verdict"), where + "/verdict", row.verdict, Verdict::unknown);
  reader.word(*json.find("link"), where + "/link", row.link, Link::c2c);
  read_static(reader, *json.find("static"), where + "/static", row.facts);
  read_runtime(reader, *json.find("runtime"), where + "/runtime", row.runtime);
  read_physical(reader, *json.find("physical"), where + "/physical", row.physical);
  reader.word(*json.find("known"), where + "/known", row.known, Known::witnessed);
  reader.causes(*json.find("causes"), where + "/causes", row.causes);
  reader.texts(*json.find("contradictions"), where + "/contradictions", row.contradictions);
  reader.texts(*json.find("missing"), where + "/missing", row.missing);
  read_benefit(reader, *json.find("benefit"), where + "/benefit", row.benefit);
}

void read_proof(Reader& reader, const core::Json& json, Proof& proof) {
  std::string schema;
  if (const core::Json* found = json.find("schema")) reader.text(*found, "/schema", schema);
  if (schema != "nobounce.proof/1") {
    reader.wrong("/schema", "is not nobounce.proof/1");
    return;
  }
  if (!reader.object(json, "", {"schema", "machine", "rows", "changes"})) return;
  const core::Json& machine = *json.find("machine");
  if (reader.object(machine, "/machine", {"kind", "name"})) {
    reader.text(*machine.find("kind"), "/machine/kind", proof.host_kind);
    reader.text(*machine.find("name"), "/machine/name", proof.machine);
  }
  reader.each(*json.find("rows"), "/rows", [&](const core::Json& item, const std::string& place) {
    read_row(reader, item, place, proof.rows.emplace_back());
  });
  const core::Json& changes = *json.find("changes");
  if (!changes.is_null() && changes.as_array() == nullptr)
    reader.wrong("/changes", "is neither an array nor null");
}

}  // namespace

Result<Proof> proof_from_text(std::string_view text, std::string_view name) {
  Result<core::Json> json = core::parse_json(text, name);
  if (!json.ok()) return std::move(json).error();
  Reader reader;
  Proof proof;
  read_proof(reader, *json, proof);
  if (reader.problem().empty()) return proof;
  return Error{.origin = ErrorOrigin::input,
               .attempted = "read the proof " + std::string(name),
               .detail = reader.problem(),
               .remedy = "a file that nobounce prove --save or --json wrote, with this version"};
}

}  // namespace nobounce::report
