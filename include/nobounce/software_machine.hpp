// A software machine: GPUs, drives, switches and drivers as a model that keeps a byte ledger. It
// says what it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nobounce/host.hpp>
#include <nobounce/machine.hpp>
#include <nobounce/result.hpp>

namespace nobounce {

struct SoftwareMachineOptions {
  bool deterministic = false;  ///< one thread, seeded order; otherwise real threads
  std::uint64_t seed = 1;
};

/// Names of the machines built in: workstation, dgx, two-socket, cloud-guest, nvmeof, nfs-rdma,
/// spare-drive.
[[nodiscard]] std::vector<std::string> software_machine_names();

/// The description of a built-in machine. Origin input; the error lists the names there are.
[[nodiscard]] Result<Machine> software_machine_description(std::string_view name);

/// A running software machine of that description. User files are this machine's real files.
[[nodiscard]] Result<HostPointer> software_machine(const Machine& machine,
                                                   const SoftwareMachineOptions& options = {});

}  // namespace nobounce
