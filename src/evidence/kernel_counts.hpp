// Counters out of the kernel's text files. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace nobounce::evidence {

/// Bytes read and written by a block device, out of its `stat` file (sectors of 512 bytes whatever
/// the device's own; Documentation/block/stat.rst). Nothing where the text is not of that form.
[[nodiscard]] std::optional<std::uint64_t> block_device_bytes(std::string_view stat);

/// Bytes of file pages in memory, out of /proc/meminfo (`Cached:`, kB). Nothing where it has none.
[[nodiscard]] std::optional<std::uint64_t> page_cache_bytes(std::string_view meminfo);

}  // namespace nobounce::evidence
