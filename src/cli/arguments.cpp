// The only file that knows CLI11: subcommands, options, help texts.
#include "cli/arguments.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/argument_checks.hpp"
#include "cli/command_texts.hpp"
#include "cli/quantity_argument.hpp"
#include "core/json.hpp"

namespace nobounce::cli {

namespace {

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
  std::string serve_policy = "direct_preferred";
  std::string serve_length;
  std::string explain_limit;
  std::string access = "read";
  std::string connections;
  bool no_verify = false;
  bool version = false;
};

struct GenerateTexts {
  std::string kind;
  std::string command;
};

void add_global_options(CLI::App& app, Arguments& arguments, RawTexts& raw) {
  app.set_help_flag("-h,--help", "print this help");
  app.add_option("--machine", arguments.machine.machine,
                 "the machine to work on: live, a recording (recorded:PATH), or a software machine "
                 "by its name (soft:NAME) or its description or recording (soft:PATH)")
      ->type_name("MACHINE")
      ->default_str("live");
  app.add_option("--set", arguments.machine.settings,
                 "change one field of the software machine: /json/pointer=value, as in topo --json")
      ->type_name("FIELD")
      ->allow_extra_args(false);
  app.add_option("--seed", raw.seed, "seed of the software machine and of patterns")
      ->type_name("N")
      ->default_str("1");
  app.add_flag("--deterministic", arguments.machine.deterministic,
               "run the software machine on one thread, in an order set by --seed");
  app.add_flag("--json", arguments.json, "print one versioned JSON document");
  app.add_flag("--no-color", arguments.no_color, "never colour (so does the variable NO_COLOR)");
  app.add_flag("--version", raw.version, "print the version");
}

CLI::App* add_command(CLI::App& app, const char* name) {
  return app.add_subcommand(name, texts_of(name).summary);
}

CLI::App* add_check(CLI::App& app, CheckArguments& check) {
  CLI::App* command = add_command(app, "check");
  command->add_option("--path", check.paths, "judge this file or directory instead of every mount")
      ->type_name("PATH")
      ->allow_extra_args(false);
  command->add_option("--gpu", check.gpus, "judge this GPU only: its number, UUID or BDF")
      ->type_name("GPU")
      ->allow_extra_args(false);
  command
      ->add_option("--pair", check.pairs,
                   "judge this ordered pair only, such as gpu:0,gpu:1, drive:nvme0n1,gpu:0 or "
                   "gpu:0,nic:mlx5_0")
      ->type_name("A,B")
      ->allow_extra_args(false);
  command
      ->add_option("--member", check.members, "judge this member only: p2p, rdma, storage or async")
      ->type_name("MEMBER")
      ->allow_extra_args(false);
  command->add_flag("--all", check.all,
                    "show what is met, too, and every pair of GPUs, and of a GPU and an adapter");
  command->add_flag("--async", check.async,
                    "also judge transfers that a stream or a kernel orders");
  return command;
}

CLI::App* add_topo(CLI::App& app, TopoArguments& topo) {
  CLI::App* command = add_command(app, "topo");
  command->add_option("--svg", topo.svg, "draw the machine into this file as well")
      ->type_name("FILE");
  command
      ->add_option("--from", topo.from,
                   "show what a file holds instead of this machine: a recording, nvidia-smi topo "
                   "-m, an NCCL topology (XML), lspci -tv; - is standard input")
      ->type_name("FILE");
  return command;
}

CLI::App* add_record(CLI::App& app, RecordArguments& record) {
  CLI::App* command = add_command(app, "record");
  command->add_option("-o,--output", record.output, "write the recording to this file")
      ->type_name("FILE");
  command->add_option("--name", record.name, "what the recording calls the machine")
      ->type_name("NAME");
  command->add_flag("--list", record.list, "only list what would be taken, and write nothing");
  return command;
}

CLI::App* add_diff(CLI::App& app, DiffArguments& diff) {
  CLI::App* command = add_command(app, "diff");
  command
      ->add_option("A", diff.before,
                   "a recording, live, or soft:NAME: the good one, or the earlier")
      ->required()
      ->type_name("RECORDING");
  command->add_option("B", diff.after, "what is held against it")
      ->required()
      ->type_name("RECORDING");
  return command;
}

void add_peer_options(CLI::App& command, PeerArguments& peer) {
  command
      .add_option("--token-file", peer.token_file,
                  "file with the token that both sides share; otherwise NOBOUNCE_TOKEN, or what a "
                  "server of this user on this machine left")
      ->type_name("FILE");
  command
      .add_option("--token", peer.token,
                  "the token itself, which others on this machine may then see in the list of "
                  "processes")
      ->type_name("TOKEN");
  command
      .add_option("--nic", peer.adapters,
                  "use this adapter, such as mlx5_0, instead of the nearest ones")
      ->type_name("NIC")
      ->allow_extra_args(false);
}

CLI::App* add_prove(CLI::App& app, ProveArguments& prove, RawTexts& raw) {
  CLI::App* command = add_command(app, "prove");
  command->add_flag("--all", prove.all, "every pair");
  command
      ->add_option(
          "--pair", prove.pairs,
          "this ordered pair only, such as gpu:0,gpu:1 or gpu:0,drive:nvme0n1, or with --take "
          "nvme:0000:01:00.0,gpu:0; an adapter, as in gpu:0,nic:mlx5_0, joins the GPU to itself")
      ->type_name("A,B")
      ->allow_extra_args(false);
  command
      ->add_option("--path", prove.path,
                   "directory for the scratch files of storage rows; otherwise the temporary one")
      ->type_name("DIR");
  command
      ->add_option("--volumes", raw.volumes,
                   "three or more sizes to move; otherwise 8MiB,16MiB,32MiB, live from 64MiB on")
      ->type_name("SIZES");
  command->add_flag("--force", prove.force, "run rows in full although preconditions are unmet");
  command->add_flag("--async", prove.async, "also prove reads that a stream and a kernel order");
  command->add_flag("--take", prove.take,
                    "use the raw drives that --pair names as nvme:BDF; they are only read");
  command->add_option("--save", prove.save, "write the proof to this file as JSON")
      ->type_name("FILE");
  command->add_option("--against", prove.against, "say what changed since this saved proof")
      ->type_name("FILE");
  command
      ->add_option("--peer", prove.peer_address,
                   "rows with what nobounce serve offers there, and no others; what is written to "
                   "gets its bytes back")
      ->type_name("HOST:PORT");
  add_peer_options(*command, prove.peer);
  return command;
}

CLI::App* add_serve(CLI::App& app, ServeArguments& serve, RawTexts& raw) {
  CLI::App* command = add_command(app, "serve");
  command
      ->add_option("--place", serve.place, "the memory to offer: gpu:N, gpu:UUID, gpu:BDF or host")
      ->required()
      ->type_name("PLACE");
  command->add_option("--name", serve.name, "the name that clients ask for")
      ->required()
      ->type_name("NAME");
  command->add_option("--length", raw.serve_length, "its length; it holds a seeded pattern")
      ->type_name("SIZE")
      ->default_str("256MiB");
  command
      ->add_option(
          "--listen", serve.listen,
          "address to listen at, such as 127.0.0.1:4711 or [::1]:4711; port 0: a free one, "
          "which is printed")
      ->type_name("HOST:PORT")
      ->default_str(serve.listen);
  command->add_option("--access", raw.access, "what clients may do: read, or write as well")
      ->type_name("ACCESS")
      ->default_str(raw.access);
  command
      ->add_option("--policy", raw.serve_policy,
                   "direct_required refuses clients that could not be served directly")
      ->type_name("POLICY")
      ->default_str(raw.serve_policy);
  command->add_option("--max-connections", raw.connections, "clients at a time")
      ->type_name("N")
      ->default_str("64");
  command->add_flag("--once", serve.once, "end when the first client has gone");
  command->add_flag("--ledger", serve.ledger,
                    "print beside each receipt what the bus of the software machine carried");
  add_peer_options(*command, serve.peer);
  return command;
}

CLI::App* add_copy(CLI::App& app, CopyArguments& copy, RawTexts& raw) {
  CLI::App* command = add_command(app, "copy");
  command
      ->add_option("places", copy.places,
                   "PATH, file:PATH, gpu:N, gpu:UUID, gpu:BDF, nvme:BDF, host or "
                   "rdma://HOST:PORT/NAME")
      ->required()
      ->expected(2, 1 << 20)
      ->type_name("PLACE");
  command
      ->add_option(
          "--policy", raw.policy,
          "direct_required (directly or not at all), direct_preferred (staged where direct "
          "cannot be, and the receipt says why) or staged_only (to compare)")
      ->type_name("POLICY")
      ->default_str(raw.policy);
  command
      ->add_option("--length", raw.length,
                   "bytes to move when the first place is no file, such as 4096 or 1GiB")
      ->type_name("SIZE")
      ->default_str("256MiB");
  command->add_option("--deadline", raw.deadline, "cancel a hop that takes longer")
      ->type_name("SECONDS");
  command->add_flag("--no-verify", raw.no_verify, "do not compare source and target afterwards");
  command->add_flag("--durable", copy.durable,
                    "a written file survives a power cut, with its name");
  command->add_flag("--in-place", copy.in_place,
                    "write into an existing file instead of replacing it whole");
  command->add_flag(
      "--take", copy.take,
      "use the raw drives that are named as nvme:BDF: what lies on them is lost where "
      "they are written to");
  command->add_flag("--ledger", copy.ledger,
                    "print beside each receipt what the bus of the software machine carried");
  command
      ->add_option("--readers", raw.readers,
                   "workers that read and write files when staging; 0: by the number of CPUs")
      ->type_name("N")
      ->default_str("0");
  command->add_option("--pinned-bytes", raw.pinned, "bounce memory that staging may pin at most")
      ->type_name("SIZE")
      ->default_str("128MiB");
  command->add_option("--slot-bytes", raw.slot, "size of one bounce slot, a multiple of 4096")
      ->type_name("SIZE")
      ->default_str("4MiB");
  add_peer_options(*command, copy.peer);
  return command;
}

CLI::App* add_stat(CLI::App& app, StatArguments& stat, RawTexts& raw) {
  CLI::App* command = add_command(app, "stat");
  command
      ->add_option("pid", raw.process_id,
                   "number of the process whose sessions to show; otherwise all")
      ->type_name("PID");
  command->add_flag("--prometheus", stat.prometheus,
                    "print metrics in the text format of Prometheus");
  return command;
}

CLI::App* add_explain(CLI::App& app, ExplainArguments& explain, RawTexts& raw) {
  CLI::App* command = add_command(app, "explain");
  command
      ->add_option("inputs", explain.inputs,
                   "files with captured text of one machine, - for standard input, or a cause id")
      ->expected(0, 1 << 20)
      ->type_name("FILE");
  command->add_flag("--list", explain.list, "list all causes");
  command
      ->add_option("--limit", raw.explain_limit,
                   "end with an error, and judge nothing, where the texts are longer")
      ->type_name("SIZE")
      ->default_str("16GiB");
  return command;
}

/// Hidden: what packages install beside the program.
CLI::App* add_generate(CLI::App& app, GenerateTexts& generate) {
  CLI::App* command = app.add_subcommand("generate", "man pages and completion scripts");
  command->group("");
  command->add_option("kind", generate.kind)->required();
  command->add_option("command", generate.command);
  return command;
}

/// The definitions, and where what is read goes.
struct Parser {
  Parser() {
    app.fallthrough();
    app.require_subcommand(0, 1);
    add_global_options(app, arguments, raw);
    topo_command = add_topo(app, topo);
    check_command = add_check(app, check);
    copy_command = add_copy(app, copy, raw);
    prove_command = add_prove(app, prove, raw);
    serve_command = add_serve(app, serve, raw);
    stat_command = add_stat(app, stat, raw);
    explain_command = add_explain(app, explain, raw);
    record_command = add_record(app, record);
    diff_command = add_diff(app, diff);
    generate_command = add_generate(app, generate);
  }

