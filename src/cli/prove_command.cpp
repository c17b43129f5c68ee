// `nobounce prove`: transfers beside control runs, and what independent counters say of both.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nobounce/peer.hpp>
#include <nobounce/session.hpp>
#include "cli/async_rows.hpp"
#include "cli/commands.hpp"
#include "cli/pair_argument.hpp"
#include "cli/peer_arguments.hpp"
#include "cli/place_argument.hpp"
#include "cli/progress.hpp"
#include "cli/text_file.hpp"
#include "cli/verdict_exit.hpp"
#include "evidence/witness.hpp"
#include "proof/against.hpp"
#include "proof/cache_size.hpp"
#include "proof/prove.hpp"
#include "report/proof_report.hpp"
#include "system/counted_host.hpp"
#include "system/terminal.hpp"

namespace nobounce::cli {

namespace {

constexpr std::uint64_t mebibyte = 1ULL << 20;

SessionOptions session_options(system::Host& host) {
  SessionOptions options;
  options.warn_on_close = false;  // the rows say it
  if (host.kind() != HostKind::live) return options;
  // A ring that fits into the cache would hide the control's traffic from the memory controllers.
  options.pinned_bytes_max = std::max(options.pinned_bytes_max,
                                      4 * proof::last_level_cache_bytes(host.files()).value_or(0));
  options.rotate_slots = true;
  return options;
}

proof::ProveOptions prove_options(const CommandContext& context, const ProveArguments& arguments) {
  proof::ProveOptions options;
  options.force = arguments.force;
  options.seed = context.seed;
  if (!arguments.volumes_bytes.empty()) {
    options.volumes_bytes = arguments.volumes_bytes;
  } else if (context.machine.host->kind() == HostKind::live) {
    options.volumes_bytes = {64 * mebibyte, 128 * mebibyte, 256 * mebibyte};
  }
  return options;
}

Problem no_gpu(const report::MachineLabel& machine) {
  return Problem{Error{.origin = ErrorOrigin::input,
                       .attempted = "prove how bytes travel",
                       .cause = Cause::machine_no_gpu,
                       .detail = machine.kind == "live" ? "no GPU was found on this machine"
                                                        : "machine " + machine.name + " has no GPU",
                       .remedy =
                           "--machine soft:workstation runs the same command on a software machine "
                           "with two GPUs"}};
}

/// The directory for scratch files, which must be there.
Attempt<std::string> scratch_directory(system::Host& host, const ProveArguments& arguments) {
  std::string path = arguments.path;
  if (path.empty()) path = host.environment().get("TMPDIR").value_or("");
  if (path.empty()) path = "/tmp";
  Result<system::FileStatus> status = host.storage().status_of(path);
  if (!status.ok()) return Problem{std::move(status).error()};
  if (status->type != system::FileType::directory) {
    return Problem{Error{.origin = ErrorOrigin::input,
                         .attempted = "use " + path + " for scratch files",
                         .detail = "it is no directory",
                         .remedy = "--path DIR"}};
  }
  return path;
}

bool is_pair(const Machine& machine, const proof::Subject& subject, const PairArgument& pair) {
  if (pair.two_gpus()) {
    return subject.member == Member::p2p && subject.source_gpu == pair.source.index &&
           subject.target_gpu == pair.target.index;
  }
  return subject.member == Member::storage && subject.writing == pair.writing() &&
         subject.source_gpu == pair.gpu().index &&
         subject.medium == device_name(machine, pair.drive());
}

/// The rows of one run, with the connection and the drives that they need, if any.
struct Rows {
  std::optional<Peer> peer;
  std::vector<std::unique_ptr<OwnedDrive>> drives;
  std::vector<proof::Subject> subjects;
};

constexpr std::string_view raw_prefix = "nvme:";

/// `nvme:BDF,gpu:N`: a raw drive that is taken for it.
std::optional<Problem> add_raw_drive(Session& session, const ProveArguments& arguments,
                                     const std::string& text, Rows& rows) {
  const std::size_t comma = text.find(',');
  Result<PlaceArgument> place = parse_place(text.substr(0, comma));
  if (!place.ok()) return Problem{std::move(place).error(), exit_usage};
  Attempt<std::uint32_t> gpu = resolve_gpu(session.machine(), text.substr(comma + 1));
  if (auto* problem = std::get_if<Problem>(&gpu)) return std::move(*problem);
  const auto same = [&](const auto& drive) { return drive->bdf() == place->address; };
  auto drive = std::find_if(rows.drives.begin(), rows.drives.end(), same);
  if (drive == rows.drives.end()) {
    Result<OwnedDrive> taken = session.take_drive(place->address, {.take = arguments.take});
    if (!taken.ok()) return Problem{std::move(taken).error()};
    rows.drives.push_back(std::make_unique<OwnedDrive>(std::move(*taken)));
    drive = std::prev(rows.drives.end());
  }
  proof::Subject subject;
  subject.target_gpu = std::get<std::uint32_t>(gpu);
  subject.medium = "nvme:" + (*drive)->bdf();
  const auto again = [&subject](const proof::Subject& other) {
    return other.medium == subject.medium && other.target_gpu == subject.target_gpu;
  };
  if (std::any_of(rows.subjects.begin(), rows.subjects.end(), again)) return std::nullopt;
  subject.drive = drive->get();
  rows.subjects.push_back(std::move(subject));
  return std::nullopt;
}

Attempt<std::vector<proof::Subject>> chosen_subjects(CommandContext& context, Session& session,
                                                     const ProveArguments& arguments) {
  system::Host& host = *context.machine.host;
  Attempt<std::string> scratch = scratch_directory(host, arguments);
  if (auto* problem = std::get_if<Problem>(&scratch)) return std::move(*problem);
  const std::string& directory = std::get<std::string>(scratch);
  const bool all = arguments.all || !arguments.pairs.empty();
  std::vector<proof::Subject> subjects = proof::choose_subjects(session, host, directory, all);
  if (arguments.pairs.empty()) return subjects;
  std::vector<proof::Subject> chosen;
  std::vector<PairArgument> seen;
  for (const std::string& text : arguments.pairs) {
    Attempt<PairArgument> parsed = parse_pair(session.machine(), text);
    if (auto* problem = std::get_if<Problem>(&parsed)) return std::move(*problem);
    const PairArgument& pair = std::get<PairArgument>(parsed);
    const auto same = [&pair](const PairArgument& other) {
      return other.source == pair.source && other.target == pair.target;
    };
    if (std::any_of(seen.begin(), seen.end(), same)) continue;
    seen.push_back(pair);
    if (pair.with_adapter()) {
      chosen.push_back(proof::adapter_subject(session.machine(), pair.beside_adapter().index,
                                              pair.adapter().index,
                                              pair.target.kind == DeviceRef::Kind::nic));
      continue;
    }
    const std::size_t before = chosen.size();
    for (const proof::Subject& subject : subjects) {
      if (is_pair(session.machine(), subject, pair)) chosen.push_back(subject);
    }
    if (chosen.size() > before) continue;
    return Problem{Error{
        .origin = ErrorOrigin::input,
        .attempted = "prove the pair " + text,
        .detail = "the scratch directory " + directory + " does not lie on that drive",
        .remedy =
            "--path DIR, with a directory on " + device_name(session.machine(), pair.drive())}};
  }
  return chosen;
}

Attempt<Rows> chosen_rows(CommandContext& context, Session& session,
                          const ProveArguments& arguments) {
  Rows rows;
  if (arguments.peer_address.empty()) {
    ProveArguments others = arguments;
    others.pairs.clear();
    for (const std::string& text : arguments.pairs) {
      if (text.find(raw_prefix) == std::string::npos) {
        others.pairs.push_back(text);
      } else if (auto problem = add_raw_drive(session, arguments, text, rows)) {
        return std::move(*problem);
      }
    }
    if (!arguments.pairs.empty() && others.pairs.empty()) return rows;
    Attempt<std::vector<proof::Subject>> chosen = chosen_subjects(context, session, others);
    if (auto* problem = std::get_if<Problem>(&chosen)) return std::move(*problem);
    for (proof::Subject& subject : std::get<std::vector<proof::Subject>>(chosen))
      rows.subjects.push_back(std::move(subject));
    return rows;
  }
  if (auto problem = unknown_adapter(arguments.peer, *context.machine.host))
    return std::move(*problem);
  Attempt<std::string> token = token_of(arguments.peer, context.live);
  if (auto* problem = std::get_if<Problem>(&token)) return std::move(*problem);
  ConnectOptions options;
  options.token = std::get<std::string>(token);
  options.adapters = arguments.peer.adapters;
  Result<Peer> peer = session.connect(arguments.peer_address, options);
  if (!peer.ok()) return Problem{std::move(peer).error()};
  rows.peer.emplace(std::move(*peer));
  return rows;
}

std::string label_of(const proof::Subject& subject) {
  const std::string source = "gpu:" + std::to_string(subject.source_gpu);
  const std::string target = "gpu:" + std::to_string(subject.target_gpu);
  if (subject.member == Member::p2p) return source + " -> " + target;
  return subject.writing ? source + " -> " + subject.medium : subject.medium + " -> " + target;
}

Attempt<Proof> proved(CommandContext& context, const ProveArguments& arguments) {
  // What the session does is counted at the seam, beside what it says.
  const std::unique_ptr<system::CountedHost> counted =
      system::CountedHost::wrap(*context.machine.host);
  system::Host& host = *counted;
  Result<Session> session = Session::open(host, session_options(host));
  if (!session.ok()) return Problem{std::move(session).error()};
  if (session->machine().gpus.empty()) return no_gpu(context.machine.label);
  Attempt<Rows> chosen = chosen_rows(context, *session, arguments);
  if (auto* problem = std::get_if<Problem>(&chosen)) return std::move(*problem);
  auto& [peer, drives, subjects] = std::get<Rows>(chosen);
  if (peer.has_value()) {
    Result<std::vector<proof::Subject>> offered =
        proof::choose_peer_subjects(session->machine(), *peer, arguments.all);
    if (!offered.ok()) return Problem{std::move(offered).error()};
    subjects = std::move(*offered);
  }
  const proof::ProveOptions options = prove_options(context, arguments);
  evidence::Witnesses witnesses(*context.machine.host, counted.get());
  const system::InterruptWatch interrupts;
  Proof proof{.host_kind = context.machine.label.kind, .machine = context.machine.label.name};
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    Progress progress(
        context.console,
        "row " + std::to_string(i + 1) + " of " + std::to_string(subjects.size()) + " ", 0);
    progress.show_phase(label_of(subjects[i]));
    proof.rows.push_back(proof::prove_row(*session, host, witnesses, subjects[i], options));
    // Ordered by a stream and by a kernel, of the same pair.
    if (arguments.async && subjects[i].drive != nullptr) {
      // By a kernel that rings the drive's doorbell.
      proof.rows.push_back(prove_doorbell_row(*session, host, witnesses, subjects[i], options,
                                              arguments.volumes_bytes));
    } else if (arguments.async && subjects[i].member == Member::storage && !subjects[i].writing) {
      for (ProofRow& row : prove_async_rows(*session, host, witnesses, subjects[i], options,
                                            arguments.volumes_bytes))
        proof.rows.push_back(std::move(row));
    }
    if (const int number = interrupts.signal(); number != 0) {
      return Problem{Error{.origin = ErrorOrigin::session,
                           .attempted = "prove how bytes travel",
                           .cause = Cause::session_cancelled,
                           .detail = "interrupted by signal " + std::to_string(number),
                           .remedy = "run it again; the scratch files are removed"},
                     exit_signal_base + number};
    }
  }
  return proof;
}

Attempt<Proof> saved_proof(system::Host& host, const std::string& path) {
  const Result<std::string> text = read_text_file(host, path);
  if (!text.ok()) return Problem{text.error()};
  Result<Proof> proof = report::proof_from_text(*text, path);
  if (!proof.ok()) return Problem{std::move(proof).error()};
  return std::move(proof).value();
}

}  // namespace

