// What cuFile's statistics prove of the requests in a window. Pure: counters in, attribution out.
#pragma once

#include <cstdint>
#include <optional>

#include <nobounce/receipt.hpp>

#include "system/cufile_types.hpp"

namespace nobounce::provider::storage {

/// Operations of one direction by path, summed over GPUs, as cuFileGetStatsL3 counts them: for the
/// whole process.
struct PathCounters {
  std::uint64_t p2p = 0;
  std::uint64_t nvfs = 0;
  std::uint64_t posix = 0;
  std::uint64_t rerouted = 0;   ///< dynamic routing: may go through system memory
  std::uint64_t unaligned = 0;  ///< counted beside the path: bounced inside the GPU
  bool operator==(const PathCounters&) const = default;
};

[[nodiscard]] PathCounters path_counters(const system::cufile::CUfileStatsLevel3_t& statistics,
                                         bool writing);

/// All requests between two readings of the counters. Nobody's request may be in flight at the
/// first reading.
struct Window {
  std::optional<PathCounters> before;  ///< empty: the statistics cannot be read
  std::optional<PathCounters> after;
  std::uint64_t requests = 0;  ///< of ours, that moved bytes and came back
  std::uint64_t bounced = 0;   ///< those of them known to be bounced inside the GPU
};

enum class WindowVerdict : std::uint8_t {
  direct,       ///< nobody's request was staged, and all of ours were counted on a direct path
  bounced,      ///< the same, but more were bounced inside the GPU than we know of
  staged,       ///< none went a direct path, and all of ours were counted as staged
  mixed,        ///< both happened, or a counter ran backwards: nobody can tell which was ours
  stuck,        ///< fewer were counted than came back
  unavailable,  ///< the statistics cannot be read
};

[[nodiscard]] WindowVerdict judge_window(const Window& window);

/// Bytes of requests by what they would be if they travelled directly.
struct WindowBytes {
  std::uint64_t aligned = 0;  ///< whole pages between the file and registered memory
  std::uint64_t bounced = 0;  ///< unaligned or to unregistered memory: one more copy in the GPU
};

struct Attribution {
  CarriageBytes bytes;
  Known known = Known::claimed;
  Cause cause = Cause::none;
};

/// What a receipt may say of these bytes. Without statistics nothing can be said, whatever the
/// configuration forbids: see docs/decisions/0004.
[[nodiscard]] Attribution attribute(WindowVerdict verdict, const WindowBytes& bytes);

/// Adds what was found in another window: bytes add up, knowledge is as strong as its weakest part,
/// and the first cause stays.
void add(Attribution& sum, const Attribution& part);

}  // namespace nobounce::provider::storage
