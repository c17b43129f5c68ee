// Chooses a route: which candidate the policy admits, how the transfer is cut, and why nothing
// better was taken.
#include "route/choose.hpp"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>
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
  Cutter(const Place& source, const Place& target, ProviderKind provider, Carriage carriage)
      : source_(source),
        target_(target),
        provider_(provider),
        carriage_(carriage),
        length_(length_bytes(source)) {}

  Cut cut(std::uint64_t alignment) {
    const auto positions = storage_positions(source_, target_);
    const bool whole = provider_ != ProviderKind::storage || carriage_ != Carriage::direct ||
                       length_ == 0 || alignment < 2 || !positions.has_value();
    if (whole) {
      add(0, length_, carriage_);
    } else if (positions->storage % alignment != positions->device % alignment) {
      add(0, length_, Carriage::device_bounced);
      cut_.unaligned = true;
    } else {
      cut_aligned(positions->storage, alignment);
    }
    return cut_;
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
    cut_.segments.push_back(Segment{.offset_bytes = offset,
                                    .length_bytes = length,
                                    .source = part_of(source_, offset, length),
                                    .target = part_of(target_, offset, length),
                                    .provider = provider_,
                                    .expected = expected});
  }

  const Place& source_;
  const Place& target_;
  ProviderKind provider_;
  Carriage carriage_;
  std::uint64_t length_;
  Cut cut_;
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

Choice choose(const RouteRequest& request) {
  assert(length_bytes(request.source) == length_bytes(request.target));
  Choice choice;
  Route& route = choice.route;
  route.member = member_of(request.source, request.target);
  route.candidates = request.candidates;

  const Candidate* chosen = nullptr;
  std::vector<Cause> rejected;
  for (const std::size_t index : admitted(request)) {
    const Candidate& candidate = request.candidates[index];
    if (candidate.assessment.usable) {
      chosen = &candidate;
      choice.chosen = index;
      break;
    }
    for (const Cause cause : refusal_causes(candidate)) rejected.push_back(cause);
  }

  explain(request, rejected, chosen, route.causes);
  if (chosen == nullptr) {
    route.refused = true;
    return choice;
  }
  route.degraded = chosen->degraded;
  route.link = is_direct(chosen->carriage) ? request.direct_link : request.staged_link;
  return choice;
}

Cut cut(const Place& source, const Place& target, ProviderKind provider, Carriage carriage,
        std::uint64_t storage_alignment_bytes) {
  return Cutter(source, target, provider, carriage).cut(storage_alignment_bytes);
}

Route choose_route(const RouteRequest& request) {
  Choice choice = choose(request);
  if (!choice.chosen.has_value()) return std::move(choice.route);
  const Candidate& chosen = request.candidates[*choice.chosen];
  const Cut parts = cut(request.source, request.target, chosen.provider, chosen.carriage,
                        request.storage_alignment_bytes);
  choice.route.segments.assign(parts.segments.begin(), parts.segments.end());
  if (parts.unaligned) add_cause(choice.route.causes, Cause::storage_unaligned);
  return std::move(choice.route);
}

}  // namespace nobounce::route
