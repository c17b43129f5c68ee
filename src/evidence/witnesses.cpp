// Reads the witnesses of a host: memory controllers, GPU link counters, the nvidia-fs driver, CPU
// time.
#include <charconv>
#include <string>
#include <utility>

#include "evidence/nvidia_fs_counts.hpp"
#include "evidence/witness.hpp"

namespace nobounce::evidence {
namespace {

constexpr double mebibyte = 1024.0 * 1024.0;
constexpr double kibibyte = 1024.0;
constexpr std::uint64_t wrap_gap_max_ns =
    60'000'000;  // 4 GiB pass in 78 ms at 55 GB/s (measured on an H200)

WitnessValue unreadable(Cause cause, std::string detail) {
  WitnessValue value;
  value.unreadable = cause;
  value.detail = std::move(detail);
  return value;
}

WitnessValue counted(double number) {
  WitnessValue value;
  value.value = number;
  return value;
}

}  // namespace

Witnesses::Witnesses(system::Host& host, const Machine& machine) : host_(host), machine_(machine) {
  pcie_.resize(machine.gpus.size() * 2);
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
  reading.time_ns = host_.clock().now_ns();
  auto& cpu = reading.values[static_cast<std::size_t>(WitnessKind::cpu_time)];
  if (host_.kind() == HostKind::soft) {
    cpu = unreadable(Cause::evidence_cpu_time_meaningless,
                     "a software machine's work is done by this process's CPU");
  } else if (const Result<std::uint64_t> used = host_.counters().cpu_time_ns(); used.ok()) {
    cpu = counted(static_cast<double>(*used));
  } else {
    cpu = unreadable(Cause::evidence_cpu_time_unreadable, to_string(used.error()));
  }
  reading.values[static_cast<std::size_t>(WitnessKind::host_dram)] = read_dram();
  reading.values[static_cast<std::size_t>(WitnessKind::gpu_pcie)] =
      read_fields(system::nvml::field_pcie_count_tx_bytes, system::nvml::field_pcie_count_rx_bytes,
                  1, true, reading.time_ns);
  reading.values[static_cast<std::size_t>(WitnessKind::gpu_nvlink)] =
      read_fields(system::nvml::field_nvlink_throughput_data_tx,
                  system::nvml::field_nvlink_throughput_data_rx, kibibyte, false, reading.time_ns);
  reading.values[static_cast<std::size_t>(WitnessKind::nvidia_fs)] = read_nvidia_fs();
  return reading;
}

WitnessValue Witnesses::read_dram() {
  if (dram_pmus_.empty()) {
    return unreadable(Cause::evidence_dram_counters_absent,
                      "no uncore_imc device in /sys/bus/event_source/devices");
  }
  double bytes = 0;
  for (const std::string& pmu : dram_pmus_) {
    for (const char* event : {"cas_count_read", "cas_count_write"}) {
      const Result<double> mebibytes = host_.counters().perf_event(pmu, event);
      if (!mebibytes.ok())
        return unreadable(Cause::evidence_dram_counters_refused, to_string(mebibytes.error()));
      bytes += *mebibytes * mebibyte;
    }
  }
  return counted(bytes);
}

WitnessValue Witnesses::read_fields(unsigned first, unsigned second, double unit_bytes, bool wraps,
                                    std::uint64_t now_ns) {
  Result<system::Nvml*> nvml = host_.nvml();
  if (!nvml.ok())
    return unreadable(Cause::evidence_gpu_counters_unreadable, to_string(nvml.error()));
  if (const int code = (*nvml)->init(); code != system::nvml::success) {
    return unreadable(Cause::evidence_gpu_counters_unreadable,
                      "nvmlInit answered " + std::to_string(code));
  }
  double bytes = 0;
  bool void_reading = false;
  for (std::size_t gpu = 0; gpu < machine_.gpus.size(); ++gpu) {
    system::nvml::nvmlDevice_t device = nullptr;
    int code = (*nvml)->device_get_handle_by_index(static_cast<unsigned>(gpu), &device);
    system::nvml::nvmlFieldValue_t fields[2] = {};
    fields[0].fieldId = first;
    fields[1].fieldId = second;
    if (code == system::nvml::success) code = (*nvml)->device_get_field_values(device, 2, fields);
    for (std::size_t i = 0; i < 2; ++i) {
      if (code != system::nvml::success || fields[i].nvmlReturn != system::nvml::success) {
        return unreadable(Cause::evidence_gpu_counters_unreadable,
                          "NVML field " + std::to_string(fields[i].fieldId) +
                              " of gpu:" + std::to_string(gpu) + " answered " +
                              std::to_string(code != 0 ? code : fields[i].nvmlReturn));
      }
      const std::uint64_t raw = fields[i].value.ullVal;
      if (!wraps) {
        bytes += static_cast<double>(raw) * unit_bytes;
        continue;
      }
      Unwrapped& counter = pcie_[gpu * 2 + i];
      const auto now = static_cast<std::uint32_t>(raw);
      if (counter.started) {
        counter.total += static_cast<double>(
            static_cast<std::uint32_t>(now - static_cast<std::uint32_t>(counter.last)));
        void_reading = void_reading || now_ns - pcie_read_ns_ > wrap_gap_max_ns;
      }
      counter.started = true;
      counter.last = now;
      bytes += counter.total * unit_bytes;
    }
  }
  if (wraps) pcie_read_ns_ = now_ns;
  if (void_reading && host_.kind() == HostKind::live) {
    return unreadable(Cause::evidence_gpu_counters_gap,
                      "the 32-bit counters may have wrapped since the last reading");
  }
  return counted(bytes);
}

WitnessValue Witnesses::read_nvidia_fs() {
  const Result<std::string> text = host_.files().read("/proc/driver/nvidia-fs/stats");
  if (!text.ok())
    return unreadable(Cause::evidence_nvidia_fs_counters_unavailable, to_string(text.error()));
  const std::optional<std::uint64_t> operations = nvidia_fs_operations(*text);
  if (!operations.has_value()) {
    return unreadable(Cause::evidence_nvidia_fs_counters_unavailable,
                      "IO stats are disabled (rw_stats_enabled=0)");
  }
  return counted(static_cast<double>(*operations));
}

}  // namespace nobounce::evidence
