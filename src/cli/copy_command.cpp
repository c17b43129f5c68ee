// `nobounce copy`: moves bytes and prints the receipts.
#include <algorithm>
#include <utility>
#include <vector>

#include <nobounce/session.hpp>
#include "cli/commands.hpp"
#include "cli/copy_run.hpp"
#include "report/receipt_report.hpp"

namespace nobounce::cli {

namespace {

std::optional<Problem> check_bounce_memory(const SessionOptions& options) {
  if (options.slot_bytes > 0 && options.slot_bytes <= options.pinned_bytes_max) return std::nullopt;
  Problem problem = usage_problem(
      "read --pinned-bytes",
      "bounce memory of " + std::to_string(options.pinned_bytes_max) + " bytes holds no slot of " +
          std::to_string(std::max<std::uint64_t>(options.slot_bytes, 4096)) +
          " bytes: nothing could be staged, and no direct pair probed",
      "--pinned-bytes 128MiB, at least as much as --slot-bytes");
  problem.error.cause = Cause::session_pinned_limit;
  return problem;
}

std::optional<Problem> check_options(const CommandContext& context,
                                     const CopyArguments& arguments) {
  if (!arguments.ledger) return std::nullopt;
  if (context.machine.soft == nullptr) {
    return usage_problem("read --ledger", "only a software machine keeps a bus ledger",
                         "--ledger together with --machine soft:workstation");
  }
  if (context.console.json()) {
    return usage_problem("read --ledger with --json", "the bus ledger is printed as text only",
                         "leave out one of them");
  }
  return std::nullopt;
}

/// The default slot gets smaller where less memory than that may be pinned.
std::uint64_t default_slot_bytes(const SessionOptions& options) {
  constexpr std::uint64_t page_bytes = 4096;
  return std::min(options.slot_bytes, options.pinned_bytes_max / page_bytes * page_bytes);
}

SessionOptions session_options(const CopyArguments& arguments) {
  SessionOptions options;
  options.pinned_bytes_max = arguments.pinned_bytes.value_or(options.pinned_bytes_max);
  options.slot_bytes = arguments.slot_bytes.value_or(default_slot_bytes(options));
  options.readers = arguments.readers;
  options.warn_on_close = false;  // the receipt says it already
  return options;
}

/// The document of a run that did not end well: a refusal is told by its receipt, everything else
/// is an error.
int print_problem(CommandContext& context, const Problem& problem,
                  const std::vector<report::NamedReceipt>& receipts) {
  if (!context.console.json()) return context.console.problem(problem);
  if (problem.exit_code == exit_refused && !receipts.empty()) {
    context.console.document(report::receipts_json(receipts));
    return problem.exit_code;
  }
  std::vector<core::Json> documents;
  documents.reserve(receipts.size());
  for (const report::NamedReceipt& receipt : receipts)
    documents.push_back(report::receipt_json(receipt));
  return context.console.problem(problem, std::move(documents));
}

}  // namespace

int run_copy(CommandContext& context, const CopyArguments& arguments) {
  if (auto problem = check_options(context, arguments)) return context.console.problem(*problem);
  const SessionOptions options = session_options(arguments);
  if (auto problem = check_bounce_memory(options)) return context.console.problem(*problem);
  Result<Session> session = Session::open(*context.machine.host, options);
  if (!session.ok()) return context.console.problem({std::move(session).error()});
  CopyRun run(context, arguments, *session);
  if (auto problem = run.prepare()) return context.console.problem(*problem);
  const std::optional<Problem> problem = run.run();
  if (problem.has_value()) return print_problem(context, *problem, run.receipts());
  if (context.console.json()) context.console.document(report::receipts_json(run.receipts()));
  return exit_done;
}

}  // namespace nobounce::cli
