// `nobounce topo`: the machine as it is.
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "captures/read_text.hpp"
#include "cli/capture_input.hpp"
#include "cli/commands.hpp"
#include "cli/text_file.hpp"
#include "core/machine_json.hpp"
#include "judge/text_topology.hpp"
#include "recording/recording.hpp"
#include "report/text_topology_report.hpp"
#include "report/topology_report.hpp"
#include "topology/read_machine.hpp"

namespace nobounce::cli {

namespace {

/// What `--machine` would call the file: a recording or a description. Empty: it is a text.
std::string machine_in(const std::string& path, system::Host& live) {
  const Result<std::string> text = read_text_file(live, path);
  if (!text.ok()) return {};
  const std::size_t first = text->find_first_not_of(" \t\r\n");
  if (first == std::string::npos || (*text)[first] != '{') return {};
  const Result<core::Json> document = core::parse_json(*text, path);
  if (!document.ok()) return {};
  if (recording::is_recording(*document)) return "recorded:" + path;
  const core::Json* schema = document->find("schema");
  const bool machine = schema != nullptr && schema->as_text() != nullptr &&
                       schema->as_text()->rfind("nobounce.machine/", 0) == 0;
  if (!machine) return {};
  return path.find('/') == std::string::npos ? "soft:./" + path : "soft:" + path;
}

int show_text(Console& console, const TopoArguments& arguments, system::Host& live) {
  const auto problem = [&](std::string detail, std::string remedy) {
    return console.problem({Error{.origin = ErrorOrigin::input,
                                  .attempted = "read the topology in " + arguments.from,
                                  .detail = std::move(detail),
                                  .remedy = std::move(remedy)}});
  };
  if (!arguments.svg.empty()) {
    return problem("a text shows no whole machine, so there is none to draw",
                   "--svg with a recording, or without --from");
  }
  captures::TextReader reader;
  CaptureInput text(console, live, CaptureUse::topology, capture_limit_bytes);
  if (const auto unread = text.read(arguments.from, reader)) return console.problem(*unread);
  const std::vector<core::TextTopology> topologies = judge::text_topologies(reader.finish());
  if (topologies.empty()) {
    return problem("nothing in it says how far devices are apart",
                   "nvidia-smi topo -m, a file of NCCL_TOPO_DUMP_FILE, lspci -tv, or a recording; "
                   "nobounce explain reads other texts");
  }
  if (console.json()) {
    console.document(report::text_topology_json(topologies));
  } else {
    console.text(report::text_topology_text(topologies, console.style()));
  }
  return exit_done;
}

}  // namespace

int run_topo_from(Console& console, const TopoArguments& arguments, MachineSelection selection,
                  system::Host& live) {
  selection.machine = arguments.from == "-" ? "" : machine_in(arguments.from, live);
  if (selection.machine.empty()) return show_text(console, arguments, live);
  Attempt<OpenMachine> opened = open_machine(selection, live);
  if (const auto* problem = std::get_if<Problem>(&opened)) return console.problem(*problem);
  CommandContext context{console, std::get<OpenMachine>(opened), live};
  return run_topo(context, arguments);
}

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
