// What stands behind a Region, and what the driver says of a pointer.
#pragma once

#include <cstdint>

#include <nobounce/region.hpp>
#include "session/session_state.hpp"

namespace nobounce::session {

struct RegionState {
  RegionState(SessionState& owner, Place covered, AllocationKind memory_kind);
  ~RegionState();
  RegionState(const RegionState&) = delete;
  RegionState& operator=(const RegionState&) = delete;

  /// Whether a server offers it to peers.
  [[nodiscard]] bool exported() const;

  SessionState& session;
  Place place;
  AllocationKind kind;
  bool owns_gpu = false;
  system::HostBuffer owned_host;
};

struct PointerFacts {
  std::uint32_t gpu = 0;
  AllocationKind kind = AllocationKind::unknown;
  std::uint64_t range_start = 0;
  std::uint64_t range_bytes = 0;  ///< 0: the driver does not say
};

/// Asks the driver what a pointer is. Origin cuda with cause memory.kind_unknown where it does not
/// know it.
[[nodiscard]] Result<PointerFacts> ask_pointer(SessionState& state, DevicePointer address);

/// How far virtual memory mappings that their own GPU reaches go on from an address, at least
/// `length_bytes` where they do.
[[nodiscard]] Result<std::uint64_t> mapped_bytes(SessionState& state, std::uint32_t gpu,
                                                 DevicePointer address, std::uint64_t length_bytes);

}  // namespace nobounce::session
