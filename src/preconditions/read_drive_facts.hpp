// Host -> facts about a drive that somebody wants to own.
#pragma once

#include <string_view>

#include "core/drive_facts.hpp"
#include "system/files.hpp"

namespace nobounce::preconditions {

/// Looks at the function and at every block device behind it, partitions too. What cannot be read
/// counts as in use: a drive is taken only where nothing speaks against it.
[[nodiscard]] core::DriveFacts read_drive_facts(system::Files& files, std::string_view bdf);

}  // namespace nobounce::preconditions
