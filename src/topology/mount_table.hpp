// The mounts of a host that a path can end in.
#pragma once

#include <vector>

#include "core/mount_table.hpp"
#include "system/files.hpp"

namespace nobounce::topology {

/// /proc/self/mountinfo: the last mount of each point, without what lies inside kernel-made trees.
[[nodiscard]] std::vector<core::MountLine> read_mount_table(system::Files& files);

}  // namespace nobounce::topology
