// (places, candidates with findings, policy) -> Route. Pure: no host, no I/O, same answer for the
// same values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <nobounce/place.hpp>
#include <nobounce/route.hpp>
#include "core/inline_list.hpp"

namespace nobounce::route {

struct RouteRequest {
  Place source;
  Place target;
  Policy policy = Policy::direct_preferred;
  Link direct_link = Link::none;                 ///< what a direct transfer would travel over
  Link staged_link = Link::host_bridge;          ///< what a staged one would
  std::uint64_t storage_alignment_bytes = 4096;  ///< of file offset, device address and length
  std::vector<Candidate> candidates;  ///< direct ones first, in order of preference; staged last
};

/// Direct candidates come first where the policy admits them; storage is cut into an aligned body
/// (direct) and head and tail (device_bounced) where file offset and device address are congruent
/// modulo the alignment, else all of it is device_bounced. A transfer of zero bytes has one empty
/// segment of the chosen provider. Nothing usable, or nothing the policy admits: `refused`, with
/// the causes.
[[nodiscard]] Route choose_route(const RouteRequest& request);

/// The part of a route that all transfers between the same devices and kinds of memory share.
struct Choice {
  Route route;                        ///< without segments
  std::optional<std::size_t> chosen;  ///< of the route's candidates; empty: refused
};
[[nodiscard]] Choice choose(const RouteRequest& request);

/// How one transfer is cut. Allocates nothing.
struct Cut {
  core::InlineList<Segment, 3> segments;
  bool unaligned = false;  ///< a cause of its own: storage.unaligned
};
[[nodiscard]] Cut cut(const Place& source, const Place& target, ProviderKind provider,
                      Carriage carriage, std::uint64_t storage_alignment_bytes);

}  // namespace nobounce::route
