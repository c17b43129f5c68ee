// One function per command, and a table of common options.
#include "cli/argument_checks.hpp"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "cli/pair_argument.hpp"
#include "cli/place_argument.hpp"
#include "system/network.hpp"

namespace nobounce::cli {

namespace {

using Given = std::vector<std::string>;
using Found = std::optional<Problem>;

bool has(const Given& given, std::string_view option) {
  return std::find(given.begin(), given.end(), option) != given.end();
}

bool begins(std::string_view text, std::string_view head) {
  return text.substr(0, head.size()) == head;
}

/// Commands that work on no machine of --machine.
struct WithoutMachine {
  std::string_view command;
  const char* why;
  const char* instead;
};

constexpr WithoutMachine without_machine[] = {
    {"explain", "explain reads texts, and no machine", "nobounce explain FILE"},
    {"diff", "A and B name the machines", "nobounce diff A B, with soft:NAME, live or a file each"},
    {"stat", "sessions are those of this machine's processes", "nobounce stat"}};

constexpr std::string_view machine_options[] = {"--machine", "--set", "--seed", "--deterministic"};

const WithoutMachine* without_machine_row(std::string_view command) {
  const auto* row =
      std::find_if(std::begin(without_machine), std::end(without_machine),
                   [command](const WithoutMachine& each) { return each.command == command; });
  return row == std::end(without_machine) ? nullptr : row;
}

Found useless(const Given& given, std::initializer_list<const char*> options, const char* why,
              const char* instead) {
  for (const char* option : options) {
    if (has(given, option)) return usage_problem(option, why, instead);
  }
  return std::nullopt;
}

Found check_common(std::string_view command, const Given& given, const Arguments& arguments) {
  if (const WithoutMachine* row = without_machine_row(command)) {
    for (const std::string_view option : machine_options) {
      if (has(given, option)) return usage_problem(std::string(option), row->why, row->instead);
    }
  }
  const bool soft = begins(arguments.machine.machine, "soft:");
  const bool moves = command == "copy" || command == "prove" || command == "serve";
  if (!soft && !moves) {
    return useless(given, {"--seed"}, "nothing is drawn by chance here",
                   "--seed together with --machine soft:NAME");
  }
  return std::nullopt;
}

Found check_pairs(const std::vector<std::string>& pairs, RawDrives raw) {
  for (const std::string& text : pairs) {
    if (auto problem = pair_form_problem(text, raw)) return problem;
  }
  return std::nullopt;
}

Found check_members(const std::vector<std::string>& members) {
  for (const std::string& member : members) {
    const bool known =
        member == "p2p" || member == "rdma" || member == "storage" || member == "async";
    if (known) continue;
    return usage_problem("--member: read \"" + member + "\"", "there is no such member",
                         "--member p2p, rdma, storage or async");
  }
  return std::nullopt;
}

Found check_check(const Given& given, const CheckArguments& check) {
  for (const std::string& gpu : check.gpus) {
    if (auto problem = gpu_form_problem("--gpu", gpu)) return problem;
  }
  if (auto problem = check_members(check.members)) return problem;
  if (auto problem = check_pairs(check.pairs, RawDrives::refused)) return problem;
  if (!check.pairs.empty()) {
    if (auto problem = useless(given, {"--path", "--gpu", "--member", "--async"},
                               "--pair says already what is judged", "--pair alone, or without it"))
      return problem;
  }
  if (check.paths.empty()) return std::nullopt;
  const bool other = std::any_of(check.members.begin(), check.members.end(),
                                 [](const std::string& member) { return member != "storage"; });
  if (other) {
    return usage_problem("--member", "a path is a matter of member storage alone",
                         "--path without --member");
  }
  return useless(given, {"--async"}, "a path is a matter of member storage alone",
                 "--async without --path");
}

Found check_address(const char* option, const std::string& text, bool any_port) {
  Result<system::SocketAddress> address = system::parse_socket_address(text);
  std::string detail;
  if (!address.ok()) {
    detail = address.error().detail;
  } else if (address->port == 0 && !any_port) {
    detail = "nobody can be reached at port 0";
  } else {
    return std::nullopt;
  }
  return usage_problem(std::string(option) + ": read \"" + text + "\"", detail,
                       "HOST:PORT, such as 127.0.0.1:4711 or [::1]:4711");
}

Found check_prove(const Given& given, const ProveArguments& prove) {
  if (auto problem = check_pairs(prove.pairs, RawDrives::may_be_first)) return problem;
  const auto any_pair = [&prove](std::string_view head) {
    return std::any_of(prove.pairs.begin(), prove.pairs.end(), [head](const std::string& pair) {
      return begins(pair, head) || pair.find("," + std::string(head)) != std::string::npos;
    });
  };
  if (has(given, "--peer")) {
    if (auto problem = check_address("--peer", prove.peer_address, false)) return problem;
    return useless(given, {"--pair", "--path", "--async", "--take"},
                   "the rows of --peer are those of the peer", "leave it out, or --peer");
  }
  if (auto problem = useless(given, {"--token", "--token-file", "--nic"}, "only a peer is asked so",
                             "add --peer HOST:PORT, or leave it out"))
    return problem;
  if (prove.take && !any_pair("nvme:")) {
    return usage_problem("--take", "no pair names a raw drive",
                         "--take --pair nvme:0000:01:00.0,gpu:0");
  }
  if (prove.pairs.empty()) return std::nullopt;
  if (auto problem = useless(given, {"--all"}, "--pair says already what is proved",
                             "one of --all and --pair"))
    return problem;
  if (prove.async && !any_pair("drive:") && !any_pair("nvme:")) {
    return usage_problem("--async",
                         "streams and kernels order reads of drives, and no pair has one",
                         "--async --pair drive:NAME,gpu:0");
  }
  return std::nullopt;
}

const char* words_of(PlaceArgument::Kind kind) {
  switch (kind) {
    case PlaceArgument::Kind::file:
      return "a file";
    case PlaceArgument::Kind::gpu:
      return "GPU memory";
    case PlaceArgument::Kind::host:
      return "host memory";
    case PlaceArgument::Kind::remote:
      return "memory of another process";
    case PlaceArgument::Kind::drive:
      return "a raw drive";
  }
  return "a place";
}

/// Nobody moves between these, directly or staged: no policy could help.
Found check_hop(const PlaceArgument& source, const PlaceArgument& target) {
  const auto memory = [](const PlaceArgument& place) {
    return place.kind == PlaceArgument::Kind::gpu || place.kind == PlaceArgument::Kind::host;
  };
  const auto outside = [](const PlaceArgument& place) {
    return place.kind == PlaceArgument::Kind::remote || place.kind == PlaceArgument::Kind::drive;
  };
  if (!(outside(source) || outside(target)) || memory(source) || memory(target))
    return std::nullopt;
  return usage_problem(
      "copy " + source.text + " " + target.text,
      std::string("not supported: from ") + words_of(source.kind) + " to " + words_of(target.kind) +
          " without memory of this machine between",
      "copy " + source.text + " host " + target.text + ", or gpu:0 instead of host");
}

Found check_copy(const Given& given, const CopyArguments& copy) {
  bool peer = false;
  bool raw = false;
  std::optional<PlaceArgument> before;
  for (const std::string& text : copy.places) {
    Result<PlaceArgument> place = parse_place(text);
    if (!place.ok()) return Problem{std::move(place).error(), exit_usage};
    peer = peer || place->kind == PlaceArgument::Kind::remote;
    raw = raw || place->kind == PlaceArgument::Kind::drive;
    if (before.has_value()) {
      if (auto problem = check_hop(*before, *place)) return problem;
    }
    before = std::move(*place);
  }
  const auto written_file = [&copy] {
    return std::any_of(copy.places.begin() + 1, copy.places.end(), [](const std::string& text) {
      return parse_place(text)->kind == PlaceArgument::Kind::file;
    });
  };
  if (!peer) {
    if (auto problem = useless(given, {"--token", "--token-file", "--nic"},
                               "only another process is asked so, and no place is in one",
                               "rdma://HOST:PORT/NAME as a place, or leave it out"))
      return problem;
  }
  if (!raw) {
    if (auto problem = useless(given, {"--take"}, "no place is a raw drive",
                               "nvme:BDF as a place, or leave it out"))
      return problem;
  }
  if (!written_file()) {
    return useless(given, {"--durable", "--in-place"}, "no file is written",
                   "a file behind the first place, or leave it out");
  }
  return std::nullopt;
}

Found check_serve(const ServeArguments& serve) {
  Result<PlaceArgument> place = parse_place(serve.place);
  if (!place.ok()) return Problem{std::move(place).error(), exit_usage};
  const bool memory =
      place->kind == PlaceArgument::Kind::gpu || place->kind == PlaceArgument::Kind::host;
  if (!memory) {
    return usage_problem("--place: read \"" + serve.place + "\"", "only memory can be served",
                         "--place gpu:0 or --place host");
  }
  if (serve.length_bytes == std::uint64_t{0})
    return usage_problem("--length", "memory of no bytes is none", "--length 4096");
  return check_address("--listen", serve.listen, true);
}

Found check_explain(const Given& given, const ExplainArguments& explain) {
  if (explain.list && !explain.inputs.empty())
    return usage_problem("explain", "--list takes no file", "nobounce explain --list");
  if (!explain.list && explain.inputs.empty())
    return usage_problem("explain", "no text was named", "nobounce explain FILE..., -, or --list");
  if (std::count(explain.inputs.begin(), explain.inputs.end(), "-") > 1)
    return usage_problem("explain", "standard input can be read once", "nobounce explain -");
  if (explain.list) {
    return useless(given, {"--limit"}, "--list only prints a list: no text is read",
                   "leave it out, or --list");
  }
  return std::nullopt;
}

Found check_record(const Given& given, const RecordArguments& record) {
  if (!record.list) return std::nullopt;
  return useless(given, {"--output", "--name", "--json"},
                 "--list only prints a list as text: nothing is written",
                 "leave it out, or --list");
}

Found check_topo(const Given& given, const TopoArguments& topo) {
  if (topo.from.empty()) return std::nullopt;
  return useless(given, {"--machine", "--set", "--seed", "--deterministic"},
                 "--from shows what a file holds, whatever the machine",
                 "nobounce topo --from FILE alone");
}

Found check_stat(const Given& given, const StatArguments& stat) {
  if (!stat.prometheus) return std::nullopt;
  return useless(given, {"--json"}, "--prometheus is another format", "one of the two");
}

}  // namespace

bool takes_common_option(std::string_view command, std::string_view option) {
  const bool of_machine = std::find(std::begin(machine_options), std::end(machine_options),
                                    option) != std::end(machine_options);
  return !of_machine || without_machine_row(command) == nullptr;
}

std::optional<Problem> check_arguments(std::string_view command, const Given& given,
                                       const Arguments& arguments) {
  if (const auto* topo = std::get_if<TopoArguments>(&arguments.command)) {
    if (auto problem = check_topo(given, *topo)) return problem;
  }
  if (auto problem = check_common(command, given, arguments)) return problem;
  if (const auto* check = std::get_if<CheckArguments>(&arguments.command))
    return check_check(given, *check);
  if (const auto* prove = std::get_if<ProveArguments>(&arguments.command))
    return check_prove(given, *prove);
  if (const auto* copy = std::get_if<CopyArguments>(&arguments.command))
    return check_copy(given, *copy);
  if (const auto* serve = std::get_if<ServeArguments>(&arguments.command))
    return check_serve(*serve);
  if (const auto* explain = std::get_if<ExplainArguments>(&arguments.command))
    return check_explain(given, *explain);
  if (const auto* record = std::get_if<RecordArguments>(&arguments.command))
    return check_record(given, *record);
  if (const auto* stat = std::get_if<StatArguments>(&arguments.command))
    return check_stat(given, *stat);
  return std::nullopt;
}

}  // namespace nobounce::cli