  Arguments arguments;
  TopoArguments topo;
  RecordArguments record;
  DiffArguments diff;
  CheckArguments check;
  CopyArguments copy;
  ProveArguments prove;
  ServeArguments serve;
  StatArguments stat;
  ExplainArguments explain;
  GenerateTexts generate;
  RawTexts raw;
  CLI::App app{"", "nobounce"};
  const CLI::App* topo_command;
  const CLI::App* check_command;
  const CLI::App* copy_command;
  const CLI::App* prove_command;
  const CLI::App* serve_command;
  const CLI::App* stat_command;
  const CLI::App* explain_command;
  const CLI::App* record_command;
  const CLI::App* diff_command;
  const CLI::App* generate_command;
};

OptionDescription describe(const CLI::Option& option) {
  OptionDescription description;
  description.value = option.get_type_name();
  if (!option.get_lnames().empty()) {
    description.name = "--" + option.get_lnames().front();
    if (!option.get_snames().empty()) description.short_name = "-" + option.get_snames().front();
  } else {
    description.name = description.value;
  }
  description.text = option.get_description();
  description.fallback = option.get_default_str();
  description.repeatable = option.get_items_expected_max() > 1;
  return description;
}

/// The parser's definitions together with the words about each command.
CommandLine describe(const CLI::App& app) {
  CommandLine line;
  line.program = texts_of("");
  for (const CLI::Option* option : app.get_options()) {
    const OptionDescription description = describe(*option);
    (description.name == "--version" ? line.program.options : line.common).push_back(description);
  }
  for (const CLI::App* subcommand : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (subcommand->get_group().empty()) continue;
    CommandDescription command = texts_of(subcommand->get_name());
    for (const CLI::Option* option : subcommand->get_options()) {
      if (option == subcommand->get_help_ptr()) continue;
      const OptionDescription description = describe(*option);
      (description.positional() ? command.positionals : command.options).push_back(description);
    }
    line.commands.push_back(std::move(command));
  }
  return line;
}

ParsedArguments generated(const CommandLine& line, const GenerateTexts& wanted) {
  if (wanted.kind == "bash") return HelpText{bash_completion(line)};
  if (wanted.kind == "zsh") return HelpText{zsh_completion(line)};
  if (wanted.kind == "fish") return HelpText{fish_completion(line)};
  if (wanted.kind == "commands") {
    std::string names;
    for (const CommandDescription& command : line.commands) names += command.name + '\n';
    return HelpText{names};
  }
  const CommandDescription* command = line.find(wanted.command);
  if (wanted.kind == "man" && command != nullptr) return HelpText{manual_page(line, *command)};
  return usage_problem("generate", "there is no " + wanted.kind + " " + wanted.command,
                       "nobounce generate man [COMMAND], bash, zsh, fish or commands");
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

std::optional<Problem> read_prove_texts(const RawTexts& raw, ProveArguments& prove) {
  if (raw.volumes.empty()) return std::nullopt;
  std::set<std::uint64_t> volumes;
  for (std::size_t at = 0; at <= raw.volumes.size();) {
    const std::size_t end = std::min(raw.volumes.find(',', at), raw.volumes.size());
    const Result<std::uint64_t> size =
        parse_size(std::string_view(raw.volumes).substr(at, end - at));
    if (!size.ok()) return usage("--volumes", size.error(), "prove");
    if (*size == 0) {
      return usage_problem("--volumes: read \"" + raw.volumes + "\"",
                           "a volume of 0 bytes shows nothing", "--volumes 8MiB,16MiB,32MiB");
    }
    volumes.insert(*size);
    at = end + 1;
  }
  if (volumes.size() < 3) {
    return usage_problem("--volumes: read \"" + raw.volumes + "\"",
                         "a slope needs three sizes that differ", "--volumes 8MiB,16MiB,32MiB");
  }
  prove.volumes_bytes.assign(volumes.begin(), volumes.end());
  return std::nullopt;
}

std::optional<Problem> read_serve_texts(const RawTexts& raw, const CLI::App& command,
                                        ServeArguments& serve) {
  const std::optional<Policy> policy = policy_from_string(raw.serve_policy);
  if (!policy.has_value() || *policy == Policy::staged_only) {
    return usage_problem("--policy", "a server has no policy \"" + raw.serve_policy + "\"",
                         "direct_required or direct_preferred");
  }
  serve.policy = *policy;
  if (raw.access != "read" && raw.access != "write") {
    return usage_problem("--access", "there is no access \"" + raw.access + "\"", "read or write");
  }
  serve.access = raw.access == "write" ? RemoteAccess::write : RemoteAccess::read;
  if (!raw.serve_length.empty()) {
    const Result<std::uint64_t> size = parse_size(raw.serve_length);
    if (!size.ok()) return usage("--length", size.error(), "serve");
    serve.length_bytes = *size;
  }
  std::optional<std::uint64_t> connections;
  if (auto problem = read_number(*command.get_option("--max-connections"), "--max-connections", 512,
                                 connections))
    return problem;
  if (connections == std::uint64_t{0})
    return usage_problem("--max-connections", "nobody could connect", "--max-connections 1");
  serve.connections_max = static_cast<std::uint32_t>(connections.value_or(serve.connections_max));
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

/// `help COMMAND` is what many type first: it means `COMMAND --help`.
std::vector<const char*> asked_for_help(int count, const char* const* values) {
  std::vector<const char*> words(values, values + count);
  if (words.size() < 2 || std::string_view(words[1]) != "help") return words;
  words.erase(words.begin() + 1);
  words.push_back("--help");
  return words;
}

/// Options and arguments as they were given, and the first whose value is empty.
struct GivenOptions {
  std::vector<std::string> names;
  std::string empty;
};

void gather_given(const CLI::App& app, GivenOptions& given) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    std::string name = describe(*option).name;
    const std::vector<std::string>& values = option->results();
    const bool empty = std::find(values.begin(), values.end(), "") != values.end();
    if (empty && given.empty.empty()) given.empty = name;
    given.names.push_back(std::move(name));
  }
}

/// The first word that is no option; behind a mistake in front of it that may be an option's value.
std::string first_word(const std::vector<const char*>& words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (!word.empty() && word.front() != '-') return std::string(word);
  }
  return {};
}

