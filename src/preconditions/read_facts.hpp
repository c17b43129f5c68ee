// Host -> facts that can make a member impossible: libraries, modules, mounts, udev, counters,
// environment.
#pragma once

#include <optional>
#include <string_view>

#include <nobounce/machine.hpp>
#include "core/facts.hpp"
#include "system/host.hpp"

namespace nobounce::preconditions {

/// Opens no driver and creates no context: loads libcufile and NVML at most. `cuda` attributes are
/// read only where the driver is already initialised by the caller (`may_ask_cuda`).
[[nodiscard]] core::HostFacts read_host_facts(system::Host& host, const Machine& machine,
                                              bool may_ask_cuda);

/// Facts about one path. A path that does not exist yet is judged by its directory, or by the
/// machine's description where the mount point itself is missing (software machines). Opens the
/// file read-only with O_DIRECT to see whether that works, and closes it. Origin os where the path
/// cannot be looked at.
[[nodiscard]] Result<core::StorageFileFacts> read_file_facts(system::Host& host,
                                                             const Machine& machine,
                                                             std::string_view path);

}  // namespace nobounce::preconditions
