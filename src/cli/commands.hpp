// The commands: arguments in, report out, exit code back.
#pragma once

#include "cli/arguments.hpp"
#include "cli/console.hpp"
#include "cli/machine_argument.hpp"

namespace nobounce::cli {

/// What every command is handed.
struct CommandContext {
  Console& console;
  OpenMachine& machine;
  system::Host& live;  ///< this machine, whatever machine is worked on
  std::uint64_t seed = 1;
};

[[nodiscard]] int run_topo(CommandContext& context, const TopoArguments& arguments);
[[nodiscard]] int run_check(CommandContext& context, const CheckArguments& arguments);
[[nodiscard]] int run_copy(CommandContext& context, const CopyArguments& arguments);
[[nodiscard]] int run_prove(CommandContext& context, const ProveArguments& arguments);
[[nodiscard]] int run_serve(CommandContext& context, const ServeArguments& arguments);
[[nodiscard]] int run_stat(CommandContext& context, const StatArguments& arguments);

[[nodiscard]] int run_record(CommandContext& context, const RecordArguments& arguments);
/// These open their machines themselves.
[[nodiscard]] int run_topo_from(Console& console, const TopoArguments& arguments,
                                MachineSelection selection, system::Host& live);
[[nodiscard]] int run_diff(Console& console, const DiffArguments& arguments, system::Host& live);

/// These need no machine; `explain` reads files of the live one.
[[nodiscard]] int run_version(Console& console);
[[nodiscard]] int run_explain(Console& console, system::Host& live,
                              const ExplainArguments& arguments);

}  // namespace nobounce::cli
