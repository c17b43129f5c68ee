// `nobounce diff A B`: what differs between two machines that can matter to a member, worst first.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "cli/diff_fields.hpp"
#include "cli/record.hpp"
#include "cli/survey.hpp"
#include "core/machine_json.hpp"
#include "recording/recorded_host.hpp"
#include "report/diff_report.hpp"

namespace nobounce::cli {

namespace {

using report::DiffLine;
using report::DiffWeight;

/// A machine with the rows that check prints of it.
struct Side {
  OpenMachine opened;
  Survey surveyed;
  std::vector<report::CheckRow> rows;
};

std::string row_key(const report::CheckRow& row) {
  std::string key = std::string(to_string(row.member)) + " " + row.source + " -> " + row.target +
                    " " + row.direction;
  if (!row.path.empty()) key += " " + row.path;
  return key;
}

std::string verdict_text(const report::CheckRow& row) {
  std::string text(to_string(row.verdict));
  for (const Cause cause : row.causes)
    text += (text.find(':') == std::string::npos ? ": " : ", ") + std::string(to_string(cause));
  return text;
}

void compare_rows(const Side& before, const Side& after, std::vector<DiffLine>& lines) {
  std::map<std::string, std::pair<const report::CheckRow*, const report::CheckRow*>> rows;
  for (const report::CheckRow& row : before.rows) rows[row_key(row)].first = &row;
  for (const report::CheckRow& row : after.rows) rows[row_key(row)].second = &row;
  for (const auto& [key, pair] : rows) {
    const std::string one = pair.first == nullptr ? "" : verdict_text(*pair.first);
    const std::string other = pair.second == nullptr ? "" : verdict_text(*pair.second);
    if (one == other) continue;
    const report::CheckRow& row = pair.second != nullptr ? *pair.second : *pair.first;
    lines.push_back(
        {DiffWeight::verdict, key, one, other, std::string(to_string(row.member)),
         pair.second == nullptr || row.causes.empty() ? Cause::none : row.causes.front()});
  }
}

void compare_fields(const Side& before, const Side& after, std::vector<DiffLine>& lines) {
  const auto one = diff_fields(core::machine_to_json(before.surveyed.machine));
  const auto other = diff_fields(core::machine_to_json(after.surveyed.machine));
  std::map<std::string, std::pair<std::string, std::string>> all;
  for (const auto& [pointer, value] : one) all[pointer].first = value;
  for (const auto& [pointer, value] : other) all[pointer].second = value;
  for (const auto& [pointer, values] : all) {
    if (values.first == values.second) continue;
    const FieldRule& rule = field_rule(pointer);
    lines.push_back({rule.weight, pointer, values.first, values.second, std::string(rule.members),
                     rule.weight == DiffWeight::setting ? rule.cause : Cause::none});
  }
}

/// Why a machine has no GPU, as far as its libraries say it.
std::string why_no_gpu(const Side& side) {
  Result<system::Nvml*> nvml = side.opened.host->nvml();
  if (nvml.ok()) return "none: NVML is there and lists none";
  const Error& error = nvml.error();
  return "none: " +
         (error.detail.empty() ? error.attempted : error.attempted + ": " + error.detail);
}

/// How many devices each has: what is not there is the cause of most of the rest.
void compare_counts(const Side& before, const Side& after, std::vector<DiffLine>& lines) {
  const Machine& one = before.surveyed.machine;
  const Machine& other = after.surveyed.machine;
  const auto compare = [&lines](DiffLine line, std::size_t here, std::size_t there) {
    if (here == there) return;
    if (here != 0) line.before = std::to_string(here);
    if (there != 0) line.after = std::to_string(there);
    lines.push_back(std::move(line));
  };
  const bool none = one.gpus.empty() || other.gpus.empty();
  compare({none ? DiffWeight::verdict : DiffWeight::setting, "GPUs",
           one.gpus.empty() ? why_no_gpu(before) : "", other.gpus.empty() ? why_no_gpu(after) : "",
           "p2p, storage, rdma, async", none ? Cause::machine_no_gpu : Cause::none},
          one.gpus.size(), other.gpus.size());
  compare({DiffWeight::setting, "network adapters", "none", "none", "rdma", Cause::none},
          one.nics.size(), other.nics.size());
  compare({DiffWeight::setting, "drives", "none", "none", "storage", Cause::none},
          one.drives.size(), other.drives.size());
}

/// Worst first; of one weight, what both have and judge otherwise before what one of them lacks.
bool goes_first(const DiffLine& a, const DiffLine& b) {
  const auto lacks = [](const DiffLine& line) { return line.before.empty() || line.after.empty(); };
  return a.weight != b.weight ? a.weight < b.weight : !lacks(a) && lacks(b);
}

/// A file is a recording; all else is as of --machine.
std::string machine_of(const std::string& text) {
  const bool word =
      text == "live" || text.compare(0, 5, "soft:") == 0 || text.compare(0, 9, "recorded:") == 0;
  return word ? text : "recorded:" + text;
}

bool is_recorded(const std::string& text) {
  return machine_of(text).compare(0, 9, "recorded:") == 0;
}

/// As it would stand in a recording: names that one side has no longer are no difference.
std::optional<Problem> as_recorded(OpenMachine& opened, system::Host& live) {
  Result<recording::Recording> recording = record_machine(*opened.host, "");
  if (!recording.ok()) return Problem{std::move(recording).error()};
  opened.host = HostPointer(recording::make_recorded_host(*std::move(recording), live).release());
  opened.soft = nullptr;
  return std::nullopt;
}

/// `beside`: what it is compared with.
Attempt<Side> open_side(const std::string& text, const std::string& beside, system::Host& live) {
  MachineSelection selection;
  selection.machine = machine_of(text);
  Attempt<OpenMachine> opened = open_machine(selection, live);
  if (auto* problem = std::get_if<Problem>(&opened)) return std::move(*problem);
  Side side{std::get<OpenMachine>(std::move(opened)), {}, {}};
  if (is_recorded(beside) && !is_recorded(text)) {
    if (auto problem = as_recorded(side.opened, live)) return std::move(*problem);
  }
  Result<Survey> surveyed = survey(*side.opened.host);
  if (!surveyed.ok()) return Problem{std::move(surveyed).error()};
  side.surveyed = *std::move(surveyed);
  CheckArguments everything;
  everything.all = true;
  Attempt<std::vector<report::CheckRow>> rows =
      check_rows(*side.opened.host, side.surveyed, everything);
  if (auto* problem = std::get_if<Problem>(&rows)) return std::move(*problem);
  side.rows = std::get<std::vector<report::CheckRow>>(std::move(rows));
  return side;
}

}  // namespace

int run_diff(Console& console, const DiffArguments& arguments, system::Host& live) {
  Attempt<Side> before = open_side(arguments.before, arguments.after, live);
  if (const auto* problem = std::get_if<Problem>(&before)) return console.problem(*problem);
  Attempt<Side> after = open_side(arguments.after, arguments.before, live);
  if (const auto* problem = std::get_if<Problem>(&after)) return console.problem(*problem);
  const Side& one = std::get<Side>(before);
  const Side& other = std::get<Side>(after);
  report::DiffReport report{one.opened.label, other.opened.label, {}};
  compare_counts(one, other, report.lines);
  compare_rows(one, other, report.lines);
  compare_fields(one, other, report.lines);
  std::stable_sort(report.lines.begin(), report.lines.end(), goes_first);
  if (console.json()) {
    console.document(report::diff_json(report));
  } else {
    console.text(report::diff_text(report, console.style()));
  }
  const bool matters = !report.lines.empty() && report.lines.front().weight <= DiffWeight::setting;
  return matters ? exit_refused : exit_done;
}

}  // namespace nobounce::cli
