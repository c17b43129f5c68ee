// Answers as JSON, the comparison of two machines, and what is left unconfirmed by it.
#include "conformance/answers.hpp"

#include <algorithm>
#include <set>

#include "core/json.hpp"

namespace nobounce::conformance {

namespace {

constexpr std::string_view schema = "nobounce.conformance/1";
constexpr const char* table_symbols[] = {
#define NOBOUNCE_CUDA(method, symbol, parameters, arguments) symbol,
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA
#define NOBOUNCE_NVML(method, symbol, parameters, arguments) symbol,
#include "system/nvml_functions.inc"
#undef NOBOUNCE_NVML
#define NOBOUNCE_CUFILE(type, method, symbol, parameters, arguments) symbol,
#include "system/cufile_functions.inc"
#undef NOBOUNCE_CUFILE
};

Error not_answers(std::string_view name, std::string why) {
  Error error;
  error.origin = ErrorOrigin::input;
  error.attempted = "read conformance answers from " + std::string(name);
  error.detail = std::move(why);
  return error;
}

std::string text_or_empty(const core::Json& object, std::string_view key) {
  const core::Json* member = object.find(key);
  return member != nullptr && member->as_text() != nullptr ? *member->as_text() : std::string();
}

/// Takes ` [KEY=VALUE]` off a name's end; whether the machine has that fact, or there is no such
/// end.
bool is_of(std::string& name, const std::map<std::string, std::string>& facts) {
  const std::size_t open = name.find(" [");
  if (open == std::string::npos) return true;
  const std::string fact = name.substr(open + 2, name.size() - open - 3);
  name.resize(open);
  const std::size_t equals = fact.find('=');
  const auto found = facts.find(fact.substr(0, equals));
  return found != facts.end() && equals != std::string::npos &&
         found->second == fact.substr(equals + 1);
}

/// Explanations by name, in order, of a machine with these facts.
std::vector<std::pair<std::string, std::string>> explanations_in(
    std::string_view text, const std::map<std::string, std::string>& facts) {
  std::vector<std::pair<std::string, std::string>> rows;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t colon = line.find(": ");
    if (line.empty() || line.front() == '#' || colon == std::string_view::npos) continue;
    std::string name(line.substr(0, colon));
    if (is_of(name, facts)) rows.emplace_back(std::move(name), line.substr(colon + 2));
  }
  return rows;
}

bool names(std::string_view pattern, std::string_view sequence) {
  if (pattern.empty() || pattern.back() != '*') return pattern == sequence;
  pattern.remove_suffix(1);
  return sequence.substr(0, pattern.size()) == pattern;
}

std::vector<std::string> line_differences(const Answer& live, const Answer& soft) {
  std::vector<std::string> lines;
  const std::size_t count = std::max(live.lines.size(), soft.lines.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::string* left = i < live.lines.size() ? &live.lines[i] : nullptr;
    const std::string* right = i < soft.lines.size() ? &soft.lines[i] : nullptr;
    if (left != nullptr && right != nullptr && *left == *right) continue;
    const std::string number = std::to_string(i + 1) + ": ";
    if (left != nullptr) lines.push_back("live " + number + *left);
    if (right != nullptr) lines.push_back("soft " + number + *right);
  }
  return lines;
}

}  // namespace

std::string to_json(const Answers& answers) {
  core::JsonObject facts;
  for (const auto& [key, value] : answers.facts) facts.emplace_back(key, value);
  core::JsonArray sequences;
  for (const Answer& answer : answers.sequences) {
    core::JsonObject object;
    object.emplace_back("name", answer.name);
    if (!answer.skipped.empty()) object.emplace_back("skipped", answer.skipped);
    core::JsonArray lines;
    for (const std::string& line : answer.lines) lines.emplace_back(line);
    object.emplace_back("answers", std::move(lines));
    sequences.emplace_back(std::move(object));
  }
  core::JsonObject document;
  document.emplace_back("schema", schema);
  document.emplace_back("facts", std::move(facts));
  document.emplace_back("sequences", std::move(sequences));
  return core::dump_json(core::Json(std::move(document))) + "\n";
}

