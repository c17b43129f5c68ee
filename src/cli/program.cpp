// Parses, opens the machine, runs one command.
#include "cli/program.hpp"

#include <variant>

#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "cli/console.hpp"
#include "cli/exit_code.hpp"
#include "cli/machine_argument.hpp"
#include "system/terminal.hpp"

namespace nobounce::cli {

namespace {

ConsoleOptions console_options(bool json, bool no_color, system::Host& live) {
  const bool colour = !no_color && !json && live.environment().get("NO_COLOR").value_or("").empty();
  const bool terminal_error = system::is_terminal(system::StandardStream::error);
  return {.json = json,
          .colour_output = colour && system::is_terminal(system::StandardStream::output),
          .colour_error = colour && terminal_error,
          .progress = terminal_error};
}

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

int run_command(const Arguments& arguments, Console& console, system::Host& live) {
  if (std::holds_alternative<VersionArguments>(arguments.command)) return run_version(console);
  if (const auto* explain = std::get_if<ExplainArguments>(&arguments.command))
    return run_explain(console, live, *explain);
  if (const auto* diff = std::get_if<DiffArguments>(&arguments.command)) {
    return run_diff(console, *diff, live);
  }
  const auto* topo = std::get_if<TopoArguments>(&arguments.command);
  if (topo != nullptr && !topo->from.empty())
    return run_topo_from(console, *topo, arguments.machine, live);
  Attempt<OpenMachine> opened = open_machine(arguments.machine, live);
  if (const auto* problem = std::get_if<Problem>(&opened)) return console.problem(*problem);
  const bool moves = std::holds_alternative<CopyArguments>(arguments.command) ||
                     std::holds_alternative<ProveArguments>(arguments.command) ||
                     std::holds_alternative<ServeArguments>(arguments.command);
  if (moves && std::get<OpenMachine>(opened).host->kind() == HostKind::recorded)
    return console.problem(recording_moves_nothing(arguments.machine.machine));
  CommandContext context{console, std::get<OpenMachine>(opened), live,
                         arguments.machine.seed.value_or(1)};
  return std::visit(
      Overloaded{[&](const VersionArguments&) { return exit_done; },
                 [&](const ExplainArguments&) { return exit_done; },
                 [&](const TopoArguments& here) { return run_topo(context, here); },
                 [&](const CheckArguments& check) { return run_check(context, check); },
                 [&](const CopyArguments& copy) { return run_copy(context, copy); },
                 [&](const ProveArguments& prove) { return run_prove(context, prove); },
                 [&](const ServeArguments& serve) { return run_serve(context, serve); },
                 [&](const StatArguments& stat) { return run_stat(context, stat); },
                 [&](const RecordArguments& record) { return run_record(context, record); },
                 [&](const DiffArguments&) { return exit_done; }},
      arguments.command);
}

}  // namespace

int run_program(int count, const char* const* values) {
  system::refuse_files_over_the_limit();
  const HostPointer live = live_host();
  const ParsedArguments parsed = parse_arguments(count, values);
  const auto* arguments = std::get_if<Arguments>(&parsed);
  const bool json = arguments != nullptr ? arguments->json : wants_json(count, values);
  Console console(console_options(json, arguments != nullptr && arguments->no_color, *live));
  int exit_code = exit_done;
  if (const auto* help = std::get_if<HelpText>(&parsed)) {
    console.text(help->text);
  } else if (const auto* problem = std::get_if<Problem>(&parsed)) {
    exit_code = console.problem(*problem);
  } else {
    exit_code = run_command(*arguments, console, *live);
  }
  // A verdict that nobody could read is none.
  if (!console.finish() && exit_code < exit_signal_base) exit_code = exit_error;
  return exit_code;
}

}  // namespace nobounce::cli
