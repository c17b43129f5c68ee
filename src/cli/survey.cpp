// The rows of the preconditions table: which pairs, and what their judges say.
#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "cli/async_rows.hpp"
#include "cli/check_rows.hpp"
#include "cli/pair_argument.hpp"
#include "cli/place_argument.hpp"
#include "cli/survey.hpp"
#include "core/adapter_distance.hpp"
#include "core/file_path.hpp"
#include "judge/peer.hpp"
#include "judge/rdma.hpp"
#include "judge/storage.hpp"
#include "preconditions/read_facts.hpp"
#include "preconditions/read_peer_facts.hpp"
#include "proof/prove.hpp"
#include "topology/read_machine.hpp"

namespace nobounce::cli {

namespace {

/// A path to judge and the mount it lies on.
struct Subject {
  std::string probe;  ///< what the session is asked about
  std::string shown;
  const Mount* mount = nullptr;
  bool missing = false;            ///< a path that was asked about and is not there
  bool directory_missing = false;  ///< nor is the directory it would be created in
};

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
  std::vector<std::string> seen;
  for (const std::string& path : paths) {
    Result<std::string> absolute = absolute_path(host.storage(), path);
    if (!absolute.ok()) return Problem{std::move(absolute).error()};
    if (std::find(seen.begin(), seen.end(), *absolute) != seen.end()) continue;
    seen.push_back(*absolute);
    const Result<system::FileStatus> status = host.storage().status_of(*absolute);
    const bool directory = status.ok() && status->type == system::FileType::directory;
    // A recording knows folders, not what is in them.
    const bool missing = host.kind() != HostKind::recorded && !status.ok() &&
                         (status.error().code == ENOENT || status.error().code == ENOTDIR);
    const Result<system::FileStatus> above =
        host.storage().status_of(core::directory_of(*absolute));
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
    if (auto* problem = std::get_if<Problem>(&gpu)) {
      problem->error.attempted = "--gpu: " + problem->error.attempted;
      return std::move(*problem);
    }
    const std::uint32_t index = std::get<std::uint32_t>(gpu);
    if (std::find(gpus.begin(), gpus.end(), index) == gpus.end()) gpus.push_back(index);
  }
  if (names.empty()) {
    for (std::uint32_t i = 0; i < machine.gpus.size(); ++i) gpus.push_back(i);
  }
  return gpus;
}

/// Another program's configuration is no matter of ours: a session brings its own.
core::HostFacts facts_of_sessions(core::HostFacts facts) {
  core::Fact& forced = facts.storage.compat_forced;
  if (forced.value == true && !facts.cufile.path.empty() && forced.source == facts.cufile.path) {
    forced.value = false;
    forced.observed = forced.observed + " for other programs; a session brings its own file";
  }
  return facts;
}

Attempt<report::CheckRow> check_pair(system::Host& host, const Survey& surveyed,
                                     const Subject& subject, std::uint32_t gpu, bool writing) {
  const Machine& machine = surveyed.machine;
  StorageRowSubject row{.medium = "file:" + subject.shown,
                        .gpu = "gpu:" + std::to_string(gpu),
                        .path = subject.shown,
                        .writing = writing};
  if (subject.mount != nullptr) {
    if (const auto drive = drive_of(machine, *subject.mount)) {
      const DeviceRef device{DeviceRef::Kind::drive, static_cast<std::uint16_t>(*drive)};
      row.medium = device_name(machine, device);
    }
  }
  if (subject.directory_missing) return missing_path_row(row, "its directory does not exist");
  if (subject.missing && !writing) return missing_path_row(row, "it does not exist");
  Result<core::StorageFileFacts> file =
      preconditions::read_file_facts(host, machine, subject.probe);
  if (!file.ok()) return Problem{std::move(file).error()};
  const core::HostFacts facts = facts_of_sessions(surveyed.facts);
  judge::StorageJudgement judged = judge::judge_storage({.machine = machine,
                                                         .host = facts,
                                                         .file = *file,
                                                         .gpu = gpu,
                                                         .writing = writing,
                                                         .allocation = AllocationKind::device});
  return storage_row(row, std::move(judged.findings), std::move(judged.degraded_causes));
}

report::CheckRow check_gpus(const Machine& machine, const core::HostFacts& facts,
                            std::uint32_t source, std::uint32_t target) {
  judge::PeerJudgement judged =
      judge::judge_peer({.machine = machine, .host = facts, .source = source, .target = target});
  return peer_row("gpu:" + std::to_string(source), "gpu:" + std::to_string(target),
                  std::move(judged.findings), std::move(judged.degraded_causes));
}

bool holds(const std::vector<std::uint32_t>& gpus, std::uint32_t gpu) {
  return std::find(gpus.begin(), gpus.end(), gpu) != gpus.end();
}

/// Each GPU's best partner and one pair per level, as `prove` chooses them; every pair of the GPUs
/// that were named, and every pair at all with --all.
std::vector<report::CheckRow> rows_of_gpu_pairs(system::Host& host, const Survey& surveyed,
                                                const CheckArguments& arguments,
                                                const std::vector<std::uint32_t>& gpus) {
  const bool all = arguments.all || !arguments.gpus.empty();
  std::vector<report::CheckRow> rows;
  for (const proof::Subject& subject : proof::choose_subjects(surveyed.machine, host, "", all)) {
    if (!holds(gpus, subject.source_gpu) && !holds(gpus, subject.target_gpu)) continue;
    rows.push_back(
        check_gpus(surveyed.machine, surveyed.facts, subject.source_gpu, subject.target_gpu));
  }
  return rows;
}

/// `named`: by its user, who is told of a nearer one.
report::CheckRow check_adapter(const Survey& surveyed, std::uint32_t gpu, std::uint32_t nic,
                               bool named = false) {
  judge::RdmaJudgement judged = judge::judge_rdma({.machine = surveyed.machine,
                                                   .host = surveyed.facts,
                                                   .gpu = gpu,
                                                   .nic = nic,
                                                   .named = named});
  const DeviceRef adapter{DeviceRef::Kind::nic, static_cast<std::uint16_t>(nic)};
  return rdma_row("gpu:" + std::to_string(gpu), device_name(surveyed.machine, adapter),
                  std::move(judged.findings), std::move(judged.degraded_causes));
}

/// Each GPU's nearest adapters, which a connection would use; all of them with --all.
std::vector<report::CheckRow> rows_of_adapters(const Survey& surveyed, bool all,
                                               const std::vector<std::uint32_t>& gpus) {
  std::vector<report::CheckRow> rows;
  if (surveyed.machine.nics.empty()) return rows;
  for (const std::uint32_t gpu : gpus) {
    const DeviceRef memory{DeviceRef::Kind::gpu, static_cast<std::uint16_t>(gpu)};
    const auto ranked = core::adapters_by_distance(surveyed.machine, memory);
    for (const core::RankedAdapter& each : ranked) {
      if (!all && each.distance != ranked.front().distance) break;
      rows.push_back(check_adapter(surveyed, gpu, each.nic));
    }
  }
  return rows;
}

Attempt<std::vector<report::CheckRow>> rows_of_pairs(system::Host& host, const Survey& surveyed,
                                                     const std::vector<std::string>& pairs) {
  const Machine& machine = surveyed.machine;
  std::vector<report::CheckRow> rows;
  std::vector<PairArgument> seen;
  for (const std::string& text : pairs) {
    Attempt<PairArgument> parsed = parse_pair(machine, text);
    if (auto* problem = std::get_if<Problem>(&parsed)) return std::move(*problem);
    const PairArgument& pair = std::get<PairArgument>(parsed);
    const auto same = [&pair](const PairArgument& other) {
      return other.source == pair.source && other.target == pair.target;
    };
    if (std::any_of(seen.begin(), seen.end(), same)) continue;
    seen.push_back(pair);
    if (pair.two_gpus()) {
      rows.push_back(check_gpus(machine, surveyed.facts, pair.source.index, pair.target.index));
      continue;
    }
    if (pair.with_adapter()) {
      rows.push_back(
          check_adapter(surveyed, pair.beside_adapter().index, pair.adapter().index, true));
      continue;
    }
    const std::size_t before = rows.size();
    for (const Subject& subject : subjects_of_mounts(machine)) {
      if (drive_of(machine, *subject.mount) != pair.drive().index) continue;
      Attempt<report::CheckRow> row =
          check_pair(host, surveyed, subject, pair.gpu().index, pair.writing());
      if (auto* problem = std::get_if<Problem>(&row)) return std::move(*problem);
      rows.push_back(std::get<report::CheckRow>(std::move(row)));
    }
    if (rows.size() > before) continue;
    return Problem{Error{.origin = ErrorOrigin::input,
                         .attempted = "check the pair " + text,
                         .detail = "no mount lies on " + device_name(machine, pair.drive()),
                         .remedy = "nobounce check --path FILE --gpu N"},
                   exit_unknown};
  }
  return rows;
}

bool wanted(const CheckArguments& arguments, Member member) {
  const std::vector<std::string>& members = arguments.members;
  return members.empty() ||
         std::find(members.begin(), members.end(), to_string(member)) != members.end();
}

Attempt<std::vector<report::CheckRow>> rows_of_storage(system::Host& host, const Survey& surveyed,
                                                       const CheckArguments& arguments,
                                                       const std::vector<std::uint32_t>& gpus) {
  Attempt<std::vector<Subject>> subjects =
      arguments.paths.empty() ? Attempt<std::vector<Subject>>(subjects_of_mounts(surveyed.machine))
                              : subjects_of_paths(surveyed.machine, host, arguments.paths);
  if (auto* problem = std::get_if<Problem>(&subjects)) return std::move(*problem);
  std::vector<report::CheckRow> rows;
  for (const std::uint32_t gpu : gpus) {
    for (const Subject& subject : std::get<std::vector<Subject>>(subjects)) {
      for (const bool writing : {false, true}) {
        Attempt<report::CheckRow> row = check_pair(host, surveyed, subject, gpu, writing);
        if (auto* problem = std::get_if<Problem>(&row)) return std::move(*problem);
        rows.push_back(std::get<report::CheckRow>(std::move(row)));
      }
    }
  }
  return rows;
}

}  // namespace

