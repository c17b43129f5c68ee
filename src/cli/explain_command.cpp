// `nobounce explain`: captured text in, verdicts out; or the page of a cause.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <nobounce/cause.hpp>
#include "captures/read_text.hpp"
#include "cli/cause_pages.hpp"
#include "cli/commands.hpp"
#include "cli/verdict_exit.hpp"
#include "judge/explain.hpp"
#include "report/explain_report.hpp"

namespace nobounce::cli {

namespace {

constexpr std::size_t explain_chunk_bytes = 1u << 20;

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

Status read_standard_input(captures::TextReader& reader) {
  std::vector<char> buffer(explain_chunk_bytes);
  while (true) {
    const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), stdin);
    if (got > 0) reader.feed({buffer.data(), got});
    if (got < buffer.size()) break;
  }
  if (std::ferror(stdin) != 0) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "read standard input",
                 .detail = "it cannot be read",
                 .remedy = "nvidia-smi topo -m | nobounce explain -"};
  }
  return {};
}

Status read_file(system::Host& host, const std::string& path, captures::TextReader& reader) {
  system::Storage& storage = host.storage();
  const Result<system::FileHandle> file = storage.open(path, {});
  if (!file.ok()) {
    Error error = file.error();
    if (error.remedy.empty())
      error.remedy =
          "name a file with captured text, - for standard input, or a cause of "
          "nobounce explain --list";
    return error;
  }
  std::vector<char> buffer(explain_chunk_bytes);
  std::uint64_t offset = 0;
  Status status;
  while (status.ok()) {
    const Result<std::size_t> got = storage.read(*file, reinterpret_cast<std::byte*>(buffer.data()),
                                                 buffer.size(), FileOffset{offset});
    if (!got.ok()) {
      Error error = got.error();
      error.remedy = "of a pipe: COMMAND | nobounce explain -; of a directory: its files";
      status = error;
      break;
    }
    if (*got == 0) break;
    reader.feed({buffer.data(), *got});
    offset += *got;
  }
  (void)storage.close(*file);
  return status;
}

}  // namespace

int run_explain(Console& console, system::Host& live, const ExplainArguments& arguments) {
  if (arguments.list) return list_causes(console);
  if (arguments.inputs.size() == 1) {
    if (const CausePage* page = page_of(arguments.inputs.front()))
      return print_page(console, *page);
  }
  captures::TextReader reader;
  for (const std::string& input : arguments.inputs) {
    reader.begin(input);
    const Status status =
        input == "-" ? read_standard_input(reader) : read_file(live, input, reader);
    if (!status.ok()) return console.problem({status.error()});
    reader.end();
  }
  const core::Explanation explanation = judge::explain(reader.finish());
  if (console.json()) {
    console.document(report::explanation_json(explanation));
  } else {
    console.text(report::explanation_text(explanation, console.style()));
  }
  return explanation.verdicts.empty() ? exit_unknown : worst_exit_code(explanation.verdicts);
}

}  // namespace nobounce::cli
