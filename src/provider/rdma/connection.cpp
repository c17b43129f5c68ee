// Finding things in a connection.
#include "provider/rdma/connection.hpp"

#include <algorithm>

namespace nobounce::provider::rdma {

std::uint64_t address_of(const Place& place) {
  if (const auto* gpu = std::get_if<GpuMemory>(&place)) return gpu->address.value;
  if (const auto* host = std::get_if<HostMemory>(&place)) {
    return reinterpret_cast<std::uintptr_t>(host->address);
  }
  return 0;
}

void Connection::note(const std::vector<Finding>& found) {
  for (const Finding& each : found) {
    if (std::find(findings.begin(), findings.end(), each) != findings.end()) continue;
    if (findings.size() >= findings_max) findings.erase(findings.begin());
    findings.push_back(each);
  }
}

const Connection::Local* Connection::local_of(const Place& place) const {
  const std::uint64_t begin = address_of(place);
  const std::uint64_t length = length_bytes(place);
  // Memory within other memory may be known by itself: the nearest start need not hold all of it.
  for (auto at = locals.upper_bound(begin); at != locals.begin();) {
    const Local& candidate = (--at)->second;
    if (candidate.region.place.index() != place.index()) continue;
    const std::uint64_t inside = begin - address_of(candidate.region.place);
    const std::uint64_t whole = nobounce::length_bytes(candidate.region.place);
    if (inside <= whole && length <= whole - inside) return &candidate;
  }
  return nullptr;
}

}  // namespace nobounce::provider::rdma
