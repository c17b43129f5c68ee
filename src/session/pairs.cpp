// Pairs of devices by name, and what is asked about them.
#include "session/pairs.hpp"

#include "session/remotes.hpp"

#include <utility>

namespace nobounce::session {
namespace {

std::optional<std::string> medium_of(const SessionState& state, const FileRange& range) {
  const FileEntry* file = state.files.entry(range.file);
  if (file == nullptr) return std::nullopt;
  if (file->facts.drive.has_value()) return state.machine.drives[*file->facts.drive].name;
  if (file->facts.mount.has_value()) return file->facts.mount->point;
  return std::string();
}

std::string gpu_text(SessionState& state, const GpuMemory& memory) {
  return "gpu:" + std::to_string(memory.gpu) + " " + std::string(to_string(kind_of(state, memory)));
}

}  // namespace

std::string place_text(const SessionState& state, const Place& place) {
  if (const auto* gpu = std::get_if<GpuMemory>(&place)) return "gpu:" + std::to_string(gpu->gpu);
  if (std::holds_alternative<HostMemory>(place)) return "host";
  if (const auto* range = std::get_if<FileRange>(&place)) {
    const system::OpenFile* file = state.files.find(range->file);
    return file == nullptr ? "file" : "file:" + file->path;
  }
  if (const auto* remote = std::get_if<RemoteMemory>(&place))
    return state.remotes->name_of(state.remotes->device_of(*remote));
  const auto& range = std::get<BlockRange>(place);
  const bool known = range.drive < state.machine.drives.size();
  return known ? "nvme:" + state.machine.drives[range.drive].bdf : "nvme";
}

AllocationKind kind_of(SessionState& state, const GpuMemory& memory) {
  const std::scoped_lock lock(state.regions_mutex);
  const RegionEntry* region = find_region(state, memory);
  return region == nullptr ? AllocationKind::unknown : region->kind;
}

std::optional<PairKey> pair_of(SessionState& state, const Place& source, const Place& target) {
  const auto* source_gpu = std::get_if<GpuMemory>(&source);
  const auto* target_gpu = std::get_if<GpuMemory>(&target);
  const auto* source_file = std::get_if<FileRange>(&source);
  const auto* target_file = std::get_if<FileRange>(&target);
  if (source_gpu != nullptr && target_gpu != nullptr && source_gpu->gpu != target_gpu->gpu) {
    return PairKey{Member::p2p, gpu_text(state, *source_gpu), gpu_text(state, *target_gpu)};
  }
  if (source_file != nullptr && target_gpu != nullptr) {
    const std::optional<std::string> medium = medium_of(state, *source_file);
    if (medium.has_value()) return PairKey{Member::storage, *medium, gpu_text(state, *target_gpu)};
  }
  if (source_gpu != nullptr && target_file != nullptr) {
    const std::optional<std::string> medium = medium_of(state, *target_file);
    if (medium.has_value()) return PairKey{Member::storage, gpu_text(state, *source_gpu), *medium};
  }
  // A raw drive and its partner; the block under a name of its own, since no file system is meant.
  const auto* source_drive = std::get_if<BlockRange>(&source);
  const auto* target_drive = std::get_if<BlockRange>(&target);
  if (source_drive != nullptr && target_gpu != nullptr) {
    return PairKey{Member::storage, place_text(state, source), gpu_text(state, *target_gpu)};
  }
  if (source_gpu != nullptr && target_drive != nullptr) {
    return PairKey{Member::storage, gpu_text(state, *source_gpu), place_text(state, target)};
  }
  return std::nullopt;
}

std::optional<Belief> belief_in(SessionState& state, const PairKey& pair) {
  const std::scoped_lock lock(state.beliefs_mutex);
  const auto found = state.beliefs.find(pair);
  if (found == state.beliefs.end()) return std::nullopt;
  return found->second;
}

void believe(SessionState& state, const PairKey& pair) {
  const std::scoped_lock lock(state.beliefs_mutex);
  state.beliefs[pair].believed = true;
  state.beliefs_learnt.fetch_add(1, std::memory_order_release);
}

Cause disbelieve(SessionState& state, const PairKey& pair, const Error& error, std::string source) {
  const Cause general =
      pair.member == Member::p2p ? Cause::p2p_wrong_data : Cause::storage_cufile_refused;
  const Cause cause = error.cause == Cause::none ? general : error.cause;
  const std::scoped_lock lock(state.beliefs_mutex);
  Belief& belief = state.beliefs[pair];
  belief.believed = false;
  belief.finding = Finding{.cause = cause,
                           .subject = pair.source + " -> " + pair.target,
                           .state = FindingState::unmet,
                           .observed = to_string(error),
                           .needed = "a direct transfer that ends well and arrives intact",
                           .remedy = std::string(cause_row(cause).remedy),
                           .source = std::move(source)};
  state.beliefs_learnt.fetch_add(1, std::memory_order_release);
  return cause;
}

judge::PeerQuestion peer_question(SessionState& state, const GpuMemory& source,
                                  const GpuMemory& target) {
  return {.machine = state.machine,
          .host = state.facts,
          .source = source.gpu,
          .target = target.gpu,
          .source_kind = kind_of(state, source),
          .target_kind = kind_of(state, target)};
}

}  // namespace nobounce::session
