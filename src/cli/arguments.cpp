// The only file that knows CLI11: subcommands, options, help texts.
#include "cli/arguments.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>

#include "cli/quantity_argument.hpp"

namespace nobounce::cli {

namespace {

constexpr const char* description =
    "Moves data between GPU memory and files, and tells how the bytes travelled: directly, or "
    "staged\n"
    "through host memory, and why. It never falls back in silence.";

constexpr const char* footer =
    "Examples:\n"
    "  nobounce check                              what direct storage needs, and what is missing "
    "here\n"
    "  nobounce copy model.bin gpu:0               a file into GPU memory, with a receipt\n"
    "  nobounce topo --machine soft:workstation    the same program on a software machine, without "
    "a GPU\n"
    "  nobounce prove --machine soft:workstation   what travels directly, with evidence\n"
    "\n"
    "Exit codes: 0 done, 1 error, 2 usage, 3 refused by policy (check, prove: unmet, staged "
    "or degraded),\n"
    "4 unknown (check, prove), 128 + N ended by signal N.";

constexpr const char* topo_footer =
    "Examples:\n"
    "  nobounce topo\n"
    "  nobounce topo --machine soft:dgx\n"
    "  nobounce topo --json > machine.json         edit it, then: --machine soft:machine.json";

constexpr const char* check_footer =
    "Rows: every GPU with every mount on a drive, reads and writes; each GPU with its best "
    "partner,\n"
    "and one pair of GPUs per level. Nothing is moved or changed.\n"
    "Exit code, by the worst row: 1 broken or impossible, 3 unmet, staged or degraded, 4 unknown, "
    "0.\n"
    "Examples:\n"
    "  nobounce check --path /data/model.bin --gpu 0\n"
    "  nobounce check --pair gpu:0,gpu:1\n"
    "  nobounce check --machine soft:workstation --set /modules/nvidia_fs=false";

constexpr const char* copy_footer =
    "Places: a path or file:PATH, gpu:N (also gpu:UUID, gpu:BDF), host. A GPU or host in first "
    "place holds\n"
    "a seeded pattern of --length bytes. Three places make two hops with one receipt each.\n"
    "A file appears whole or not at all, unless --in-place.\n"
    "Exit code: 0 done as the policy allows, 3 refused by policy, 1 error, 2 usage.\n"
    "Examples:\n"
    "  nobounce copy model.bin gpu:0\n"
    "  nobounce copy model.bin gpu:0 copy.bin --durable\n"
    "  nobounce copy gpu:0 dump.bin --length 1GiB --policy direct_required\n"
    "  nobounce copy model.bin gpu:0 --machine soft:workstation --ledger";

constexpr const char* prove_footer =
    "Each row moves bytes several times, beside a control that is made to stage, and asks counters "
    "that\n"
    "the mover does not own. Storage rows write a scratch file and remove it.\n"
    "Exit code, by the worst row: 1 broken or impossible, 3 staged or degraded, 4 unknown, 0.\n"
    "Examples:\n"
    "  nobounce prove\n"
    "  nobounce prove --pair gpu:0,gpu:1 --pair drive:nvme0n1,gpu:0 --path /data\n"
    "  nobounce prove --save good.json             later: nobounce prove --against good.json\n"
    "  nobounce prove --machine soft:workstation   the same on a software machine";

constexpr const char* stat_footer =
    "Examples:\n"
    "  nobounce stat\n"
    "  nobounce stat 4711 --json\n"
    "  nobounce stat --prometheus > nobounce.prom";

/// Option texts that still have to be read by our own parsers.
struct RawTexts {
  std::string policy = "direct_preferred";
  std::string length;
  std::string pinned;
  std::string slot;
  std::string deadline;
  std::string volumes;
  std::string seed;
  std::string readers;
  std::string process_id;
  bool no_verify = false;
  bool version = false;
};

void add_global_options(CLI::App& app, Arguments& arguments, RawTexts& raw) {
  app.add_option("--machine", arguments.machine.machine,
                 "live | soft:NAME | soft:PATH (a software machine by name or description)")
      ->type_name("MACHINE")
      ->default_str("live");
  app.add_option("--set", arguments.machine.settings,
                 "change one field of the software machine, as /json/pointer=value; repeatable")
      ->type_name("FIELD")
      ->allow_extra_args(false);
  app.add_option("--seed", raw.seed, "seed of the software machine and of patterns")
      ->type_name("N");
  app.add_flag("--deterministic", arguments.machine.deterministic,
               "run the software machine on one thread, in an order set by --seed");
  app.add_flag("--json", arguments.json, "print one versioned JSON document");
  app.add_flag("--no-color", arguments.no_color, "never colour (NO_COLOR does the same)");
}

CLI::App* add_check(CLI::App& app, CheckArguments& check) {
  CLI::App* command =
      app.add_subcommand("check", "the preconditions of direct storage: met, unmet, unknown");
  command->footer(check_footer);
  command
      ->add_option("--path", check.paths,
                   "judge this file or directory instead of every mount; repeatable")
      ->type_name("PATH")
      ->allow_extra_args(false);
  command->add_option("--gpu", check.gpus, "judge this GPU only (N, UUID or BDF); repeatable")
      ->type_name("GPU")
      ->allow_extra_args(false);
  command
      ->add_option("--pair", check.pairs,
                   "judge this ordered pair only (gpu:0,gpu:1 or drive:nvme0n1,gpu:0); repeatable")
      ->type_name("A,B")
      ->allow_extra_args(false);
  command->add_flag("--all", check.all, "show what is met, and every pair of GPUs");
  return command;
}

CLI::App* add_prove(CLI::App& app, ProveArguments& prove, RawTexts& raw) {
  CLI::App* command = app.add_subcommand(
      "prove", "transfers beside control runs: a verdict per pair and direction, with evidence");
  command->footer(prove_footer);
  command->add_flag("--all", prove.all,
                    "every pair (default: each GPU's best partner and one pair per level)");
  command
      ->add_option("--pair", prove.pairs,
                   "this ordered pair only (gpu:0,gpu:1 or gpu:0,drive:nvme0n1); repeatable")
      ->type_name("A,B")
      ->allow_extra_args(false);
  command
      ->add_option("--path", prove.path,
                   "directory for the scratch files of storage rows (default: the temporary one)")
      ->type_name("DIR");
  command
      ->add_option("--volumes", raw.volumes,
                   "three or more sizes to move (default: 8MiB,16MiB,32MiB; live: from 64MiB)")
      ->type_name("SIZES");
  command->add_flag("--force", prove.force, "run rows whose preconditions are unmet in full, too");
  command->add_option("--save", prove.save, "write the proof to this file as JSON")
      ->type_name("FILE");
  command->add_option("--against", prove.against, "say what changed since this saved proof")
      ->type_name("FILE");
  return command;
}

CLI::App* add_copy(CLI::App& app, CopyArguments& copy, RawTexts& raw) {
  CLI::App* command =
      app.add_subcommand("copy", "move bytes from place to place, with one receipt per hop");
  command->footer(copy_footer);
  command->add_option("places", copy.places, "A B [C ...]")
      ->required()
      ->expected(2, 1 << 20)
      ->type_name("PLACE");
  command->add_option("--policy", raw.policy, "direct_required | direct_preferred | staged_only")
      ->type_name("POLICY")
      ->default_str(raw.policy);
  command
      ->add_option("--length", raw.length, "bytes of the pattern when the first place is no file")
      ->type_name("SIZE")
      ->default_str("256MiB");
  command->add_option("--deadline", raw.deadline, "cancel a hop that takes longer")
      ->type_name("SECONDS");
  command->add_flag("--no-verify", raw.no_verify, "do not compare source and target afterwards");
  command->add_flag("--durable", copy.durable,
                    "a written file survives a power cut, with its name");
  command->add_flag("--in-place", copy.in_place,
                    "write into an existing file instead of replacing it whole");
  command->add_flag("--ledger", copy.ledger,
                    "print the bus ledger of the software machine beside each receipt");
  command
      ->add_option("--readers", raw.readers,
                   "workers that read and write files when staging (0: by CPUs)")
      ->type_name("N");
  command->add_option("--pinned-bytes", raw.pinned, "bounce memory that staging may pin at most")
      ->type_name("SIZE");
  command->add_option("--slot-bytes", raw.slot, "size of one bounce slot")->type_name("SIZE");
  return command;
}

CLI::App* add_stat(CLI::App& app, StatArguments& stat, RawTexts& raw) {
  CLI::App* command = app.add_subcommand("stat", "the ledgers of running sessions");
  command->footer(stat_footer);
  command->add_option("pid", raw.process_id, "of this process only")->type_name("PID");
  command->add_flag("--prometheus", stat.prometheus,
                    "print metrics in the text format of Prometheus");
  return command;
}

Problem usage(std::string attempted, const Error& error, const char* command) {
  Problem problem{error, exit_usage};
  problem.error.attempted = std::move(attempted) + ": " + error.attempted;
  if (problem.error.remedy.empty())
    problem.error.remedy = std::string("nobounce ") + command + " --help";
  return problem;
}

/// Reads one size option, if it was given.
std::optional<Problem> read_size(const char* option, const std::string& text,
                                 std::optional<std::uint64_t>& target) {
  if (text.empty()) return std::nullopt;
  const Result<std::uint64_t> size = parse_size(text);
  if (!size.ok()) return usage(option, size.error(), "copy");
  target = *size;
  return std::nullopt;
}

/// Reads one whole number, if it was given.
std::optional<Problem> read_number(const CLI::Option& option, const char* name, std::uint64_t most,
                                   std::optional<std::uint64_t>& target) {
  if (option.count() == 0) return std::nullopt;
  const Result<std::uint64_t> number = parse_number(option.results().front(), most);
  if (!number.ok()) return usage(name, number.error(), "");
  target = *number;
  return std::nullopt;
}

std::optional<Problem> read_copy_texts(const RawTexts& raw, const CLI::App& command,
                                       CopyArguments& copy) {
  const std::optional<Policy> policy = policy_from_string(raw.policy);
  if (!policy.has_value()) {
    return usage_problem("--policy", "there is no policy \"" + raw.policy + "\"",
                         "direct_required, direct_preferred or staged_only");
  }
  copy.policy = *policy;
  copy.verify = !raw.no_verify;
  for (const char* option : {"--length", "--pinned-bytes", "--slot-bytes", "--deadline"}) {
    const CLI::Option* given = command.get_option(option);
    if (given->count() > 0 && given->results().front().empty()) {
      return usage_problem(option, "its value is empty", "nobounce copy --help");
    }
  }
  if (auto problem = read_size("--length", raw.length, copy.length_bytes)) return problem;
  if (auto problem = read_size("--pinned-bytes", raw.pinned, copy.pinned_bytes)) return problem;
  if (auto problem = read_size("--slot-bytes", raw.slot, copy.slot_bytes)) return problem;
  constexpr std::uint64_t page_bytes = 4096;
  if (copy.slot_bytes.has_value() &&
      (*copy.slot_bytes == 0 || *copy.slot_bytes % page_bytes != 0)) {
    return usage_problem("--slot-bytes: read \"" + raw.slot + "\"",
                         "a slot is a positive multiple of 4096 bytes",
                         "--slot-bytes 4MiB, 64KiB, 4096");
  }
  std::optional<std::uint64_t> readers;
  if (auto problem = read_number(*command.get_option("--readers"), "--readers", 65535, readers))
    return problem;
  copy.readers = static_cast<std::uint32_t>(readers.value_or(copy.readers));
  if (!raw.deadline.empty()) {
    const Result<std::uint64_t> deadline = parse_seconds(raw.deadline);
    if (!deadline.ok()) return usage("--deadline", deadline.error(), "copy");
    copy.deadline_ns = *deadline;
  }
  return std::nullopt;
}

std::optional<Problem> read_prove_texts(const RawTexts& raw, const CLI::App& command,
                                        ProveArguments& prove) {
  for (const char* option : {"--path", "--volumes", "--save", "--against"}) {
    const CLI::Option* given = command.get_option(option);
    if (given->count() > 0 && given->results().front().empty())
      return usage_problem(option, "its value is empty", "nobounce prove --help");
  }
  if (raw.volumes.empty()) return std::nullopt;
  std::set<std::uint64_t> volumes;
  for (std::size_t at = 0; at <= raw.volumes.size();) {
    const std::size_t end = std::min(raw.volumes.find(',', at), raw.volumes.size());
    const Result<std::uint64_t> size =
        parse_size(std::string_view(raw.volumes).substr(at, end - at));
    if (!size.ok()) return usage("--volumes", size.error(), "prove");
    if (*size > 0) volumes.insert(*size);
    at = end + 1;
  }
  if (volumes.size() < 3) {
    return usage_problem("--volumes", "a slope needs three sizes that differ",
                         "--volumes 8MiB,16MiB,32MiB");
  }
  prove.volumes_bytes.assign(volumes.begin(), volumes.end());
  return std::nullopt;
}

std::optional<Problem> read_stat_texts(const CLI::App& command, StatArguments& stat) {
  std::optional<std::uint64_t> process_id;
  constexpr std::uint64_t most = std::numeric_limits<std::int32_t>::max();
  if (auto problem = read_number(*command.get_option("pid"), "PID", most, process_id))
    return problem;
  if (process_id == std::uint64_t{0})
    return usage_problem("PID: read \"0\"", "no process has that number", "nobounce stat");
  stat.process_id = process_id.value_or(0);
  return std::nullopt;
}

/// A library's message may bring line ends of its own; errors are one line.
std::string on_one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

std::string help_command(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? "nobounce --help" : "nobounce " + chosen.front()->get_name() + " --help";
}

}  // namespace

ParsedArguments parse_arguments(int count, const char* const* values) {
  Arguments arguments;
  CheckArguments check;
  CopyArguments copy;
  ProveArguments prove;
  StatArguments stat;
  RawTexts raw;

  CLI::App app(description, "nobounce");
  app.footer(footer);
  app.fallthrough();
  app.require_subcommand(0, 1);
  add_global_options(app, arguments, raw);
  app.add_flag("--version", raw.version, "print the version");
  CLI::App* topo_command =
      app.add_subcommand("topo", "the machine: tree, distances, best partners");
  topo_command->footer(topo_footer);
  const CLI::App* check_command = add_check(app, check);
  const CLI::App* copy_command = add_copy(app, copy, raw);
  const CLI::App* prove_command = add_prove(app, prove, raw);
  const CLI::App* stat_command = add_stat(app, stat, raw);

  try {
    app.parse(count, values);
  } catch (const CLI::CallForHelp&) {
    return HelpText{app.help()};
  } catch (const CLI::ParseError& error) {
    return usage_problem("read the command line", on_one_line(error.what()), help_command(app));
  }
  constexpr std::uint64_t seed_max = std::numeric_limits<std::uint64_t>::max();
  if (auto problem =
          read_number(*app.get_option("--seed"), "--seed", seed_max, arguments.machine.seed)) {
    return std::move(*problem);
  }
  if (raw.version) {
    arguments.command = VersionArguments{};
  } else if (topo_command->parsed()) {
    arguments.command = TopoArguments{};
  } else if (check_command->parsed()) {
    arguments.command = std::move(check);
  } else if (copy_command->parsed()) {
    if (auto problem = read_copy_texts(raw, *copy_command, copy)) return std::move(*problem);
    arguments.command = std::move(copy);
  } else if (prove_command->parsed()) {
    if (auto problem = read_prove_texts(raw, *prove_command, prove)) return std::move(*problem);
    arguments.command = std::move(prove);
  } else if (stat_command->parsed()) {
    if (auto problem = read_stat_texts(*stat_command, stat)) return std::move(*problem);
    arguments.command = stat;
  } else {
    return usage_problem("read the command line", "no command was given", "nobounce --help");
  }
  return arguments;
}

bool wants_json(int count, const char* const* values) {
  for (int i = 1; i < count; ++i) {
    const std::string_view value(values[i]);
    if (value == "--") return false;
    if (value == "--json") return true;
  }
  return false;
}

}  // namespace nobounce::cli
