// `nobounce stat`: what running sessions have moved.
#include <string>
#include <utility>
#include <vector>

#include <nobounce/session.hpp>
#include "cli/commands.hpp"
#include "report/session_report.hpp"

namespace nobounce::cli {

int run_stat(CommandContext& context, const StatArguments& arguments) {
  Result<std::vector<LedgerSnapshot>> ledgers =
      read_ledgers(*context.machine.host, arguments.process_id);
  if (!ledgers.ok()) return context.console.problem({std::move(ledgers).error()});
  if (arguments.process_id != 0 && ledgers->empty()) {
    return context.console.problem(
        {Error{.origin = ErrorOrigin::input,
               .attempted = "read the ledger of process " + std::to_string(arguments.process_id),
               .detail = "no session of that process publishes one",
               .remedy = "nobounce stat lists all that do"}});
  }
  if (context.console.json()) {
    context.console.document(report::sessions_json(*ledgers));
  } else if (arguments.prometheus) {
    context.console.text(report::sessions_prometheus(*ledgers));
  } else {
    context.console.text(report::sessions_text(*ledgers, context.console.style()));
  }
  return exit_done;
}

}  // namespace nobounce::cli
