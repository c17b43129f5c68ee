// Taking a recording of a machine.
#pragma once

#include <string>

#include <nobounce/result.hpp>
#include "recording/recording.hpp"
#include "system/host.hpp"

namespace nobounce::cli {

/// All that check, topo and diff read, without what says whose machine it is.
[[nodiscard]] Result<recording::Recording> record_machine(system::Host& host,
                                                          const std::string& name);

}  // namespace nobounce::cli