/// How many letters have to be changed, added, taken away or swapped with the next.
std::size_t letters_between(std::string_view one, std::string_view other) {
  std::vector<std::vector<std::size_t>> table(one.size() + 1,
                                              std::vector<std::size_t>(other.size() + 1));
  for (std::size_t i = 0; i <= one.size(); ++i) {
    for (std::size_t j = 0; j <= other.size(); ++j) {
      std::size_t& least = table[i][j];
      least = std::max(i, j);
      if (i == 0 || j == 0) continue;
      const std::size_t same = one[i - 1] == other[j - 1] ? 0 : 1;
      least = std::min({table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + same});
      if (i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1])
        least = std::min(least, table[i - 2][j - 2] + 1);
    }
  }
  return table[one.size()][other.size()];
}

/// `did you mean ...? ` of a word that is near enough to be the one that was meant; else nothing.
std::string meant_word(const std::string& word, const std::vector<std::string>& known,
                       const std::string& before) {
  constexpr std::size_t letters_max = 64;
  if (word.size() > letters_max) return {};
  const std::string near = core::nearest(word, known);
  const std::size_t letters = word.size() - std::min(word.find_first_not_of('-'), word.size());
  const bool begins = letters >= 3 && near.compare(0, word.size(), word) == 0;
  if (!begins && 3 * letters_between(word, near) > letters) return {};
  return "did you mean " + before + near + "? ";
}

