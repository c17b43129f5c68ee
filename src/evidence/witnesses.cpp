// Reads the witnesses of a host: memory controllers, GPU link counters, the nvidia-fs driver, CPU
// time.
#include <algorithm>
#include <string>

#include "evidence/kernel_counts.hpp"
#include "evidence/nvidia_fs_counts.hpp"
#include "evidence/witness.hpp"

namespace nobounce::evidence {
namespace {

constexpr double mebibyte = 1024.0 * 1024.0;

}  // namespace

Witnesses::Witnesses(system::Host& host, const system::CountedHost* counted)
    : host_(host), counted_(counted), links_(host) {
  Result<std::vector<std::string>> pmus = host.files().list("/sys/bus/event_source/devices");
  if (!pmus.ok()) return;
  for (const std::string& name : *pmus) {
    // Free-running counters of the same controllers would count every byte a second time.
    if (name.rfind("uncore_imc", 0) == 0 && name.find("free_running") == std::string::npos)
      dram_pmus_.push_back(name);
  }
}

WitnessReading Witnesses::read() {
  WitnessReading reading;
  const auto value = [&](WitnessKind kind) -> WitnessValue& {
    return reading.values[static_cast<std::size_t>(kind)];
  };
  reading.time_ns = host_.clock().now_ns();
  value(WitnessKind::cpu_time) = read_cpu();
  value(WitnessKind::host_dram) = read_dram();
  value(WitnessKind::gpu_pcie) = links_.pcie_bytes();
  value(WitnessKind::gpu_nvlink) = links_.nvlink_bytes();
  value(WitnessKind::nvidia_fs) = read_nvidia_fs();
  value(WitnessKind::cufile) = read_cufile();
  value(WitnessKind::drive) = read_drive();
  value(WitnessKind::page_cache) = read_page_cache();
  for (const WitnessKind kind :
       {WitnessKind::host_copies, WitnessKind::cpu_touched, WitnessKind::seam_calls}) {
    value(kind) =
        WitnessValue::none(Cause::evidence_seam_not_counted, "the session's host counts no calls");
  }
  if (counted_ != nullptr) {
    const system::SeamCounts counts = counted_->counts();
    value(WitnessKind::host_copies) =
        WitnessValue::counted(static_cast<double>(counts.host_copy_bytes));
    value(WitnessKind::cpu_touched) =
        WitnessValue::counted(static_cast<double>(counts.cpu_touched_bytes));
    value(WitnessKind::seam_calls) = WitnessValue::counted(static_cast<double>(counts.calls));
  }
  return reading;
}

WitnessValue Witnesses::read_cpu() {
  if (host_.kind() == HostKind::soft) {
    return WitnessValue::none(Cause::evidence_cpu_time_meaningless,
                              "a software machine's work is done by this process's CPU");
  }
  const Result<std::uint64_t> used = host_.counters().cpu_time_ns();
  if (!used.ok())
    return WitnessValue::none(Cause::evidence_cpu_time_unreadable, to_string(used.error()));
  return WitnessValue::counted(static_cast<double>(*used));
}

WitnessValue Witnesses::read_dram() {
  if (dram_pmus_.empty()) {
    return WitnessValue::none(Cause::evidence_dram_counters_absent,
                              "no uncore_imc device in /sys/bus/event_source/devices");
  }
  double bytes = 0;
  for (const std::string& pmu : dram_pmus_) {
    for (const char* event : {"cas_count_read", "cas_count_write"}) {
      const Result<double> mebibytes = host_.counters().perf_event(pmu, event);
      if (!mebibytes.ok())
        return WitnessValue::none(Cause::evidence_dram_counters_refused,
                                  to_string(mebibytes.error()));
      bytes += *mebibytes * mebibyte;
    }
  }
  return WitnessValue::counted(bytes);
}

WitnessValue Witnesses::read_nvidia_fs() {
  const Result<std::string> text = host_.files().read("/proc/driver/nvidia-fs/stats");
  if (!text.ok())
    return WitnessValue::none(Cause::evidence_nvidia_fs_counters_unavailable,
                              to_string(text.error()));
  const std::optional<std::uint64_t> operations = nvidia_fs_operations(*text);
  if (!operations.has_value()) {
    return WitnessValue::none(Cause::evidence_nvidia_fs_counters_unavailable,
                              "IO stats are disabled (rw_stats_enabled=0)");
  }
  return WitnessValue::counted(static_cast<double>(*operations));
}

WitnessValue Witnesses::read_drive() {
  const Cause cause = Cause::evidence_drive_counters_unreadable;
  if (drive_.empty()) return WitnessValue::none(cause, "no drive belongs to the row");
  const std::string path = "/sys/class/block/" + drive_ + "/stat";
  const Result<std::string> text = host_.files().read(path);
  if (!text.ok()) return WitnessValue::none(cause, to_string(text.error()));
  const std::optional<std::uint64_t> bytes = block_device_bytes(*text);
  if (!bytes.has_value()) return WitnessValue::none(cause, path + " is not of the known form");
  return WitnessValue::counted(static_cast<double>(*bytes));
}

WitnessValue Witnesses::read_page_cache() {
  const Cause cause = Cause::evidence_page_cache_unreadable;
  const Result<std::string> text = host_.files().read("/proc/meminfo");
  if (!text.ok()) return WitnessValue::none(cause, to_string(text.error()));
  const std::optional<std::uint64_t> bytes = page_cache_bytes(*text);
  if (!bytes.has_value()) return WitnessValue::none(cause, "/proc/meminfo has no Cached line");
  return WitnessValue::counted(static_cast<double>(*bytes));
}

WitnessValue Witnesses::read_cufile() {
  const Cause cause = Cause::evidence_cufile_statistics_unavailable;
  const Result<system::Cufile*> cufile = host_.cufile();
  if (!cufile.ok()) return WitnessValue::none(cause, to_string(cufile.error()));
  // To ask a library that nobody opened for statistics would open it.
  if ((*cufile)->use_count() <= 0) return WitnessValue::none(cause, "libcufile is not open");
  system::cufile::CUfileStatsLevel3_t statistics = {};
  const system::cufile::CUfileError_t answer = (*cufile)->get_stats_l3(&statistics);
  if (answer.err != system::cufile::success)
    return WitnessValue::none(cause, "cuFileGetStatsL3 answered " + std::to_string(answer.err));
  double direct = 0;
  for (std::uint32_t i = 0; i < std::min<std::uint32_t>(statistics.num_gpus, 16); ++i) {
    const system::cufile::CUfilePerGpuStats_t& gpu = statistics.per_gpu_stats[i];
    direct += static_cast<double>(gpu.n_p2p_reads + gpu.n_nvfs_reads + gpu.n_p2p_writes +
                                  gpu.n_nvfs_writes);
  }
  return WitnessValue::counted(direct);
}

}  // namespace nobounce::evidence
