// Candidates for a transfer: what each provider and the judge have to say of it.
#include "session/candidates.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "core/adapter_distance.hpp"
#include "core/device_refs.hpp"
#include "core/drive_parts.hpp"
#include "judge/path.hpp"
#include "judge/rdma.hpp"
#include "judge/storage.hpp"
#include "session/links.hpp"
#include "session/peer_connection.hpp"
#include "session/remotes.hpp"

namespace nobounce::session {
namespace {

Segment whole(const Place& source, const Place& target, ProviderKind provider, Carriage expected) {
  return Segment{.offset_bytes = 0,
                 .length_bytes = length_bytes(source),
                 .source = source,
                 .target = target,
                 .provider = provider,
                 .expected = expected};
}

/// Adds what an earlier probe or transfer of the session found.
void add_belief(SessionState& state, const Place& source, const Place& target,
                Candidate& candidate) {
  const std::optional<PairKey> pair = pair_of(state, source, target);
  if (!pair.has_value()) return;
  const std::optional<Belief> belief = belief_in(state, *pair);
  if (!belief.has_value() || belief->believed) return;
  candidate.assessment.findings.push_back(belief->finding);
  candidate.assessment.usable = false;
}

/// The worst of all drives that move bytes for it.
Link link_of_drive(const Machine& machine, std::uint32_t drive, std::uint32_t gpu) {
  Link worst = Link::none;
  for (const std::uint32_t part : core::moving_drives(machine, drive)) {
    const Link link = path_between(machine, core::drive_ref(part), core::gpu_ref(gpu)).link;
    worst = worse_link(worst, link);
  }
  return worst;
}

/// Where nobody can tell whether peer requests pass, the probe of a pair settles it. A page lies on
/// one part of a drive, so of several parts it settles nothing.
void refuse_unprobed_parts(const Machine& machine, std::uint32_t drive, Candidate& candidate) {
  const std::size_t parts = core::moving_drives(machine, drive).size();
  if (parts < 2) return;
  for (const Finding& finding : candidate.assessment.findings) {
    const bool bus = finding.cause == Cause::machine_acs_redirect ||
                     finding.cause == Cause::machine_iommu_translated ||
                     finding.cause == Cause::machine_cross_host_bridge ||
                     finding.cause == Cause::machine_cross_socket;
    if (!bus || finding.state != FindingState::unknown) continue;
    Finding refusal = finding;
    refusal.cause = Cause::storage_mount_is_layered;
    refusal.state = FindingState::unmet;
    refusal.observed =
        finding.observed + "; a probe would reach one of " + std::to_string(parts) + " drives only";
    refusal.remedy = cause_row(refusal.cause).remedy;
    candidate.assessment.findings.push_back(std::move(refusal));
    candidate.assessment.usable = false;
    return;
  }
}

}  // namespace

Candidate assessed(SessionState& state, ProviderKind kind, Carriage carriage, const Place& source,
                   const Place& target) {
  Candidate candidate{.provider = kind, .carriage = carriage, .assessment = {}, .degraded = false};
  const Segment segment = whole(source, target, kind, carriage);
  candidate.assessment = state.providers.of(segment)->assess(segment);
  return candidate;
}

/// The findings of the judge (from facts), of the provider (from its own state) and of an earlier
/// probe, together.
Candidate storage_candidate(SessionState& state, const FileRange& range, const GpuMemory& memory,
                            const Place& source, const Place& target, Link& link) {
  const FileEntry& file = *state.files.entry(range.file);
  const bool writing = std::holds_alternative<FileRange>(target);
  const judge::StorageJudgement judged =
      judge::judge_storage({.machine = state.machine,
                            .host = state.facts,
                            .file = file.facts,
                            .gpu = memory.gpu,
                            .writing = writing,
                            .allocation = kind_of(state, memory)});
  Candidate candidate = assessed(state, ProviderKind::storage, Carriage::direct, source, target);
  std::vector<Finding> findings = judged.findings;
  for (Finding& finding : candidate.assessment.findings) findings.push_back(std::move(finding));
  candidate.assessment.usable = candidate.assessment.usable && judged.possible;
  candidate.degraded = judged.degraded;
  candidate.degraded_causes = judged.degraded_causes;
  candidate.assessment.findings = std::move(findings);
  add_belief(state, source, target, candidate);
  if (file.facts.drive.has_value()) {
    link = link_of_drive(state.machine, *file.facts.drive, memory.gpu);
    refuse_unprobed_parts(state.machine, *file.facts.drive, candidate);
  }
  return candidate;
}

Candidate peer_candidate(SessionState& state, const GpuMemory& source, const GpuMemory& target,
                         Link& link) {
  judge::PeerJudgement judged = judge::judge_peer(peer_question(state, source, target));
  Candidate candidate = assessed(state, ProviderKind::peer, Carriage::direct, source, target);
  judge::settle(judged.findings, std::move(candidate.assessment.findings));
  candidate.assessment.findings = std::move(judged.findings);
  candidate.assessment.usable = candidate.assessment.usable && judged.possible;
  candidate.degraded = judged.degraded;
  candidate.degraded_causes = judged.degraded_causes;
  add_belief(state, source, target, candidate);
  link = judged.link;
  return candidate;
}

namespace {

/// What the judge has to say of the adapters that a connection uses and a GPU of this machine.
void judge_adapters(SessionState& state, std::uint32_t peer, std::uint32_t gpu, AllocationKind kind,
                    Candidate& candidate) {
  std::vector<Finding> tried = std::move(candidate.assessment.findings);
  candidate.assessment.findings.clear();
  for (const std::uint32_t nic : state.providers.rdma->adapters(peer)) {
    judge::RdmaJudgement judged = judge::judge_rdma(
        {.machine = state.machine, .host = state.facts, .gpu = gpu, .nic = nic, .kind = kind});
    candidate.assessment.usable = candidate.assessment.usable && judged.possible;
    candidate.degraded = candidate.degraded || judged.degraded;
    for (const Cause cause : judged.degraded_causes) {
      std::vector<Cause>& causes = candidate.degraded_causes;
      if (std::find(causes.begin(), causes.end(), cause) == causes.end()) causes.push_back(cause);
    }
    judge::settle(candidate.assessment.findings, std::move(judged.findings));
  }
  judge::settle(candidate.assessment.findings, std::move(tried));
}

/// The region that holds a place, so that parts of it are registered once; `kept`: there is one.
core::RegionView region_of(SessionState& state, const Place& place, bool& kept) {
  core::RegionView view{place, AllocationKind::host_pageable};
  const auto* gpu = std::get_if<GpuMemory>(&place);
  const std::scoped_lock lock(state.regions_mutex);
  if (gpu == nullptr) {
    const auto region = host_region_of(state, std::get<HostMemory>(place));
    if (region.has_value()) view.place = *region;
    kept = region.has_value();
    return view;
  }
  const RegionEntry* region = find_region(state, *gpu);
  view.kind = region == nullptr ? AllocationKind::unknown : region->kind;
  if (region != nullptr) view.place = region->memory;
  kept = region != nullptr;
  return view;
}

/// A connection that ended after the places were checked: said as such, and not as a way that is
/// missing here.
void add_what_ended(SessionState& state, const PeerConnection& peer, std::uint32_t number,
                    Candidate& candidate) {
  const bool explained = first_unmet(candidate.assessment.findings) != Cause::none;
  if (candidate.assessment.usable || explained) return;
  std::optional<Error> ended = peer.error();
  if (!ended.has_value()) ended = state.providers.rdma->lost(number);
  if (!ended.has_value()) return;
  const Cause cause = ended->cause == Cause::none ? Cause::remote_peer_lost : ended->cause;
  candidate.assessment.findings.push_back(Finding{.cause = cause,
                                                  .subject = "connection",
                                                  .state = FindingState::unmet,
                                                  .observed = to_string(*ended),
                                                  .needed = "a connection that stands",
                                                  .remedy = std::string(remedy_of(*ended)),
                                                  .source = "the connection and its adapters"});
}

}  // namespace

std::vector<Candidate> rdma_candidates(SessionState& state, const RemoteMemory& remote,
                                       const Place& local, const Place& source,
                                       const Place& target) {
  PeerConnection* const peer = state.remotes->find(remote.peer);
  DeviceRef near{DeviceRef::Kind::host, 0};
  bool kept = false;
  const core::RegionView view = region_of(state, local, kept);
  if (const auto* gpu = std::get_if<GpuMemory>(&local)) {
    near = {DeviceRef::Kind::gpu, static_cast<std::uint16_t>(gpu->gpu)};
  }
  Candidate direct{.provider = ProviderKind::rdma, .carriage = Carriage::direct};
  if (peer == nullptr) return {direct};
  if (std::vector<Finding> unmet = peer->attach(remote.key, near); !unmet.empty()) {
    direct.assessment.findings = std::move(unmet);
    return {direct};
  }
  state.providers.rdma->prepare(remote.peer, view, kept);
  direct = assessed(state, ProviderKind::rdma, Carriage::direct, source, target);
  add_what_ended(state, *peer, remote.peer, direct);
  if (const auto* gpu = std::get_if<GpuMemory>(&local)) {
    judge_adapters(state, remote.peer, gpu->gpu, view.kind, direct);
  }
  return {direct};
}

Candidate drive_candidate(SessionState& state, const Place& source, const Place& target,
                          Link& link) {
  Candidate candidate = assessed(state, ProviderKind::nvme, Carriage::direct, source, target);
  add_belief(state, source, target, candidate);
  link = straight_link(state, source, target);
  const auto* from = std::get_if<GpuMemory>(&source);
  const auto* to = std::get_if<GpuMemory>(&target);
  const GpuMemory* gpu = from != nullptr ? from : to;
  if (gpu == nullptr) return candidate;
  const BlockRange& range = std::get<BlockRange>(from != nullptr ? target : source);
  const DeviceRef drive{DeviceRef::Kind::drive, static_cast<std::uint16_t>(range.drive)};
  judge::PathJudgement judged = judge::judge_path(state.machine, drive, gpu->gpu, {});
  for (Finding& finding : judged.findings) {
    // The drive's IOMMU is ours: what it must know, the mapping tells it.
    if (finding.cause == Cause::machine_iommu_translated ||
        finding.cause == Cause::machine_iommu_unknown)
      continue;
    if (finding.state == FindingState::unmet) candidate.assessment.usable = false;
    candidate.assessment.findings.push_back(std::move(finding));
  }
  candidate.degraded_causes = judged.degraded_causes;
  candidate.degraded = candidate.assessment.usable && !candidate.degraded_causes.empty();
  return candidate;
}

Link adapter_link(SessionState& state, std::uint32_t peer, const Place& local) {
  if (state.providers.rdma == nullptr) return Link::none;
  const std::vector<std::uint32_t> nics = state.providers.rdma->adapters(peer);
  if (nics.empty()) return Link::none;
  const DeviceRef adapter{DeviceRef::Kind::nic, static_cast<std::uint16_t>(nics.front())};
  DeviceRef memory{DeviceRef::Kind::host,
                   static_cast<std::uint16_t>(numa_of(state.machine, adapter))};
  if (const auto* gpu = std::get_if<GpuMemory>(&local)) {
    memory = {DeviceRef::Kind::gpu, static_cast<std::uint16_t>(gpu->gpu)};
  }
  return core::adapter_link(state.machine, nics.front(), memory);
}

/// Why a pair has no direct candidate at all, as a finding, so that the receipt can name it.
Candidate no_direct_candidate(const SessionState& state, const Place& source, const Place& target) {
  Candidate candidate{.provider = ProviderKind::peer,
                      .carriage = Carriage::direct,
                      .assessment = {},
                      .degraded = false};
  candidate.assessment.findings.push_back(
      Finding{.cause = Cause::staged_no_direct_provider,
              .subject = place_text(state, source) + " -> " + place_text(state, target),
              .state = FindingState::unmet,
              .observed = "this version has no provider that moves this pair directly",
              .needed = "a direct provider for the pair",
              .remedy = std::string(cause_row(Cause::staged_no_direct_provider).remedy),
              .source = "the session's list of providers"});
  return candidate;
}

}  // namespace nobounce::session
