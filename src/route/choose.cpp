// Chooses a route: which candidate the policy admits, how the transfer is cut, and why nothing
// better was taken.
#include "route/choose.hpp"

#include <algorithm>
#include <cassert>
#include <optional>
#include <variant>

namespace nobounce::route {
namespace {

bool is_direct(Carriage carriage) {
  return carriage == Carriage::direct || carriage == Carriage::device_bounced;
}

/// Candidates that the policy admits, best first, as indices into the request's list.
std::vector<std::size_t> admitted(const RouteRequest& request) {
  std::vector<std::size_t> direct;
  std::vector<std::size_t> staged;
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < request.candidates.size(); ++i) {
    const Carriage carriage = request.candidates[i].carriage;
    if (is_direct(carriage)) {
      direct.push_back(i);
    } else {
      others.push_back(i);
      if (carriage == Carriage::staged) staged.push_back(i);
    }
  }
  switch (request.policy) {
    case Policy::direct_required:
      return direct;
    case Policy::staged_only:
      return staged;
    case Policy::direct_preferred:
      break;
  }
  direct.insert(direct.end(), others.begin(), others.end());
  return direct;
}

/// Why a candidate cannot be used. A provider may refuse for something it could not find out.
Cause refusal_cause(const Candidate& candidate) {
  const Cause unmet = first_unmet(candidate.assessment.findings);
  if (unmet != Cause::none) return unmet;
  for (const Finding& finding : candidate.assessment.findings) {
    if (finding.state == FindingState::unknown && finding.cause != Cause::none)
      return finding.cause;
  }
  return Cause::staged_no_direct_provider;
}

/// Adapters are refused for each way that failed; others for what stands first.
std::vector<Cause> refusal_causes(const Candidate& candidate) {
  std::vector<Cause> causes;
  if (candidate.provider == ProviderKind::rdma) {
    for (const Finding& finding : candidate.assessment.findings) {
      if (finding.state == FindingState::unmet) causes.push_back(finding.cause);
    }
  }
  if (causes.empty()) causes.push_back(refusal_cause(candidate));
  return causes;
}

void add_cause(std::vector<Cause>& causes, Cause cause) {
  if (std::find(causes.begin(), causes.end(), cause) == causes.end()) causes.push_back(cause);
}

std::optional<std::uint64_t> storage_offset(const Place& place) {
  if (const auto* file = std::get_if<FileRange>(&place)) return file->offset.value;
  if (const auto* block = std::get_if<BlockRange>(&place)) return block->offset.value;
  return std::nullopt;
}

std::optional<std::uint64_t> device_address(const Place& place) {
  if (const auto* gpu = std::get_if<GpuMemory>(&place)) return gpu->address.value;
  return std::nullopt;
}

/// The two positions whose alignment decides, where the pair is storage and GPU memory.
struct Positions {
  std::uint64_t storage = 0;
  std::uint64_t device = 0;
};

std::optional<Positions> storage_positions(const Place& source, const Place& target) {
  const auto offset =
      storage_offset(source).has_value() ? storage_offset(source) : storage_offset(target);
  const auto address =
      device_address(source).has_value() ? device_address(source) : device_address(target);
  if (!offset.has_value() || !address.has_value()) return std::nullopt;
  return Positions{*offset, *address};
}

class Cutter {
 public:
  Cutter(const RouteRequest& request, const Candidate& chosen, Route& route)
      : request_(request), chosen_(chosen), route_(route), length_(length_bytes(request.source)) {}

  void cut() {
    const auto positions = storage_positions(request_.source, request_.target);
    const std::uint64_t alignment = request_.storage_alignment_bytes;
    const bool whole = chosen_.provider != ProviderKind::storage ||
                       chosen_.carriage != Carriage::direct || length_ == 0 || alignment < 2 ||
                       !positions.has_value();
    if (whole) {
      add(0, length_, chosen_.carriage);
    } else if (positions->storage % alignment != positions->device % alignment) {
      add(0, length_, Carriage::device_bounced);
      add_cause(route_.causes, Cause::storage_unaligned);
    } else {
      cut_aligned(positions->storage, alignment);
    }
  }

 private:
  void cut_aligned(std::uint64_t position, std::uint64_t alignment) {
    const std::uint64_t head = std::min(length_, (alignment - position % alignment) % alignment);
    const std::uint64_t body = (length_ - head) / alignment * alignment;
    if (body == 0) {
      // Head and tail would adjoin: one request is enough.
      add(0, length_, Carriage::device_bounced);
      return;
    }
    const std::uint64_t tail = length_ - head - body;
    if (head != 0) add(0, head, Carriage::device_bounced);
    add(head, body, Carriage::direct);
    if (tail != 0) add(head + body, tail, Carriage::device_bounced);
  }

  void add(std::uint64_t offset, std::uint64_t length, Carriage expected) {
    Segment segment;
    segment.offset_bytes = offset;
    segment.length_bytes = length;
    segment.source = part_of(request_.source, offset, length);
    segment.target = part_of(request_.target, offset, length);
    segment.provider = chosen_.provider;
    segment.expected = expected;
    route_.segments.push_back(segment);
  }

  const RouteRequest& request_;
  const Candidate& chosen_;
  Route& route_;
  std::uint64_t length_;
};

/// Says why the best carriage is not the one taken, most important first. Empty where it is.
void explain(const RouteRequest& request, const std::vector<Cause>& rejected,
             const Candidate* chosen, std::vector<Cause>& causes) {
  for (const Cause cause : rejected) add_cause(causes, cause);
  const bool direct = chosen != nullptr && is_direct(chosen->carriage);
  // Nothing was rejected, yet nothing direct was taken: nobody offered it.
  if (!direct && causes.empty() && request.policy != Policy::staged_only) {
    add_cause(causes, Cause::staged_no_direct_provider);
  }
  if (chosen != nullptr && chosen->degraded) {
    for (const Cause cause : chosen->degraded_causes) add_cause(causes, cause);
  }
  if (request.policy == Policy::staged_only) add_cause(causes, Cause::policy_staged_only);
  if (request.policy == Policy::direct_required && chosen == nullptr) {
    add_cause(causes, Cause::policy_direct_required);
  }
}

}  // namespace

Route choose_route(const RouteRequest& request) {
  assert(length_bytes(request.source) == length_bytes(request.target));
  Route route;
  route.member = member_of(request.source, request.target);
  route.candidates = request.candidates;

  const Candidate* chosen = nullptr;
  std::vector<Cause> rejected;
  for (const std::size_t index : admitted(request)) {
    const Candidate& candidate = request.candidates[index];
    if (candidate.assessment.usable) {
      chosen = &candidate;
      break;
    }
    for (const Cause cause : refusal_causes(candidate)) rejected.push_back(cause);
  }

  explain(request, rejected, chosen, route.causes);
  if (chosen == nullptr) {
    route.refused = true;
    return route;
  }
  route.degraded = chosen->degraded;
  route.link = is_direct(chosen->carriage) ? request.direct_link : request.staged_link;
  Cutter(request, *chosen, route).cut();
  return route;
}

}  // namespace nobounce::route
