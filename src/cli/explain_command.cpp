// `nobounce explain`: captured text in, verdicts out; or the page of a cause.
#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <nobounce/cause.hpp>
#include "captures/read_text.hpp"
#include "cli/capture_input.hpp"
#include "cli/cause_pages.hpp"
#include "cli/commands.hpp"
#include "cli/verdict_exit.hpp"
#include "judge/explain.hpp"
#include "report/explain_report.hpp"

namespace nobounce::cli {

namespace {

int list_causes(Console& console) {
  if (console.json()) {
    core::JsonArray causes;
    for (const CauseRow& row : cause_table()) {
      causes.push_back(core::JsonObject{{"id", row.id},
                                        {"member", row.member.empty() ? "any" : row.member},
                                        {"kind", to_string(row.kind)},
                                        {"sentence", row.sentence},
                                        {"remedy", row.remedy}});
    }
    console.document(
        core::JsonObject{{"schema", "nobounce.causes/1"}, {"causes", std::move(causes)}});
    return exit_done;
  }
  std::size_t widest = 0;
  for (const CauseRow& row : cause_table()) widest = std::max(widest, row.id.size());
  std::string text;
  for (const CauseRow& row : cause_table())
    text += report::left(row.id, widest + 2) + std::string(row.sentence) + '\n';
  console.text(text);
  return exit_done;
}

const CausePage* page_of(std::string_view id) {
  const auto pages = cause_pages();
  const auto found = std::find_if(pages.begin(), pages.end(),
                                  [id](const CausePage& page) { return page.id == id; });
  return found == pages.end() ? nullptr : &*found;
}

int print_page(Console& console, const CausePage& page) {
  if (console.json()) {
    console.document(
        core::JsonObject{{"schema", "nobounce.cause/1"}, {"id", page.id}, {"page", page.text}});
  } else {
    console.text(page.text);
  }
  return exit_done;
}

}  // namespace

int run_explain(Console& console, system::Host& live, const ExplainArguments& arguments) {
  if (arguments.list) return list_causes(console);
  if (arguments.inputs.size() == 1) {
    if (const CausePage* page = page_of(arguments.inputs.front()))
      return print_page(console, *page);
  }
  captures::TextReader reader;
  CaptureInput texts(console, live, CaptureUse::explain, arguments.limit_bytes);
  for (const std::string& input : arguments.inputs) {
    if (const auto problem = texts.read(input, reader)) return console.problem(*problem);
  }
  core::Explanation explanation = judge::explain(reader.finish());
  for (const std::string& input : arguments.inputs) {
    const auto named = [&input](const auto& piece) { return piece.file == input; };
    const bool known = std::any_of(explanation.pieces.begin(), explanation.pieces.end(), named);
    const auto& told = explanation.unrecognised;
    if (!known && std::find(told.begin(), told.end(), input) == told.end())
      explanation.unrecognised.push_back(input);
  }
  if (console.json()) {
    console.document(report::explanation_json(explanation));
  } else {
    console.text(report::explanation_text(explanation, console.style()));
  }
  return explanation.verdicts.empty() ? exit_unknown : worst_exit_code(explanation.verdicts);
}

}  // namespace nobounce::cli
