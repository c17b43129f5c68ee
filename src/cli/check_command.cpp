// `nobounce check`: the preconditions of the direct path, member by member and pair by pair. Moves
// nothing.
#include <string>
#include <utility>
#include <vector>

#include "cli/check_rows.hpp"
#include "cli/commands.hpp"
#include "cli/survey.hpp"

namespace nobounce::cli {

int run_check(CommandContext& context, const CheckArguments& arguments) {
  system::Host& host = *context.machine.host;
  Result<Survey> surveyed = survey(host);
  if (!surveyed.ok()) return context.console.problem({std::move(surveyed).error()});
  Attempt<std::vector<report::CheckRow>> rows = check_rows(host, *surveyed, arguments);
  if (const auto* problem = std::get_if<Problem>(&rows)) return context.console.problem(*problem);
  report::CheckReport report{.machine = context.machine.label,
                             .rows = std::get<std::vector<report::CheckRow>>(std::move(rows)),
                             .notes = check_notes(*surveyed)};
  if (report.rows.empty()) {
    return context.console.problem(
        {Error{.origin = ErrorOrigin::input,
               .code = 0,
               .attempted = "check this machine",
               .cause = Cause::none,
               .detail = "no mount lies on a drive that could be found, and there is no pair of "
                         "what was asked about",
               .remedy = "nobounce check --path FILE"},
         exit_unknown});
  }
  if (context.console.json()) {
    context.console.document(report::check_json(report));
  } else {
    const report::Style style = context.console.style();
    context.console.text(report::banner(report.machine, style));
    context.console.text(report::check_text(report, {.met_findings_too = arguments.all}, style));
  }
  return check_exit_code(report.rows);
}

}  // namespace nobounce::cli
