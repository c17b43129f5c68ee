// Segments between memory of this process and memory of a peer.
#pragma once

#include <variant>

#include <nobounce/place.hpp>
#include <nobounce/route.hpp>

namespace nobounce::core {

/// Whether it is memory of this process.
[[nodiscard]] inline bool is_memory_here(const Place& place) {
  return std::holds_alternative<GpuMemory>(place) || std::holds_alternative<HostMemory>(place);
}

/// The peer's memory of a segment whose other end is memory of this process; null of all others.
[[nodiscard]] inline const RemoteMemory* peer_memory_of(const Segment& segment) {
  const auto* source = std::get_if<RemoteMemory>(&segment.source);
  if (source != nullptr) return is_memory_here(segment.target) ? source : nullptr;
  const auto* target = std::get_if<RemoteMemory>(&segment.target);
  return target != nullptr && is_memory_here(segment.source) ? target : nullptr;
}

/// The end that is not the peer's.
[[nodiscard]] inline const Place& own_end_of(const Segment& segment) {
  return std::holds_alternative<RemoteMemory>(segment.target) ? segment.source : segment.target;
}

}  // namespace nobounce::core
