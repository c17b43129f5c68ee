// The cases of tests/captures: texts, what is expected of them, and the rule by which an answer
// matches.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "captures/read_text.hpp"
#include "core/json.hpp"
#include "judge/explain.hpp"
#include "report/explain_report.hpp"
#include "support/schema.hpp"

namespace nobounce::test {

inline std::filesystem::path cases_folder() {
  return std::filesystem::path(NOBOUNCE_SOURCE_DIR) / "tests/captures/cases";
}

struct CaseText {
  std::string name;
  std::string text;
};

/// The texts of a case: one file, or all of a folder.
inline std::vector<CaseText> texts_of_case(const std::filesystem::path& input) {
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(input)) {
    for (const auto& entry : std::filesystem::directory_iterator(input))
      files.push_back(entry.path());
    std::sort(files.begin(), files.end());
  } else {
    files.push_back(input);
  }
  std::vector<CaseText> texts;
  for (const auto& file : files) texts.push_back({file.filename().string(), text_of_file(file)});
  return texts;
}

inline core::Explanation explain_texts(const std::vector<CaseText>& texts) {
  captures::TextReader reader;
  for (const CaseText& one : texts) {
    reader.begin(one.name);
    reader.feed(one.text);
    reader.end();
  }
  return judge::explain(reader.finish());
}

/// Every value that is wanted is there: objects member by member, lists as sets.
inline bool holds_json(const core::Json& got, const core::Json& wanted) {
  if (const core::JsonObject* members = wanted.as_object()) {
    for (const auto& [key, value] : *members) {
      const core::Json* found = got.find(key);
      if (found == nullptr || !holds_json(*found, value)) return false;
    }
    return got.as_object() != nullptr;
  }
  if (const core::JsonArray* items = wanted.as_array()) {
    const core::JsonArray* list = got.as_array();
    if (list == nullptr) return false;
    return std::all_of(items->begin(), items->end(), [list](const core::Json& item) {
      return std::any_of(list->begin(), list->end(),
                         [&](const core::Json& one) { return holds_json(one, item); });
    });
  }
  const auto number = [](const core::Json& json, double& value) {
    if (const auto* whole = std::get_if<std::uint64_t>(&json.value))
      value = static_cast<double>(*whole);
    else if (const auto* less = std::get_if<std::int64_t>(&json.value))
      value = static_cast<double>(*less);
    else if (const auto* real = std::get_if<double>(&json.value))
      value = *real;
    else
      return false;
    return true;
  };
  double a = 0, b = 0;
  if (number(got, a) && number(wanted, b))
    return std::abs(a - b) <= 1e-9 * std::max(1.0, std::abs(b));
  return got == wanted;
}

/// The devices that a subject or a hint names, in order.
inline std::vector<std::string> devices_in(const std::string& text) {
  std::vector<std::string> devices;
  std::string word;
  // `a-b`, where bus addresses and paths hold no `-`.
  for (const char c : text + "-") {
    if (c == '-' || c == ' ') {
      if (!word.empty()) devices.push_back(word);
      word.clear();
    } else {
      word += c;
    }
  }
  return devices;
}

/// Whether a row is about what a hint names: a pair in either order, or in its own where a
/// direction is asked for too.
inline bool is_about(const core::ExplainedVerdict& row, const std::string& hint, bool ordered) {
  std::vector<std::string> wanted = devices_in(hint);
  const std::vector<std::string> named = devices_in(row.subject);
  if (named == wanted) return true;
  std::reverse(wanted.begin(), wanted.end());
  return (!ordered || row.direction == "both") && named == wanted;
}

inline std::string problems_of_case(const core::Json& wanted, const core::Explanation& got) {
  std::string problems;
  const auto text_at = [](const core::Json& json, const char* key) {
    const core::Json* found = json.find(key);
    return found != nullptr && found->as_text() != nullptr ? *found->as_text() : std::string();
  };
  for (const core::Json& one : *wanted.find("expect")->as_array()) {
    const core::JsonArray& causes = *one.find("causes_any_of")->as_array();
    const std::string hint = text_at(one, "subject_hint");
    const std::string direction = text_at(one, "direction");
    bool met = false;
    bool met_but_for_subject = false;
    for (const core::ExplainedVerdict& row : got.verdicts) {
      if (to_string(row.member) != text_at(one, "member") ||
          to_string(row.verdict) != text_at(one, "verdict") ||
          (!direction.empty() && row.direction != direction))
        continue;
      const bool caused =
          causes.empty() || std::any_of(causes.begin(), causes.end(), [&](const core::Json& id) {
            return std::any_of(row.causes.begin(), row.causes.end(),
                               [&](Cause cause) { return to_string(cause) == *id.as_text(); });
          });
      if (!caused) continue;
      met_but_for_subject = true;
      if (hint.empty() || is_about(row, hint, !direction.empty())) met = true;
    }
    if (!met)
      problems += (met_but_for_subject ? "  subject differs: " : "  not met: ") +
                  core::dump_json(one, true) + '\n';
  }
  for (const core::Json& one : *wanted.find("must_not")->as_array()) {
    for (const core::ExplainedVerdict& row : got.verdicts) {
      const std::string member = text_at(one, "member");
      if (member != "any" && to_string(row.member) != member) continue;
      const std::string cause = text_at(one, "cause");
      const bool wrong = !cause.empty()
                             ? std::any_of(row.causes.begin(), row.causes.end(),
                                           [&](Cause c) { return to_string(c) == cause; })
                             : to_string(row.verdict) == text_at(one, "verdict");
      if (wrong)
        problems += "  must not: " + core::dump_json(one, true) + " (" + row.subject + ")\n";
    }
  }
  const core::Json* facts = wanted.find("facts");
  if (facts != nullptr && facts->as_object() != nullptr) {
    for (const auto& wanted_fact : *facts->as_object()) {
      const std::string& key = wanted_fact.first;
      const core::Json& value = wanted_fact.second;
      const bool found =
          std::any_of(got.pieces.begin(), got.pieces.end(), [&](const core::CapturePiece& piece) {
            return std::any_of(piece.facts.begin(), piece.facts.end(), [&](const auto& fact) {
              return fact.first == key && holds_json(fact.second, value);
            });
          });
      if (!found)
        problems += "  fact missing: " + key + " = " + core::dump_json(value, true) + '\n';
    }
  }
  return problems;
}

}  // namespace nobounce::test
