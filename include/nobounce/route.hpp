// A route: the segments of one transfer, each with its provider, and every candidate that was not
// taken.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <nobounce/finding.hpp>
#include <nobounce/place.hpp>
#include <nobounce/words.hpp>

namespace nobounce {

enum class ProviderKind : std::uint8_t { storage, peer, rdma, nvme, host, staged };
[[nodiscard]] std::string_view to_string(ProviderKind kind);

/// A contiguous part of a transfer that one provider moves. Offsets are relative to the transfer.
struct Segment {
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
  Place source;
  Place target;
  ProviderKind provider = ProviderKind::staged;
  Carriage expected =
      Carriage::staged;  ///< what the provider intends; the completion says what happened
};

/// A provider's answer about a segment or a whole transfer: no score, never a bool alone.
struct Assessment {
  bool usable = false;
  std::vector<Finding> findings;  ///< every precondition judged, met or not
};

/// A provider that was considered.
struct Candidate {
  ProviderKind provider = ProviderKind::staged;
  Carriage carriage = Carriage::staged;
  Assessment assessment;
  bool degraded = false;               ///< usable, but slower than it should be
  std::vector<Cause> degraded_causes;  ///< why; empty unless degraded
};

struct Route {
  Member member = Member::host;
  Link link = Link::none;
  std::vector<Segment> segments;      ///< empty if refused
  std::vector<Candidate> candidates;  ///< all considered, chosen ones included
  std::vector<Cause> causes;  ///< why the best carriage was not chosen, or why it is degraded
  bool refused = false;       ///< the policy admits none of the usable candidates
  bool degraded = false;
};

}  // namespace nobounce
