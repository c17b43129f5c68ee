// The oracle: looks for a transfer's payload in this process's own memory. It shares no code with
// the ledger, and believes nothing but what it sees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fabric/soft_host.hpp"

namespace nobounce::fabric {

struct SweepHit {
  std::uint64_t address = 0;
  std::uint64_t payload_offset = 0;  ///< of the 64-byte window that lies there
  std::string mapping;               ///< its line in /proc/self/maps
};

struct SweepResult {
  std::uint64_t found = 0;        ///< windows of the payload seen, each place counted
  std::uint64_t swept_bytes = 0;  ///< of resident memory looked through
  std::uint64_t windows = 0;      ///< looked for; 0: the payload is too short or too plain to tell
  std::vector<SweepHit> hits;     ///< the first 16
};

/// Looks for a handful of 64-byte windows of `payload` (random bytes, at least 64) at any alignment
/// in all resident writable memory of this process: heap, stacks, shared mappings, also freed heap
/// blocks. Left out: the payload, `excluded`, what is the oracle's own, and mappings above 64 GiB
/// (shadows of sanitizers).
[[nodiscard]] SweepResult sweep_process(std::span<const std::byte> payload,
                                        const std::vector<std::span<const std::byte>>& excluded);

/// The same, with the GPU memory of a software machine left out: bytes in there have arrived.
[[nodiscard]] SweepResult sweep_for(std::span<const std::byte> payload,
                                    std::vector<std::span<const std::byte>> excluded,
                                    SoftHost& host);

}  // namespace nobounce::fabric
