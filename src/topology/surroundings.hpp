// What this process may do, where it runs, and what is installed around it.
#pragma once

#include <map>
#include <string>

#include <nobounce/machine.hpp>
#include "system/host.hpp"

namespace nobounce::topology {

[[nodiscard]] ContainerFacts read_container(system::Files& files);

[[nodiscard]] ProcessFacts read_process(system::Files& files);

/// Versions and parameters of modules that concern transfers.
void read_module_details(system::Files& files, ModuleFacts& modules);

/// Versions of NCCL and UCX where their files tell.
[[nodiscard]] std::map<std::string, std::string> read_libraries(system::Files& files);

/// What the effective cufile.json sets so that libcufile stages.
[[nodiscard]] std::map<std::string, std::string> read_cufile_settings(system::Host& host);

}  // namespace nobounce::topology
