// `nobounce topo`: the machine as it is.
#include <string>
#include <utility>

#include "cli/commands.hpp"
#include "cli/text_file.hpp"
#include "core/machine_json.hpp"
#include "report/topology_report.hpp"
#include "topology/read_machine.hpp"

namespace nobounce::cli {

int run_topo(CommandContext& context, const TopoArguments& arguments) {
  Result<Machine> machine = topology::read_machine(*context.machine.host);
  if (!machine.ok()) return context.console.problem({std::move(machine).error()});
  if (!arguments.svg.empty()) {
    const Status written = write_text_file(context.console, context.live, arguments.svg,
                                           report::topology_svg(*machine));
    if (!written.ok()) return context.console.problem({written.error()});
  }
  if (context.console.json()) {
    context.console.document(core::machine_to_json(*machine));
    return exit_done;
  }
  const report::Style style = context.console.style();
  context.console.text(report::banner(context.machine.label, style));
  context.console.text(report::topology_text(*machine, style));
  return exit_done;
}

}  // namespace nobounce::cli
