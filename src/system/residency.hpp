// How much of a file lies in the page cache.
#pragma once

#include <cstdint>

#include <nobounce/result.hpp>

namespace nobounce::system {

/// Bytes of the range that are resident, by cachestat (Linux 6.5) or mincore. EPERM where the
/// kernel would not tell the truth to this user.
[[nodiscard]] Result<std::uint64_t> resident_file_bytes(int file, std::uint64_t offset,
                                                        std::uint64_t length_bytes);

}  // namespace nobounce::system
