// Differences as text and as `nobounce.diff/1`.
#include "report/diff_report.hpp"
#include "report/labelled.hpp"

#include <algorithm>
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
  for (const DiffLine& line : report.lines) {
    text +=
        fmt::format("{} {}", painted(left(to_string(line.weight), 8), paint_of(line.weight), style),
                    painted(visible(line.subject), Paint::strong, style));
    if (!line.members.empty()) text += painted("  (" + line.members + ")", Paint::faint, style);
    text += "\n";
    for (const auto& [name, value] :
         {std::pair<std::string_view, const std::string&>("A", line.before),
          std::pair<std::string_view, const std::string&>("B", line.after)}) {
      text += labelled("         " + left(name, 3), 12, shown(value));
    }
    if (line.cause != Cause::none) {
      text += labelled(
          "         try  ", 14,
          std::string(to_string(line.cause)) + ": " + std::string(cause_row(line.cause).remedy));
    }
  }
  const auto mattering =
      std::count_if(report.lines.begin(), report.lines.end(),
                    [](const DiffLine& line) { return line.weight <= DiffWeight::setting; });
  text += report.lines.empty()
              ? "nothing differs that was read\n"
              : fmt::format("\n{} difference{}, {} of them can matter to how bytes travel\n",
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
