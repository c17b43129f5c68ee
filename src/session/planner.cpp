// Plans a transfer: checks the places, gathers candidates, lets route choose.
#include "session/planner.hpp"

#include <string>
#include <utility>

#include "judge/storage.hpp"
#include "preconditions/read_facts.hpp"
#include "session/candidates.hpp"
#include "session/links.hpp"
#include "session/owned_drive.hpp"
#include "session/peer_connection.hpp"
#include "session/remotes.hpp"

namespace nobounce::session {
namespace {

Error bad_place(std::string attempted, std::string detail, Cause cause = Cause::none) {
  return Error{.origin = ErrorOrigin::input,
               .attempted = std::move(attempted),
               .cause = cause,
               .detail = std::move(detail)};
}

bool holds(const FileEntry& file, const FileRange& range) {
  return range.offset.value <= file.length_bytes &&
         range.length_bytes <= file.length_bytes - range.offset.value;
}

/// Lengths must be equal, so that nobody takes a part for the whole.
Status check_lengths(const Place& source, const Place& target, const std::string& attempted) {
  const std::uint64_t from = length_bytes(source);
  const std::uint64_t to = length_bytes(target);
  if (from == to) return {};
  Error error = bad_place(attempted,
                          "the source is " + std::to_string(from) + " B long, and the target " +
                              std::to_string(to) + " B",
                          to < from ? Cause::memory_too_small : Cause::none);
  error.remedy = "places of one length: place(offset, length) is a part of a region or file";
  return error;
}

Status check_place(SessionState& state, const Place& place, bool is_target,
                   const std::string& attempted) {
  if (const auto* gpu = std::get_if<GpuMemory>(&place)) {
    if (state.contexts == nullptr) {
      Error error = *state.cuda_error;
      error.attempted = attempted + ": " + error.attempted;
      return error;
    }
    const std::scoped_lock lock(state.regions_mutex);
    if (find_region(state, *gpu) == nullptr) {
      return bad_place(attempted, "this range of gpu:" + std::to_string(gpu->gpu) +
                                      " lies in no region of the session");
    }
    return {};
  }
  if (const auto* host = std::get_if<HostMemory>(&place)) {
    if (host->address == nullptr && host->length_bytes > 0)
      return bad_place(attempted, "the host address is null");
    return {};
  }
  if (const auto* range = std::get_if<FileRange>(&place)) {
    const FileEntry* file = state.files.entry(range->file);
    if (file == nullptr) return bad_place(attempted, "the file is not open in this session");
    if (is_target && !file->writable)
      return bad_place(attempted, "the file was opened for reading");
    if (is_target && file->writes->published()) {
      Error error = bad_place(attempted, "the file was committed, and has its name");
      error.remedy = "commit it after the last transfer to it, or open it anew";
      return error;
    }
    if (!is_target && !holds(*file, *range)) {
      return bad_place(attempted, "the file holds " + std::to_string(file->length_bytes) + " bytes",
                       Cause::file_shorter_than_expected);
    }
    return {};
  }
  if (const auto* remote = std::get_if<RemoteMemory>(&place)) {
    const PeerConnection* const peer = state.remotes->find(remote->peer);
    if (peer == nullptr)
      return bad_place(attempted, "the session has no such connection", Cause::remote_peer_lost);
    return peer->check(*remote, is_target);
  }
  const auto& range = std::get<BlockRange>(place);
  const auto drive = owned_drive(state, range.drive);
  if (!drive.has_value()) {
    return bad_place(attempted, "the session has not taken the drive", Cause::nvme_take_needed);
  }
  const std::uint64_t end = range.offset.value + range.length_bytes;
  if (end < range.length_bytes || end > drive->length_bytes) {
    return bad_place(attempted,
                     "the drive holds " + std::to_string(drive->length_bytes) + " bytes");
  }
  return {};
}

/// First byte of a place in memory. Host and GPU memory share one address space: the driver's
/// addresses of pinned memory are those of the host.
std::optional<std::uint64_t> address_of(const Place& place) {
  if (const auto* gpu = std::get_if<GpuMemory>(&place)) return gpu->address.value;
  if (const auto* host = std::get_if<HostMemory>(&place))
    return reinterpret_cast<std::uintptr_t>(host->address);
  return std::nullopt;
}

bool is_one_file(const SessionState& state, std::uint32_t first, std::uint32_t second) {
  if (first == second) return true;
  const FileEntry* a = state.files.entry(first);
  const FileEntry* b = state.files.entry(second);
  return a != nullptr && b != nullptr && a->inode != 0 && a->inode == b->inode &&
         a->holder == b->holder;
}

/// How many bytes two places of one length share. Nobody moves such bytes rightly: pieces are under
/// way at once, in any order.
std::uint64_t shared_bytes(const SessionState& state, const Place& source, const Place& target) {
  const std::uint64_t length = length_bytes(source);
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  if (const auto from = address_of(source), to = address_of(target); from && to) {
    first = *from;
    second = *to;
  } else if (source.index() != target.index()) {
    return 0;
  } else if (const auto* file = std::get_if<FileRange>(&source)) {
    const auto& other = std::get<FileRange>(target);
    if (!is_one_file(state, file->file, other.file)) return 0;
    first = file->offset.value;
    second = other.offset.value;
  } else if (const auto* block = std::get_if<BlockRange>(&source)) {
    const auto& other = std::get<BlockRange>(target);
    if (block->drive != other.drive) return 0;
    first = block->offset.value;
    second = other.offset.value;
  } else if (const auto* remote = std::get_if<RemoteMemory>(&source)) {
    const auto& other = std::get<RemoteMemory>(target);
    if (remote->peer != other.peer || remote->key != other.key) return 0;
    first = remote->address;
    second = other.address;
  }
  const std::uint64_t apart = first < second ? second - first : first - second;
  return apart < length ? length - apart : 0;
}

DeviceRef device_of(const SessionState& state, const Place& place) {
  if (const auto* gpu = std::get_if<GpuMemory>(&place)) {
    return {DeviceRef::Kind::gpu, static_cast<std::uint16_t>(gpu->gpu)};
  }
  if (const auto* range = std::get_if<FileRange>(&place)) {
    return {DeviceRef::Kind::file, static_cast<std::uint16_t>(range->file)};
  }
  if (const auto* remote = std::get_if<RemoteMemory>(&place))
    return state.remotes->device_of(*remote);
  if (const auto* range = std::get_if<BlockRange>(&place)) {
    return {DeviceRef::Kind::drive, static_cast<std::uint16_t>(range->drive)};
  }
  return {DeviceRef::Kind::host, 0};
}

/// Adapters first, which move directly or not at all; the relay comes last, as every
/// staged candidate.
bool request_remote(SessionState& state, const Place& source, const Place& target,
                    route::RouteRequest& request) {
  const auto* from = std::get_if<RemoteMemory>(&source);
  const auto* to = std::get_if<RemoteMemory>(&target);
  if (from == nullptr && to == nullptr) return false;
  const Place& local = from != nullptr ? target : source;
  if ((from != nullptr && to != nullptr) || std::holds_alternative<FileRange>(local) ||
      std::holds_alternative<BlockRange>(local)) {
    request.candidates.push_back(no_direct_candidate(state, source, target));
    return true;
  }
  for (Candidate& candidate :
       rdma_candidates(state, from != nullptr ? *from : *to, local, source, target))
    request.candidates.push_back(std::move(candidate));
  request.direct_link = adapter_link(state, from != nullptr ? from->peer : to->peer, local);
  return true;
}

/// The same as check_place and kind_of, without words: false where something is wrong. Under
/// regions_mutex.
bool find_facts(SessionState& state, const Place& place, bool is_target, PlaceFacts& facts) {
  if (std::holds_alternative<RemoteMemory>(place)) return false;  // planned anew
  facts.device = device_of(state, place);
  if (const auto* gpu = std::get_if<GpuMemory>(&place)) {
    if (state.contexts == nullptr) return false;
    const RegionEntry* region = find_region(state, *gpu);
    if (region == nullptr) return false;
    facts.kind = region->kind;
    return true;
  }
  if (const auto* host = std::get_if<HostMemory>(&place)) {
    if (host->address == nullptr) return false;
    facts.node = node_of_region(state, *host);
    return true;
  }
  const auto* range = std::get_if<FileRange>(&place);
  if (range == nullptr) return false;
  const FileEntry* file = state.files.entry(range->file);
  if (file == nullptr || (is_target && (!file->writable || file->writes->published())))
    return false;
  return is_target || holds(*file, *range);
}

/// The provider that would move directly between two kinds of places; null where there is none.
core::Provider* direct_provider(SessionState& state, const Place& source, const Place& target) {
  const auto* source_gpu = std::get_if<GpuMemory>(&source);
  const auto* target_gpu = std::get_if<GpuMemory>(&target);
  if (source_gpu == nullptr && target_gpu == nullptr) return nullptr;
  if (source_gpu != nullptr && target_gpu != nullptr) {
    if (source_gpu->gpu != target_gpu->gpu) return state.providers.peer.get();
    return state.providers.host.get();
  }
  const Place& other = source_gpu != nullptr ? target : source;
  if (std::holds_alternative<FileRange>(other)) return state.providers.storage.get();
  return state.providers.host.get();
}

}  // namespace

std::optional<PlanQuestion> plan_question(SessionState& state, const Place& source,
                                          const Place& target, Policy policy) {
  const std::uint64_t length = length_bytes(source);
  if (length == 0 || length != length_bytes(target) || shared_bytes(state, source, target) != 0)
    return std::nullopt;
  std::optional<PlanQuestion> question(std::in_place);
  PlanKey& key = question->key;
  key.policy = policy;
  {
    const std::scoped_lock lock(state.regions_mutex);
    if (!find_facts(state, source, false, key.source) ||
        !find_facts(state, target, true, key.target)) {
      return std::nullopt;
    }
  }
  if (core::Provider* provider = direct_provider(state, source, target)) {
    const std::optional<core::Confirmed> confirmed =
        provider->confirm(Segment{.length_bytes = length, .source = source, .target = target});
    if (!confirmed.has_value()) return std::nullopt;
    question->confirmed = *confirmed;
    key.confirmed = confirmed->facts;
  }
  return question;
}

Lessons lessons_of(const SessionState& state) {
  Lessons lessons{.beliefs = state.beliefs_learnt.load(std::memory_order_acquire),
                  .files = state.files.changes()};
  for (const core::Provider* provider :
       {static_cast<const core::Provider*>(state.providers.storage.get()),
        static_cast<const core::Provider*>(state.providers.peer.get()),
        static_cast<const core::Provider*>(state.providers.host.get()),
        static_cast<const core::Provider*>(state.providers.staged.get())}) {
    if (provider != nullptr) lessons.providers += provider->lessons();
  }
  return lessons;
}

TransferPlan plan_of(std::shared_ptr<const CommonPlan> common, const Place& source,
                     const Place& target) {
  TransferPlan plan;
  if (!common->route.refused) {
    plan.cut = route::cut(source, target, common->provider, common->carriage,
                          route::RouteRequest{}.storage_alignment_bytes);
  }
  plan.common = std::move(common);
  return plan;
}

Route whole_route(const TransferPlan& plan) {
  Route route = plan.common->route;
  route.segments.assign(plan.cut.segments.begin(), plan.cut.segments.end());
  if (plan.cut.unaligned) route.causes.push_back(Cause::storage_unaligned);
  return route;
}

DeviceRef device_at(const SessionState& state, const Place& place) {
  return device_of(state, place);
}

std::string describe_transfer(const SessionState& state, const Place& source, const Place& target) {
  return "move " + std::to_string(length_bytes(source)) + " bytes from " +
         place_text(state, source) + " to " + place_text(state, target);
}

Result<TransferPlan> plan_transfer(SessionState& state, const Place& source, const Place& target,
                                   Policy policy) {
  const std::string attempted = describe_transfer(state, source, target);
  if (Status lengths = check_lengths(source, target, attempted); !lengths.ok())
    return lengths.error();
  if (Status checked = check_place(state, source, false, attempted); !checked.ok())
    return checked.error();
  if (Status checked = check_place(state, target, true, attempted); !checked.ok())
    return checked.error();
  if (const std::uint64_t shared = shared_bytes(state, source, target); shared != 0) {
    Error error = bad_place(
        attempted, "source and target share " + std::to_string(shared) + " bytes of one memory");
    error.remedy = "places that do not overlap; or move it through a region of its own";
    return error;
  }

  route::RouteRequest request{.source = source, .target = target, .policy = policy};
  const auto* source_gpu = std::get_if<GpuMemory>(&source);
  const auto* target_gpu = std::get_if<GpuMemory>(&target);
  const auto* source_file = std::get_if<FileRange>(&source);
  const auto* target_file = std::get_if<FileRange>(&target);
  if (request_remote(state, source, target, request)) {
    // its candidates are in
  } else if (source_file != nullptr && target_gpu != nullptr) {
    request.candidates.push_back(
        storage_candidate(state, *source_file, *target_gpu, source, target, request.direct_link));
  } else if (source_gpu != nullptr && target_file != nullptr) {
    request.candidates.push_back(
        storage_candidate(state, *target_file, *source_gpu, source, target, request.direct_link));
  } else if (std::holds_alternative<BlockRange>(source) ||
             std::holds_alternative<BlockRange>(target)) {
    request.candidates.push_back(drive_candidate(state, source, target, request.direct_link));
  } else if (source_gpu != nullptr && target_gpu != nullptr && source_gpu->gpu != target_gpu->gpu) {
    request.candidates.push_back(
        peer_candidate(state, *source_gpu, *target_gpu, request.direct_link));
  } else if (source_gpu != nullptr && target_gpu != nullptr && source_gpu->gpu == target_gpu->gpu) {
    request.candidates.push_back(
        assessed(state, ProviderKind::host, Carriage::direct, source, target));
  } else if ((source_gpu != nullptr) != (target_gpu != nullptr)) {
    request.candidates.push_back(
        assessed(state, ProviderKind::host, Carriage::direct, source, target));
    request.direct_link = straight_link(state, source, target);
  } else {
    request.candidates.push_back(no_direct_candidate(state, source, target));
  }
  request.candidates.push_back(
      assessed(state, ProviderKind::staged, Carriage::staged, source, target));
  request.staged_link = staged_link(state, source, target);
  route::Choice choice = route::choose(request);
  auto common = std::make_shared<CommonPlan>();
  if (choice.chosen.has_value()) {
    common->provider = request.candidates[*choice.chosen].provider;
    common->carriage = request.candidates[*choice.chosen].carriage;
  }
  common->route = std::move(choice.route);
  common->source = device_of(state, source);
  common->target = device_of(state, target);
  common->staged_link = request.staged_link;
  return plan_of(std::move(common), source, target);
}

}  // namespace nobounce::session

namespace nobounce {

Result<Route> Session::plan(const Place& source, const Place& target, Policy policy) {
  if (state_->forked()) return session::forked_error("plan a transfer");
  Result<session::TransferPlan> plan = session::plan_transfer(*state_, source, target, policy);
  if (!plan.ok()) return std::move(plan).error();
  return session::whole_route(*plan);
}

Result<std::vector<Finding>> Session::check_storage(std::string_view path, std::uint32_t gpu,
                                                    bool writing) {
  if (state_->forked()) return session::forked_error("check storage");
  if (gpu >= state_->machine.gpus.size()) {
    return Error{
        .origin = ErrorOrigin::input,
        .attempted = "check storage for gpu:" + std::to_string(gpu),
        .detail = "this machine has " + std::to_string(state_->machine.gpus.size()) + " GPU(s)"};
  }
  Result<core::StorageFileFacts> facts =
      preconditions::read_file_facts(state_->host, state_->machine, path);
  if (!facts.ok()) return std::move(facts).error();
  return judge::judge_storage({.machine = state_->machine,
                               .host = state_->facts,
                               .file = *facts,
                               .gpu = gpu,
                               .writing = writing,
                               .allocation = AllocationKind::device})
      .findings;
}

}  // namespace nobounce
