// Differences as text and as `nobounce.diff/1`.
#include "report/diff_report.hpp"
#include "report/labelled.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/core.h>

namespace nobounce::report {

namespace {

Paint paint_of(DiffWeight weight) {
  switch (weight) {
    case DiffWeight::verdict:
      return Paint::bad;
    case DiffWeight::setting:
      return Paint::notice;
    case DiffWeight::detail:
      return Paint::plain;
    case DiffWeight::other:
      return Paint::faint;
  }
  return Paint::plain;
}

std::string shown(const std::string& value) {
  return value.empty() ? "(nothing)" : visible(value);
}

/// Lines that are said in one go.
struct Group {
  DiffWeight weight = DiffWeight::other;
  std::vector<const DiffLine*> lines;
  std::string entries;  ///< `/gpus`: whole entries of it that only one of the two has
  bool rows = false;    ///< pairs that only one of the two has
};

/// `/gpus` of `/gpus/3/link/width`: of lists of devices, whose entries come and go as a whole.
std::string_view list_of(std::string_view subject) {
  constexpr std::string_view lists[] = {"/gpus",       "/nics",         "/drives",     "/mounts",
                                        "/switches",   "/host_bridges", "/numa_nodes", "/nvlinks",
                                        "/other_gpus", "/unread"};
  for (const std::string_view list : lists) {
    if (subject.substr(0, list.size() + 1) == std::string(list) + "/") return list;
  }
  return {};
}

std::string_view entry_of(std::string_view subject) {
  const std::string_view rest = subject.substr(list_of(subject).size() + 1);
  return rest.substr(0, rest.find('/'));
}

bool one_sided(const DiffLine& line) {
  return line.before.empty() || line.after.empty();
}

/// What lines have in common that are told together.
std::string key_of(const DiffLine& line) {
  const char* side = line.before.empty() ? "B" : line.after.empty() ? "A" : "both";
  const std::string_view list = list_of(line.subject);
  if (!list.empty() && one_sided(line)) return std::string(side) + " " + std::string(list);
  if (line.weight == DiffWeight::verdict && one_sided(line))
    return side + (" rows " + line.members);
  const bool pointer = !line.subject.empty() && line.subject.front() == '/';
  const std::string field =
      list.empty() ? (pointer                              ? line.subject
                      : line.weight == DiffWeight::verdict ? ""
                                                           : line.subject)
                   : std::string(list) +
                         line.subject.substr(list.size() + 1 + entry_of(line.subject).size());
  return std::to_string(static_cast<int>(line.weight)) + " " + side + " " + line.members + " " +
         field + "\n" + line.before + "\n" + line.after;
}

/// In the order of the first line of each.
std::vector<Group> grouped_lines(const std::vector<DiffLine>& lines) {
  std::vector<Group> groups;
  std::map<std::string, std::size_t> places;
  for (const DiffLine& line : lines) {
    const auto [place, added] = places.try_emplace(key_of(line), groups.size());
    if (added) {
      groups.push_back({.weight = line.weight, .lines = {}, .entries = {}});
      if (one_sided(line)) groups.back().entries = list_of(line.subject);
      groups.back().rows = one_sided(line) && line.weight == DiffWeight::verdict;
    }
    groups[place->second].lines.push_back(&line);
  }
  return groups;
}

std::string first_few(const std::vector<std::string>& names) {
  constexpr std::size_t most = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i)
    text += (i == 0 ? "" : ", ") + visible(names[i]);
  return names.size() > most ? fmt::format("{} and {} more", text, names.size() - most) : text;
}

/// Devices that one of the two does not have: their names, and none of their fields.
std::string entries_text(const Group& group, Style style) {
  std::vector<std::string> names;
  for (const DiffLine* line : group.lines) {
    std::string name(entry_of(line->subject));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  const DiffLine& first = *group.lines.front();
  std::string text =
      fmt::format("{} {}", painted(left(to_string(group.weight), 8), paint_of(group.weight), style),
                  painted(group.entries, Paint::strong, style));
  if (!first.members.empty()) text += painted("  (" + first.members + ")", Paint::faint, style);
  return text + "\n" +
         labelled("         " + left(first.before.empty() ? "B" : "A", 3), 12,
                  fmt::format("alone has {} ({} field{})", first_few(names), group.lines.size(),
                              group.lines.size() == 1 ? "" : "s"));
}

/// Pairs that one of the two does not have: how many, and what is judged of them.
std::string rows_text(const Group& group, Style style) {
  std::map<std::string, std::size_t> verdicts;
  std::vector<std::string> names;
  for (const DiffLine* line : group.lines) {
    ++verdicts[line->before.empty() ? line->after : line->before];
    names.push_back(line->subject);
  }
  const DiffLine& first = *group.lines.front();
  std::string text = fmt::format(
      "{} {}\n", painted(left(to_string(group.weight), 8), paint_of(group.weight), style),
      painted(first.members + " pairs", Paint::strong, style));
  const std::string_view side = first.before.empty() ? "B" : "A";
  text += labelled("         " + left(side, 3), 12,
                   fmt::format("alone has {}: {}", names.size(), first_few(names)));
  for (const auto& [verdict, count] : verdicts)
    text += labelled("            ", 14, fmt::format("{} {}", count, visible(verdict)));
  return text;
}

std::string group_text(const Group& group, std::set<Cause>& said, Style style) {
  const DiffLine& first = *group.lines.front();
  std::string text =
      fmt::format("{} {}", painted(left(to_string(group.weight), 8), paint_of(group.weight), style),
                  painted(visible(first.subject), Paint::strong, style));
  if (!first.members.empty()) text += painted("  (" + first.members + ")", Paint::faint, style);
  text += "\n";
  if (group.lines.size() > 1) {
    std::vector<std::string> others;
    for (std::size_t i = 1; i < group.lines.size(); ++i) others.push_back(group.lines[i]->subject);
    text += labelled("         and  ", 14, first_few(others));
  }
  for (const auto& [name, value] :
       {std::pair<std::string_view, const std::string&>("A", first.before),
        std::pair<std::string_view, const std::string&>("B", first.after)}) {
    text += labelled("         " + left(name, 3), 12, shown(value));
  }
  if (first.cause != Cause::none && said.insert(first.cause).second) {
    text += labelled(
        "         try  ", 14,
        std::string(to_string(first.cause)) + ": " + std::string(cause_row(first.cause).remedy));
  }
  return text;
}

}  // namespace

std::string_view to_string(DiffWeight weight) {
  switch (weight) {
    case DiffWeight::verdict:
      return "verdict";
    case DiffWeight::setting:
      return "setting";
    case DiffWeight::detail:
      return "detail";
    case DiffWeight::other:
      return "other";
  }
  return "invalid";
}

std::string diff_text(const DiffReport& report, Style style) {
  std::string text =
      fmt::format("A  {}  {}\nB  {}  {}\n\n", report.before.kind, visible(report.before.name),
                  report.after.kind, visible(report.after.name));
  std::set<Cause> said;
  for (const Group& group : grouped_lines(report.lines)) {
    text += group.rows              ? rows_text(group, style)
            : group.entries.empty() ? group_text(group, said, style)
                                    : entries_text(group, style);
  }
  const auto mattering =
      std::count_if(report.lines.begin(), report.lines.end(),
                    [](const DiffLine& line) { return line.weight <= DiffWeight::setting; });
  text +=
      report.lines.empty()
          ? "nothing differs that was read\n"
          : fmt::format(
                "\n{} difference{}, {} of them can matter to how bytes travel; --json lists each\n",
                report.lines.size(), report.lines.size() == 1 ? "" : "s", mattering);
  return text;
}

core::Json diff_json(const DiffReport& report) {
  core::JsonArray lines;
  for (const DiffLine& line : report.lines) {
    lines.push_back(core::JsonObject{{"weight", to_string(line.weight)},
                                     {"subject", line.subject},
                                     {"before", line.before},
                                     {"after", line.after},
                                     {"members", line.members},
                                     {"cause", to_string(line.cause)},
                                     {"remedy", cause_row(line.cause).remedy}});
  }
  return core::JsonObject{{"schema", "nobounce.diff/1"},
                          {"before", label_json(report.before)},
                          {"after", label_json(report.after)},
                          {"differences", std::move(lines)}};
}

}  // namespace nobounce::report
