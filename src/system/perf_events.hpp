// Perf events by the names that the kernel gives them under /sys/bus/event_source/devices.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nobounce/result.hpp>
#include "system/files.hpp"

namespace nobounce::system {

/// What perf_event_open has to be told for one event of one PMU.
struct PerfEventSpec {
  std::string pmu;
  std::uint32_t type = 0;
  std::uint64_t config[3] = {0, 0, 0};
  double scale = 1.0;
  std::vector<int> cpus;  ///< of a PMU outside the cores; empty: counts this process
};

/// The PMUs that a name stands for: itself, or, where it ends in `*`, all that begin so
/// (`uncore_imc_*`). Origin os, ENOENT where there is none.
[[nodiscard]] Result<std::vector<std::string>> perf_pmus(Files& files, std::string_view pmu);

/// Reads type, format, scale and CPUs of the PMU. `event` is a name in its events folder, or terms
/// as perf writes them (`event=0x04,umask=0x03`, `config=1`).
[[nodiscard]] Result<PerfEventSpec> perf_event_spec(Files& files, const std::string& pmu,
                                                    std::string_view event);

}  // namespace nobounce::system
