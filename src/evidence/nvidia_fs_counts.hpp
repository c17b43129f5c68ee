// Operation counts out of /proc/driver/nvidia-fs/stats. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace nobounce::evidence {

/// Completed reads plus writes (`Reads : n=`, `Writes : n=`); nothing where the text has no such
/// counts, as with IO stats disabled.
[[nodiscard]] std::optional<std::uint64_t> nvidia_fs_operations(std::string_view text);

}  // namespace nobounce::evidence