std::string inside(const std::string& directory, const std::string& name) {
  return directory.back() == '/' ? directory + name : directory + "/" + name;
}

Result<Survey> survey(system::Host& host) {
  Result<Machine> machine = topology::read_machine(host);
  if (!machine.ok()) return std::move(machine).error();
  Survey surveyed;
  surveyed.machine = *std::move(machine);
  const Result<system::Cuda*> cuda = host.cuda();
  const bool started = cuda.ok() && (*cuda)->init(0) == system::cuda::success;
  surveyed.facts = preconditions::read_host_facts(host, surveyed.machine, started);
  surveyed.facts.peers = preconditions::read_peer_facts(host, surveyed.machine, started);
  return surveyed;
}

Attempt<std::vector<report::CheckRow>> check_rows(system::Host& host, const Survey& surveyed,
                                                  const CheckArguments& arguments) {
  const Machine& machine = surveyed.machine;
  if (machine.gpus.empty()) return std::vector<report::CheckRow>{no_gpu_row()};
  if (!arguments.pairs.empty()) return rows_of_pairs(host, surveyed, arguments.pairs);
  Attempt<std::vector<std::uint32_t>> named = gpus_of(machine, arguments.gpus);
  if (auto* problem = std::get_if<Problem>(&named)) return std::move(*problem);
  const auto& gpus = std::get<std::vector<std::uint32_t>>(named);
  std::vector<report::CheckRow> rows;
  const auto append = [&rows](std::vector<report::CheckRow> more) {
    for (report::CheckRow& row : more) rows.push_back(std::move(row));
  };
  if (wanted(arguments, Member::storage)) {
    Attempt<std::vector<report::CheckRow>> storage =
        rows_of_storage(host, surveyed, arguments, gpus);
    if (auto* problem = std::get_if<Problem>(&storage)) return std::move(*problem);
    append(std::get<std::vector<report::CheckRow>>(std::move(storage)));
  }
  if (!arguments.paths.empty()) return rows;  // a path is no matter of two GPUs
  if (wanted(arguments, Member::p2p)) append(rows_of_gpu_pairs(host, surveyed, arguments, gpus));
  if (wanted(arguments, Member::rdma)) append(rows_of_adapters(surveyed, arguments.all, gpus));
  const bool async =
      arguments.async || (!arguments.members.empty() && wanted(arguments, Member::async));
  for (std::size_t i = 0; async && i < gpus.size(); ++i) {
    append(async_check_rows(machine, host, gpus[i]));
  }
  return rows;
}

}  // namespace nobounce::cli