Result<Answers> answers_from_json(std::string_view text, std::string_view name) {
  Result<core::Json> document = core::parse_json(text, name);
  if (!document.ok()) return std::move(document).error();
  if (text_or_empty(*document, "schema") != schema) {
    return not_answers(name, "its schema is not nobounce.conformance/1");
  }
  Answers answers;
  const core::Json* facts = document->find("facts");
  if (facts != nullptr && facts->as_object() != nullptr) {
    for (const auto& [key, value] : *facts->as_object()) {
      if (value.as_text() != nullptr) answers.facts[key] = *value.as_text();
    }
  }
  const core::Json* sequences = document->find("sequences");
  if (sequences == nullptr || sequences->as_array() == nullptr) {
    return not_answers(name, "it has no sequences");
  }
  for (const core::Json& object : *sequences->as_array()) {
    Answer answer;
    answer.name = text_or_empty(object, "name");
    answer.skipped = text_or_empty(object, "skipped");
    const core::Json* lines = object.find("answers");
    if (answer.name.empty() || lines == nullptr || lines->as_array() == nullptr) {
      return not_answers(name, "a sequence has no name or no answers");
    }
    for (const core::Json& line : *lines->as_array()) {
      if (line.as_text() != nullptr) answer.lines.push_back(*line.as_text());
    }
    answers.sequences.push_back(std::move(answer));
  }
  return answers;
}

std::vector<std::string> functions_of(const Answer& answer) {
  std::set<std::string> functions;
  for (const std::string& line : answer.lines) {
    if (line.empty() || line.front() == ' ' || line.front() == '(') continue;
    functions.insert(line.substr(0, line.find(' ')));
  }
  return {functions.begin(), functions.end()};
}

std::size_t Comparison::unexplained() const {
  return static_cast<std::size_t>(
      std::count_if(different.begin(), different.end(),
                    [](const Difference& one) { return one.explanation.empty(); }));
}

Comparison compare(const Answers& live, const Answers& soft, std::string_view explained) {
  Comparison result;
  const auto explanations = explanations_in(explained, live.facts);
  std::set<std::string> used;
  std::map<std::string, const Answer*> of_soft;
  for (const Answer& answer : soft.sequences) of_soft[answer.name] = &answer;
  std::set<std::string> seen;
  for (const Answer& answer : live.sequences) {
    seen.insert(answer.name);
    const auto other = of_soft.find(answer.name);
    if (other == of_soft.end()) {
      result.skipped.push_back(answer.name + ": no such sequence any more");
      continue;
    }
    const Answer& soft_answer = *other->second;
    if (!answer.skipped.empty() || !soft_answer.skipped.empty()) {
      result.skipped.push_back(
          answer.name + ": " +
          (answer.skipped.empty() ? "soft: " + soft_answer.skipped : answer.skipped));
      continue;
    }
    if (answer.lines == soft_answer.lines) {
      result.equal.push_back(answer.name);
      continue;
    }
    Difference difference{answer.name, {}, line_differences(answer, soft_answer)};
    for (const auto& [pattern, why] : explanations) {
      if (!names(pattern, answer.name)) continue;
      difference.explanation = why;
      used.insert(pattern);
      break;
    }
    result.different.push_back(std::move(difference));
  }
  for (const Answer& answer : soft.sequences) {
    if (seen.count(answer.name) == 0) {
      result.skipped.push_back(answer.name + ": newer than the live answers");
    }
  }
  for (const auto& [pattern, why] : explanations) {
    const bool skipped = std::any_of(result.skipped.begin(), result.skipped.end(),
                                     [&, &of = pattern](const std::string& row) {
                                       return names(of, row.substr(0, row.find(": ")));
                                     });
    if (used.count(pattern) == 0 && !skipped) result.stale.push_back(pattern);
  }
  return result;
}

std::string to_text(const Comparison& comparison) {
  std::string text;
  for (const Difference& one : comparison.different) {
    text += one.sequence + (one.explanation.empty() ? "\n" : ": explained: " + one.explanation) +
            (one.explanation.empty() ? "" : "\n");
    for (const std::string& line : one.lines) text += "    " + line + "\n";
  }
  for (const std::string& pattern : comparison.stale) {
    text += "explained.txt: `" + pattern + "` explains nothing\n";
  }
  const std::size_t unexplained = comparison.unexplained();
  text += std::to_string(comparison.equal.size()) + " equal, " +
          std::to_string(comparison.different.size() - unexplained) + " explained, " +
          std::to_string(unexplained) + " different, " + std::to_string(comparison.skipped.size()) +
          " skipped\n";
  return text;
}

std::vector<std::string> unconfirmed(const Comparison& comparison, const Answers& live) {
  const std::set<std::string> equal(comparison.equal.begin(), comparison.equal.end());
  std::set<std::string> confirmed;
  for (const Answer& answer : live.sequences) {
    if (equal.count(answer.name) == 0) continue;
    for (std::string& function : functions_of(answer)) confirmed.insert(std::move(function));
  }
  std::vector<std::string> left;
  for (const char* symbol : table_symbols) {
    if (confirmed.count(symbol) == 0) left.emplace_back(symbol);
  }
  return left;
}

}  // namespace nobounce::conformance