int run_prove(CommandContext& context, const ProveArguments& arguments) {
  system::Host& host = *context.machine.host;
  Console& console = context.console;
  std::optional<Proof> before;  // read first: a run whose comparison fails is a run too many
  if (!arguments.against.empty()) {
    Attempt<Proof> saved = saved_proof(host, arguments.against);
    if (const auto* problem = std::get_if<Problem>(&saved)) return console.problem(*problem);
    before = std::get<Proof>(std::move(saved));
  }
  if (!arguments.save.empty()) {  // a proof that cannot be kept is found out before it is made
    if (const Status kept = try_text_file(host, arguments.save); !kept.ok())
      return console.problem({kept.error()});
  }
  Attempt<Proof> result = proved(context, arguments);
  if (const auto* problem = std::get_if<Problem>(&result)) return console.problem(*problem);
  const Proof& proof = std::get<Proof>(result);
  report::ProofChanges changes;
  if (before.has_value()) changes = proof::changes_since(*before, proof);
  Status saved;
  if (!arguments.save.empty()) {
    saved = write_text_file(console, host, arguments.save,
                            core::dump_json(report::proof_json(proof)) + "\n");
  }
  if (console.json()) {  // one document: where it could not be saved, that
    if (saved.ok()) console.document(report::proof_json(proof, changes));
  } else {
    console.text(report::banner(context.machine.label, console.style()));
    console.text(report::proof_text(proof, console.style()));
    if (changes.has_value())
      console.text(report::changes_text(*changes, arguments.against, console.style()));
  }
  if (!saved.ok()) return console.problem({saved.error()});
  const int exit_code = worst_exit_code(proof.rows);
  // Of a row that vanished nothing is known any more.
  const bool vanished =
      changes.has_value() &&
      std::any_of(changes->begin(), changes->end(), [](const ProofChange& change) {
        return change.kind == ProofChangeKind::vanished;
      });
  return exit_code == exit_done && vanished ? exit_unknown : exit_code;
}

}  // namespace nobounce::cli
