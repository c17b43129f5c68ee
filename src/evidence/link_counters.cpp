// Reads and unwraps the link counters.
#include "evidence/link_counters.hpp"

#include <utility>

namespace nobounce::evidence {
namespace {

constexpr std::uint64_t sample_interval_ns = 15'000'000;
constexpr std::uint64_t wrap_gap_max_ns = 60'000'000;  // 4 GiB pass in 78 ms at 55 GB/s
constexpr double kibibyte = 1024.0;

}  // namespace

LinkCounters::~LinkCounters() {
  stop();
  const std::lock_guard lock(mutex_);
  if (!initialised_) return;
  if (const Result<system::Nvml*> nvml = host_.nvml(); nvml.ok()) (void)(*nvml)->shutdown();
}

void LinkCounters::stop() {
  if (!sampling_) return;
  host_.workers().stop(worker_);
  sampling_ = false;
}

void LinkCounters::watch(std::vector<std::uint32_t> gpus) {
  stop();
  bool readable = false;
  {
    const std::lock_guard lock(mutex_);
    gpus_ = std::move(gpus);
    pcie_.assign(gpus_.size() * 2, {});
    pcie_bytes_ = 0;
    sampled_ns_ = 0;
    gaps_ = 0;
    readable = !gpus_.empty() && sample().value.has_value();
  }
  if (!readable || host_.kind() != HostKind::live) return;
  const Result<system::WorkerId> started = host_.workers().start(*this, "link counters");
  // Without it readings that lie too far apart are void, and say so.
  if (!started.ok()) return;
  worker_ = *started;
  sampling_ = true;
}

system::Step LinkCounters::step() {
  const std::lock_guard lock(mutex_);
  if (!sample().value.has_value()) return system::Step::done();
  return system::Step::idle_until(sampled_ns_ + sample_interval_ns);
}

LinkCounters::Fields LinkCounters::read(std::uint32_t gpu, unsigned first, unsigned second,
                                        int count) {
  const auto failure = [](std::string detail) {
    Fields fields;
    fields.failed = WitnessValue::none(Cause::evidence_gpu_counters_unreadable, std::move(detail));
    return fields;
  };
  const Result<system::Nvml*> nvml = host_.nvml();
  if (!nvml.ok()) return failure(to_string(nvml.error()));
  if (!initialised_) {
    if (const int code = (*nvml)->init(); code != system::nvml::success)
      return failure("nvmlInit answered " + std::to_string(code));
    initialised_ = true;
  }
  system::nvml::nvmlDevice_t device = nullptr;
  int code = (*nvml)->device_get_handle_by_index(gpu, &device);
  system::nvml::nvmlFieldValue_t values[2] = {};
  values[0].fieldId = first;
  values[1].fieldId = second;
  for (auto& value : values) value.scopeId = system::nvml::scope_all_links;
  if (code == system::nvml::success) code = (*nvml)->device_get_field_values(device, count, values);
  Fields fields;
  for (int i = 0; i < count; ++i) {
    const int answer = code != system::nvml::success ? code : values[i].nvmlReturn;
    if (answer != system::nvml::success) {
      return failure("NVML field " + std::to_string(values[i].fieldId) +
                     " of gpu:" + std::to_string(gpu) + " answered " + std::to_string(answer));
    }
    fields.raw[i] = values[i].value.ullVal;
  }
  return fields;
}

WitnessValue LinkCounters::sample() {
  const std::uint64_t now_ns = host_.clock().now_ns();
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    const Fields fields = read(gpus_[i], system::nvml::field_pcie_count_tx_bytes,
                               system::nvml::field_pcie_count_rx_bytes, 2);
    if (fields.failed.unreadable != Cause::none) return fields.failed;
    for (std::size_t way = 0; way < 2; ++way) {
      Unwrapped& counter = pcie_[i * 2 + way];
      const auto now = static_cast<std::uint32_t>(fields.raw[way]);
      if (counter.started) pcie_bytes_ += static_cast<double>(now - counter.last);
      counter = {now, true};
    }
  }
  // A software machine's time says nothing of how much may have passed in it.
  if (sampled_ns_ != 0 && host_.kind() == HostKind::live && now_ns - sampled_ns_ > wrap_gap_max_ns)
    ++gaps_;
  sampled_ns_ = now_ns;
  WitnessValue value = WitnessValue::counted(pcie_bytes_);
  value.gaps = gaps_;
  return value;
}

WitnessValue LinkCounters::pcie_bytes() {
  const std::lock_guard lock(mutex_);
  if (gpus_.empty())
    return WitnessValue::none(Cause::evidence_gpu_counters_unreadable, "no GPU is watched");
  return sample();
}

WitnessValue LinkCounters::nvlink_bytes() {
  const std::lock_guard lock(mutex_);
  if (gpus_.empty())
    return WitnessValue::none(Cause::evidence_gpu_counters_unreadable, "no GPU is watched");
  double bytes = 0;
  for (const std::uint32_t gpu : gpus_) {
    const Fields fields = read(gpu, system::nvml::field_nvlink_throughput_data_tx, 0, 1);
    if (fields.failed.unreadable != Cause::none) return fields.failed;
    bytes += static_cast<double>(fields.raw[0]) * kibibyte;
  }
  return WitnessValue::counted(bytes);
}

}  // namespace nobounce::evidence
