// `nobounce check`: the preconditions of the direct path, pair by pair. Moves nothing.
#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include <nobounce/session.hpp>
#include "cli/async_rows.hpp"
#include "cli/check_rows.hpp"
#include "cli/commands.hpp"
#include "cli/pair_argument.hpp"
#include "cli/place_argument.hpp"
#include "core/adapter_distance.hpp"
#include "judge/path.hpp"
#include "judge/peer.hpp"
#include "judge/rdma.hpp"
#include "preconditions/read_facts.hpp"
#include "preconditions/read_peer_facts.hpp"
#include "proof/prove.hpp"

namespace nobounce::cli {

namespace {

/// A file that would be created in a directory that is asked about.
constexpr const char* new_file_name = ".nobounce-check";

/// A path to judge and the mount it lies on.
struct Subject {
  std::string probe;  ///< what the session is asked about
  std::string shown;
  const Mount* mount = nullptr;
  bool missing = false;            ///< a path that was asked about and is not there
  bool directory_missing = false;  ///< nor is the directory it would be created in
};

std::string inside(const std::string& directory, const std::string& name) {
  return directory.back() == '/' ? directory + name : directory + "/" + name;
}

/// Every mount with a drive is asked about a file that would be created in it.
std::vector<Subject> subjects_of_mounts(const Machine& machine) {
  std::vector<Subject> subjects;
  for (const Mount& mount : machine.mounts) {
    if (!drive_of(machine, mount).has_value()) continue;
    subjects.push_back(
        {.probe = inside(mount.point, new_file_name), .shown = mount.point, .mount = &mount});
  }
  return subjects;
}

std::string directory_of(const std::string& absolute_path) {
  const std::size_t slash = absolute_path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : absolute_path.substr(0, slash);
}

/// The absolute path, symbolic links resolved as far as it exists: the rest is still to be created.
Result<std::string> absolute_path(system::Storage& storage, const std::string& path) {
  std::string existing = path;
  std::string rest;
  while (true) {
    Result<std::string> real = storage.real_path(existing);
    if (real.ok()) return rest.empty() ? std::move(real).value() : inside(*real, rest);
    const std::size_t slash = existing.rfind('/');
    const std::string name = slash == std::string::npos ? existing : existing.substr(slash + 1);
    if (existing == "." || existing == "/") return real;
    rest = rest.empty() ? name : name + "/" + rest;
    existing = slash == std::string::npos ? "." : slash == 0 ? "/" : existing.substr(0, slash);
  }
}

Attempt<std::vector<Subject>> subjects_of_paths(const Machine& machine, system::Host& host,
                                                const std::vector<std::string>& paths) {
  std::vector<Subject> subjects;
  for (const std::string& path : paths) {
    if (path.empty()) return usage_problem("read --path", "it is empty", "nobounce check --help");
    Result<std::string> absolute = absolute_path(host.storage(), path);
    if (!absolute.ok()) return Problem{std::move(absolute).error()};
    const Result<system::FileStatus> status = host.storage().status_of(*absolute);
    const bool directory = status.ok() && status->type == system::FileType::directory;
    const bool missing =
        !status.ok() && (status.error().code == ENOENT || status.error().code == ENOTDIR);
    const Result<system::FileStatus> above = host.storage().status_of(directory_of(*absolute));
    const bool has_directory = above.ok() && above->type == system::FileType::directory;
    subjects.push_back({.probe = directory ? inside(*absolute, new_file_name) : *absolute,
                        .shown = path,
                        .mount = mount_of(machine, *absolute),
                        .missing = missing,
                        .directory_missing = missing && !has_directory});
  }
  return subjects;
}

Attempt<std::vector<std::uint32_t>> gpus_of(const Machine& machine,
                                            const std::vector<std::string>& names) {
  std::vector<std::uint32_t> gpus;
  for (const std::string& name : names) {
    const bool prefixed = name.compare(0, 4, "gpu:") == 0;
    Attempt<std::uint32_t> gpu = resolve_gpu(machine, prefixed ? name : "gpu:" + name);
    if (auto* problem = std::get_if<Problem>(&gpu)) return std::move(*problem);
    gpus.push_back(std::get<std::uint32_t>(gpu));
  }
  if (names.empty()) {
    for (std::uint32_t i = 0; i < machine.gpus.size(); ++i) gpus.push_back(i);
  }
  return gpus;
}

Attempt<report::CheckRow> check_pair(Session& session, const Subject& subject, std::uint32_t gpu,
                                     bool writing) {
  const Machine& machine = session.machine();
  StorageRowSubject row{.medium = "file:" + subject.shown,
                        .gpu = "gpu:" + std::to_string(gpu),
                        .path = subject.shown,
                        .writing = writing};
  std::vector<Cause> degraded_causes;
  if (subject.mount != nullptr) {
    if (const auto drive = drive_of(machine, *subject.mount)) {
      const DeviceRef device{DeviceRef::Kind::drive, static_cast<std::uint16_t>(*drive)};
      row.medium = device_name(machine, device);
      degraded_causes = judge::judge_path(machine, device, gpu, {}).degraded_causes;
    }
  }
  if (subject.directory_missing) return missing_path_row(row, "its directory does not exist");
  if (subject.missing && !writing) return missing_path_row(row, "it does not exist");
  Result<std::vector<Finding>> findings = session.check_storage(subject.probe, gpu, writing);
  if (!findings.ok()) return Problem{std::move(findings).error()};
  return storage_row(row, std::move(findings).value(), std::move(degraded_causes));
}

/// What is known without trying: whether peer access is enabled only a copy can tell.
core::HostFacts peer_facts(const Session& session, system::Host& host) {
  const bool may_ask_cuda = host.cuda().ok();  // the session initialised it
  core::HostFacts facts = preconditions::read_host_facts(host, session.machine(), may_ask_cuda);
  facts.peers = preconditions::read_peer_facts(host, session.machine(), may_ask_cuda);
  return facts;
}

report::CheckRow check_gpus(const Machine& machine, const core::HostFacts& facts,
                            std::uint32_t source, std::uint32_t target) {
  judge::PeerJudgement judged =
      judge::judge_peer({.machine = machine, .host = facts, .source = source, .target = target});
  return peer_row("gpu:" + std::to_string(source), "gpu:" + std::to_string(target),
                  std::move(judged.findings), std::move(judged.degraded_causes));
}

/// Each GPU's best partner and one pair per level, as `prove` chooses them; every pair of the GPUs
/// that were named, and every pair at all with --all.
std::vector<report::CheckRow> rows_of_gpu_pairs(Session& session, system::Host& host,
                                                const CheckArguments& arguments,
                                                const std::vector<std::uint32_t>& gpus) {
  const bool all = arguments.all || !arguments.gpus.empty();
  const std::vector<proof::Subject> subjects = proof::choose_subjects(session, host, "", all);
  std::vector<report::CheckRow> rows;
  if (subjects.empty()) return rows;
  const core::HostFacts facts = peer_facts(session, host);
  const auto asked_for = [&gpus](std::uint32_t gpu) {
    return std::find(gpus.begin(), gpus.end(), gpu) != gpus.end();
  };
  for (const proof::Subject& subject : subjects) {
    if (!asked_for(subject.source_gpu) && !asked_for(subject.target_gpu)) continue;
    rows.push_back(check_gpus(session.machine(), facts, subject.source_gpu, subject.target_gpu));
  }
  return rows;
}

/// `named`: by its user, who is told of a nearer one.
report::CheckRow check_adapter(const Machine& machine, const core::HostFacts& facts,
                               std::uint32_t gpu, std::uint32_t nic, bool named = false) {
  judge::RdmaJudgement judged = judge::judge_rdma(
      {.machine = machine, .host = facts, .gpu = gpu, .nic = nic, .named = named});
  const DeviceRef adapter{DeviceRef::Kind::nic, static_cast<std::uint16_t>(nic)};
  return rdma_row("gpu:" + std::to_string(gpu), device_name(machine, adapter),
                  std::move(judged.findings), std::move(judged.degraded_causes));
}

/// Each GPU's nearest adapters, which a connection would use; all of them with --all.
std::vector<report::CheckRow> rows_of_adapters(Session& session, system::Host& host,
                                               const CheckArguments& arguments,
                                               const std::vector<std::uint32_t>& gpus) {
  std::vector<report::CheckRow> rows;
  const Machine& machine = session.machine();
  if (machine.nics.empty()) return rows;
  const core::HostFacts facts = preconditions::read_host_facts(host, machine, host.cuda().ok());
  for (const std::uint32_t gpu : gpus) {
    const DeviceRef memory{DeviceRef::Kind::gpu, static_cast<std::uint16_t>(gpu)};
    const std::vector<core::RankedAdapter> ranked = core::adapters_by_distance(machine, memory);
    for (const core::RankedAdapter& each : ranked) {
      if (!arguments.all && each.distance != ranked.front().distance) break;
      rows.push_back(check_adapter(machine, facts, gpu, each.nic));
    }
  }
  return rows;
}

Attempt<std::vector<report::CheckRow>> rows_of_pairs(Session& session, system::Host& host,
                                                     const std::vector<std::string>& pairs) {
  const Machine& machine = session.machine();
  std::vector<report::CheckRow> rows;
  for (const std::string& text : pairs) {
    Result<PairArgument> pair = parse_pair(machine, text, PairKinds::adapters_too);
    if (!pair.ok()) return Problem{std::move(pair).error()};
    if (pair->with_adapter()) {
      rows.push_back(check_adapter(machine, peer_facts(session, host), pair->beside_adapter().index,
                                   pair->adapter().index));
      continue;
    }
    if (pair->two_gpus()) {
      rows.push_back(
          check_gpus(machine, peer_facts(session, host), pair->source.index, pair->target.index));
      continue;
    }
    const std::size_t before = rows.size();
    for (const Subject& subject : subjects_of_mounts(machine)) {
      if (drive_of(machine, *subject.mount) != pair->drive().index) continue;
      Attempt<report::CheckRow> row =
          check_pair(session, subject, pair->gpu().index, pair->writing());
      if (auto* problem = std::get_if<Problem>(&row)) return std::move(*problem);
      rows.push_back(std::get<report::CheckRow>(std::move(row)));
    }
    if (rows.size() > before) continue;
    return Problem{Error{.origin = ErrorOrigin::input,
                         .attempted = "check the pair " + text,
                         .detail = "no mount lies on " + device_name(machine, pair->drive()),
                         .remedy = "nobounce check --path FILE --gpu N"},
                   exit_unknown};
  }
  return rows;
}

Attempt<std::vector<report::CheckRow>> all_rows(Session& session, system::Host& host,
                                                const CheckArguments& arguments) {
  if (!arguments.pairs.empty()) return rows_of_pairs(session, host, arguments.pairs);
  const Machine& machine = session.machine();
  Attempt<std::vector<std::uint32_t>> gpus = gpus_of(machine, arguments.gpus);
  if (auto* problem = std::get_if<Problem>(&gpus)) return std::move(*problem);
  Attempt<std::vector<Subject>> subjects =
      arguments.paths.empty() ? Attempt<std::vector<Subject>>(subjects_of_mounts(machine))
                              : subjects_of_paths(machine, host, arguments.paths);
  if (auto* problem = std::get_if<Problem>(&subjects)) return std::move(*problem);
  std::vector<report::CheckRow> rows;
  for (const std::uint32_t gpu : std::get<std::vector<std::uint32_t>>(gpus)) {
    for (const Subject& subject : std::get<std::vector<Subject>>(subjects)) {
      for (const bool writing : {false, true}) {
        Attempt<report::CheckRow> row = check_pair(session, subject, gpu, writing);
        if (auto* problem = std::get_if<Problem>(&row)) return std::move(*problem);
        rows.push_back(std::get<report::CheckRow>(std::move(row)));
      }
    }
  }
  if (arguments.async) {
    for (const std::uint32_t gpu : std::get<std::vector<std::uint32_t>>(gpus)) {
      for (report::CheckRow& row : async_check_rows(session, host, gpu))
        rows.push_back(std::move(row));
    }
  }
  if (!arguments.paths.empty()) return rows;  // a path is no matter of two GPUs
  for (report::CheckRow& row :
       rows_of_gpu_pairs(session, host, arguments, std::get<std::vector<std::uint32_t>>(gpus))) {
    rows.push_back(std::move(row));
  }
  for (report::CheckRow& row :
       rows_of_adapters(session, host, arguments, std::get<std::vector<std::uint32_t>>(gpus))) {
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

int run_check(CommandContext& context, const CheckArguments& arguments) {
  if (!arguments.pairs.empty() && !(arguments.paths.empty() && arguments.gpus.empty())) {
    return context.console.problem(usage_problem("read --pair", "it says what --path and --gpu say",
                                                 "--pair alone, or --path and --gpu"));
  }
  SessionOptions options;
  options.publish_ledger = false;
  options.warn_on_close = false;
  Result<Session> session = Session::open(*context.machine.host, options);
  if (!session.ok()) return context.console.problem({std::move(session).error()});
  report::CheckReport report{.machine = context.machine.label, .rows = {}};
  if (session->machine().gpus.empty()) {
    report.rows.push_back(no_gpu_row());
  } else {
    Attempt<std::vector<report::CheckRow>> rows =
        all_rows(*session, *context.machine.host, arguments);
    if (const auto* problem = std::get_if<Problem>(&rows)) return context.console.problem(*problem);
    report.rows = std::get<std::vector<report::CheckRow>>(std::move(rows));
  }
  if (report.rows.empty()) {
    return context.console.problem(
        {Error{.origin = ErrorOrigin::input,
               .attempted = "check every mount",
               .detail = "no mount of this machine lies on a drive that could be found",
               .remedy = "nobounce check --path FILE"},
         exit_unknown});
  }
  if (context.console.json()) {
    context.console.document(report::check_json(report));
  } else {
    const report::Style style = context.console.style();
    context.console.text(report::banner(report.machine, style));
    context.console.text(report::check_text(report, {.met_findings_too = arguments.all}, style));
  }
  return check_exit_code(report.rows);
}

}  // namespace nobounce::cli
