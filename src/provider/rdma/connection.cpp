// Finding things in a connection.
#include "provider/rdma/connection.hpp"

namespace nobounce::provider::rdma {

std::uint64_t address_of(const Place& place) {
  if (const auto* gpu = std::get_if<GpuMemory>(&place)) return gpu->address.value;
  if (const auto* host = std::get_if<HostMemory>(&place)) {
    return reinterpret_cast<std::uintptr_t>(host->address);
  }
  return 0;
}

const Connection::Local* Connection::local_of(const Place& place) const {
  const std::uint64_t begin = address_of(place);
  const std::uint64_t length = length_bytes(place);
  const auto next = locals.upper_bound(begin);
  if (next == locals.begin()) return nullptr;
  const Local& candidate = std::prev(next)->second;
  if (candidate.region.place.index() != place.index()) return nullptr;
  const std::uint64_t inside = begin - address_of(candidate.region.place);
  const std::uint64_t whole = nobounce::length_bytes(candidate.region.place);
  return inside <= whole && length <= whole - inside ? &candidate : nullptr;
}

}  // namespace nobounce::provider::rdma
