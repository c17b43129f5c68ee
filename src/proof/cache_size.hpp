// The size of the last-level cache, in which a small bounce ring hides from memory controllers.
#pragma once

#include <cstdint>
#include <optional>

#include "system/files.hpp"

namespace nobounce::proof {

/// The largest cache of the first CPU, from /sys/devices/system/cpu/cpu0/cache; nothing where the
/// kernel does not say.
[[nodiscard]] std::optional<std::uint64_t> last_level_cache_bytes(system::Files& files);

}  // namespace nobounce::proof