Problem unknown_command(const CLI::App& app, const std::string& word) {
  if (word == "version")
    return usage_problem("read the command line", "there is no command \"version\"",
                         "nobounce --version");
  std::vector<std::string> names;
  std::string list;
  for (const CommandDescription& each : describe(app).commands) {
    names.push_back(each.name);
    list += (list.empty() ? "" : ", ") + each.name;
  }
  return usage_problem("read the command line", "there is no command \"" + word + "\"",
                       meant_word(word, names, "nobounce ") + "The commands are " + list +
                           "; nobounce --help tells more");
}

/// Words that nothing takes: an option that was mistyped, a command that does not exist.
Problem unexpected_words(const CLI::App& app, const std::vector<const char*>& words,
                         const std::vector<std::string>& extra, const std::string& help) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const auto option = std::find_if(extra.begin(), extra.end(), [](const std::string& word) {
    return word.size() > 1 && word.front() == '-';
  });
  if (option == extra.end() && chosen.empty() && !extra.empty())
    return unknown_command(app, first_word(words));
  const std::string where = chosen.empty() ? "nobounce" : "nobounce " + chosen.front()->get_name();
  if (option == extra.end()) {
    return usage_problem(
        "read the command line",
        where + " takes no further argument" + (extra.empty() ? "" : ": \"" + extra.front() + "\""),
        help);
  }
  std::vector<std::string> names;
  const auto gather = [&names](const CLI::App& from) {
    for (const CLI::Option* each : from.get_options()) {
      for (const std::string& name : each->get_lnames()) names.push_back("--" + name);
    }
  };
  gather(app);
  if (!chosen.empty()) gather(*chosen.front());
  const std::string given = option->substr(0, option->find('='));
  const std::string meant =
      given == "-V" || given == "-v" ? "did you mean --version? " : meant_word(given, names, "");
  return usage_problem("read the command line", where + " has no option " + given,
                       meant + help + " lists them all");
}

