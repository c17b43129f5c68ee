// From `--machine` and `--set` to a host. Nothing is substituted: live unless told otherwise.
#pragma once

#include <string>

#include <nobounce/host.hpp>
#include "cli/arguments.hpp"
#include "cli/exit_code.hpp"
#include "fabric/soft_host.hpp"
#include "report/machine_label.hpp"

namespace nobounce::cli {

struct OpenMachine {
  HostPointer host;
  fabric::SoftHost* soft = nullptr;  ///< the same host, where it is a software machine
  report::MachineLabel label;
};

/// `live` must outlive the call: files are read through it.
[[nodiscard]] Attempt<OpenMachine> open_machine(const MachineSelection& selection,
                                                system::Host& live);

/// Why a command that moves bytes does not, given a recording.
[[nodiscard]] Problem recording_moves_nothing(const std::string& machine);

}  // namespace nobounce::cli
