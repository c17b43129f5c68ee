// What a machine is and what is known of it before anything is moved: the base of check, record and
// diff.
#pragma once

#include <string>
#include <vector>

#include <nobounce/machine.hpp>
#include <nobounce/result.hpp>
#include "cli/arguments.hpp"
#include "cli/exit_code.hpp"
#include "core/facts.hpp"
#include "report/check_report.hpp"
#include "system/host.hpp"

namespace nobounce::cli {

struct Survey {
  Machine machine;
  core::HostFacts facts;
};

/// Starts the CUDA driver where there is one, and creates no context.
[[nodiscard]] Result<Survey> survey(system::Host& host);

/// Every row that the arguments ask for; on a machine without GPUs one row that says so.
[[nodiscard]] Attempt<std::vector<report::CheckRow>> check_rows(system::Host& host,
                                                                const Survey& surveyed,
                                                                const CheckArguments& arguments);

/// What concerns the whole machine: what needs root, the configuration of libcufile, libraries.
[[nodiscard]] std::vector<report::CheckNote> check_notes(const Survey& surveyed);

/// A file that would be created in a directory that is asked about.
[[nodiscard]] std::string inside(const std::string& directory, const std::string& name);
inline constexpr const char* new_file_name = ".nobounce-check";

}  // namespace nobounce::cli