std::string help_command(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? "nobounce --help" : "nobounce " + chosen.front()->get_name() + " --help";
}

}  // namespace

ParsedArguments parse_arguments(int count, const char* const* values) {
  Parser parser;
  Arguments& arguments = parser.arguments;
  const std::vector<const char*> words = asked_for_help(count, values);
  try {
    parser.app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::CallForHelp&) {
    const CommandLine line = describe(parser.app);
    const std::vector<CLI::App*> chosen = parser.app.get_subcommands();
    const CommandDescription* command = line.find(chosen.empty() ? "" : chosen.front()->get_name());
    if (const std::string word = first_word(words);
        chosen.empty() && words.size() > 1 && word == words[1]) {
      return unknown_command(parser.app, word);
    }
    return HelpText{help_text(line, command == nullptr ? line.program : *command)};
  } catch (const CLI::ExtrasError&) {
    return unexpected_words(parser.app, words, parser.app.remaining(true),
                            help_command(parser.app));
  } catch (const CLI::ParseError& error) {
    return usage_problem("read the command line", on_one_line(error.what()),
                         help_command(parser.app));
  }
  GivenOptions given;
  gather_given(parser.app, given);
  const std::vector<CLI::App*> commands = parser.app.get_subcommands();
  if (!commands.empty()) gather_given(*commands.front(), given);
  if (!given.empty.empty())
    return usage_problem(given.empty, "its value is empty", help_command(parser.app));
  constexpr std::uint64_t seed_max = std::numeric_limits<std::uint64_t>::max();
  if (auto problem = read_number(*parser.app.get_option("--seed"), "--seed", seed_max,
                                 arguments.machine.seed)) {
    return std::move(*problem);
  }
  const RawTexts& raw = parser.raw;
  if (raw.version) {
    arguments.command = VersionArguments{};
  } else if (parser.topo_command->parsed()) {
    arguments.command = std::move(parser.topo);
  } else if (parser.record_command->parsed()) {
    arguments.command = std::move(parser.record);
  } else if (parser.diff_command->parsed()) {
    arguments.command = std::move(parser.diff);
  } else if (parser.check_command->parsed()) {
    arguments.command = std::move(parser.check);
  } else if (parser.copy_command->parsed()) {
    if (auto problem = read_copy_texts(raw, *parser.copy_command, parser.copy))
      return std::move(*problem);
    arguments.command = std::move(parser.copy);
  } else if (parser.prove_command->parsed()) {
    if (auto problem = read_prove_texts(raw, parser.prove)) return std::move(*problem);
    arguments.command = std::move(parser.prove);
  } else if (parser.serve_command->parsed()) {
    if (auto problem = read_serve_texts(raw, *parser.serve_command, parser.serve))
      return std::move(*problem);
    arguments.command = std::move(parser.serve);
  } else if (parser.stat_command->parsed()) {
    if (auto problem = read_stat_texts(*parser.stat_command, parser.stat))
      return std::move(*problem);
    arguments.command = parser.stat;
  } else if (parser.explain_command->parsed()) {
    if (!raw.explain_limit.empty()) {
      const Result<std::uint64_t> size = parse_size(raw.explain_limit);
      if (!size.ok()) return usage("--limit", size.error(), "explain");
      parser.explain.limit_bytes = *size;
    }
    arguments.command = std::move(parser.explain);
  } else if (parser.generate_command->parsed()) {
    return generated(describe(parser.app), parser.generate);
  } else {
    return usage_problem("read the command line", "no command was given", "nobounce --help");
  }
  const std::string command = commands.empty() ? std::string() : commands.front()->get_name();
  if (raw.version) return std::move(arguments);
  if (auto problem = check_arguments(command, given.names, arguments)) return std::move(*problem);
  return std::move(arguments);
}

CommandLine command_line() {
  return describe(Parser().app);
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
