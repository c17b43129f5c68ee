// Which pairs get a row: each GPU's best partner, and one pair per level.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/adapter_distance.hpp"
#include "core/device_refs.hpp"
#include "proof/prove.hpp"

namespace nobounce::proof {
namespace {

using core::gpu_ref;

/// Nearer first: NVLink before PCIe, more links before fewer.
auto rank(const Path& path) {
  return std::pair(static_cast<int>(path.level), -static_cast<int>(path.nvlink_count));
}

Subject copy_subject(std::uint32_t source, std::uint32_t target) {
  Subject subject;
  subject.member = Member::p2p;
  subject.source_gpu = source;
  subject.target_gpu = target;
  return subject;
}

void add_gpu_pairs(const Machine& machine, bool all, std::vector<Subject>& subjects) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> chosen;
  std::set<std::string> levels;
  const auto count = static_cast<std::uint32_t>(machine.gpus.size());
  for (std::uint32_t source = 0; source < count; ++source) {
    std::optional<std::uint32_t> best;
    for (std::uint32_t target = 0; target < count; ++target) {
      if (target == source) continue;
      if (all) chosen.insert({source, target});
      if (!best.has_value() || rank(path_between(machine, gpu_ref(source), gpu_ref(target))) <
                                   rank(path_between(machine, gpu_ref(source), gpu_ref(*best)))) {
        best = target;
      }
    }
    if (best.has_value()) chosen.insert({source, *best});
  }
  for (const auto& [source, target] : chosen) {
    levels.insert(level_text(path_between(machine, gpu_ref(source), gpu_ref(target))));
  }
  for (std::uint32_t source = 0; source < count; ++source) {
    for (std::uint32_t target = 0; target < count; ++target) {
      if (source == target) continue;
      if (levels.insert(level_text(path_between(machine, gpu_ref(source), gpu_ref(target))))
              .second) {
        chosen.insert({source, target});
      }
    }
  }
  for (const auto& [source, target] : chosen) subjects.push_back(copy_subject(source, target));
}

/// The drive that a scratch directory lies on, with each GPU whose level is new, both directions.
void add_storage_pairs(const Machine& machine, const std::string& scratch,
                       const std::string& suffix, bool all, std::vector<Subject>& subjects) {
  const Mount* mount = mount_of(machine, scratch);
  std::optional<std::uint32_t> drive;
  if (mount != nullptr) drive = drive_of(machine, *mount);
  const std::string medium =
      drive.has_value() ? "drive:" + machine.drives[*drive].name : "file:" + scratch;
  std::vector<std::uint32_t> gpus(machine.gpus.size());
  for (std::uint32_t gpu = 0; gpu < gpus.size(); ++gpu) gpus[gpu] = gpu;
  const auto path_to = [&](std::uint32_t gpu) {
    return path_between(machine, {DeviceRef::Kind::drive, static_cast<std::uint16_t>(*drive)},
                        gpu_ref(gpu));
  };
  if (drive.has_value()) {
    std::stable_sort(gpus.begin(), gpus.end(), [&](std::uint32_t a, std::uint32_t b) {
      return rank(path_to(a)) < rank(path_to(b));
    });
  }
  std::set<std::string> levels;
  for (const std::uint32_t gpu : gpus) {
    const std::string level = drive.has_value() ? level_text(path_to(gpu)) : "";
    if (!levels.insert(level).second && !all) continue;
    for (const bool writing : {false, true}) {
      Subject subject;
      subject.member = Member::storage;
      subject.source_gpu = gpu;
      subject.target_gpu = gpu;
      subject.writing = writing;
      subject.path = scratch + "/nobounce-prove-" + suffix + (writing ? "-out" : "-in");
      subject.medium = medium;
      subjects.push_back(subject);
    }
  }
}

/// What a connection would choose among: nobody listens for a row that cannot but stage. Those with
/// a port that is down are `check`'s to name, and may be asked for.
std::vector<core::RankedAdapter> usable_adapters(const Machine& machine, std::uint32_t gpu) {
  std::vector<core::RankedAdapter> ranked = core::adapters_by_distance(machine, gpu_ref(gpu));
  std::erase_if(ranked, [&machine](const core::RankedAdapter& each) {
    const Nic& nic = machine.nics[each.nic];
    return !nic.active || !nic.reliable_connections;
  });
  return ranked;
}

/// Each GPU with its nearest adapters, both directions; of these one pair per level, or all.
void add_adapter_pairs(const Machine& machine, bool all, std::vector<Subject>& subjects) {
  std::set<std::string> levels;
  for (std::uint32_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    const std::vector<core::RankedAdapter> ranked = usable_adapters(machine, gpu);
    for (const core::RankedAdapter& each : ranked) {
      if (each.distance != ranked.front().distance) break;
      const DeviceRef adapter{DeviceRef::Kind::nic, static_cast<std::uint16_t>(each.nic)};
      const std::string level = level_text(path_between(machine, adapter, gpu_ref(gpu)));
      if (!levels.insert(level).second && !all) continue;
      for (const bool writing : {false, true})
        subjects.push_back(adapter_subject(machine, gpu, each.nic, writing));
    }
  }
}

}  // namespace

std::vector<Subject> choose_subjects(Session& session, system::Host& host,
                                     const std::string& scratch, bool all) {
  const Machine& machine = session.machine();
  std::vector<Subject> subjects = choose_subjects(machine, host, scratch, all);
  add_adapter_pairs(machine, all, subjects);
  return subjects;
}

Subject adapter_subject(const Machine& machine, std::uint32_t gpu, std::uint32_t adapter,
                        bool writing) {
  Subject subject;
  subject.member = Member::rdma;
  subject.source_gpu = gpu;
  subject.target_gpu = gpu;
  subject.writing = writing;
  subject.medium =
      device_name(machine, {DeviceRef::Kind::nic, static_cast<std::uint16_t>(adapter)});
  subject.adapter = adapter;
  return subject;
}

std::vector<Subject> choose_subjects(const Machine& machine, system::Host& host,
                                     const std::string& scratch, bool all) {
  std::vector<Subject> subjects;
  if (!scratch.empty() && !machine.gpus.empty()) {
    const Result<std::string> real = host.storage().real_path(scratch);
    add_storage_pairs(machine, real.ok() ? *real : scratch, std::to_string(host.process().id()),
                      all, subjects);
  }
  add_gpu_pairs(machine, all, subjects);
  return subjects;
}

Result<std::vector<Subject>> choose_peer_subjects(const Machine& machine, Peer& peer, bool all) {
  const Result<std::vector<ExportDescription>> exports = peer.exports();
  if (!exports.ok()) return exports.error();
  std::vector<Subject> subjects;
  for (const ExportDescription& offered : *exports) {
    for (std::uint32_t gpu = 0; gpu < machine.gpus.size() && (all || gpu == 0); ++gpu) {
      for (const bool writing : {false, true}) {
        if (writing && offered.access != RemoteAccess::write) continue;
        Subject subject;
        subject.member = Member::rdma;
        subject.source_gpu = gpu;
        subject.target_gpu = gpu;
        subject.writing = writing;
        subject.medium = "rdma://" + peer.address() + "/" + offered.name;
        subject.peer = &peer;
        subject.export_name = offered.name;
        subjects.push_back(subject);
      }
    }
  }
  return subjects;
}

}  // namespace nobounce::proof
