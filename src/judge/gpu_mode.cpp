// Judges the modes of GPUs.
#include "judge/gpu_mode.hpp"

#include <initializer_list>
#include <string>

#include "judge/findings.hpp"

namespace nobounce::judge {
namespace {

constexpr const char* mig_source = "nvmlDeviceGetMigMode";
constexpr const char* virtualization_source = "nvmlDeviceGetVirtualizationMode";
constexpr const char* memory_source = "nvmlDeviceGetMemoryInfo";
constexpr const char* confidential_source = "nvmlSystemGetConfComputeState";

std::string gpu_name(const Machine& machine, std::uint32_t gpu) {
  return device_name(machine, {DeviceRef::Kind::gpu, static_cast<std::uint16_t>(gpu)});
}

Rule confidential_rule(const std::string& subject) {
  return {Cause::machine_confidential_computing, subject, "confidential computing switched off"};
}

Rule integrated_rule(const std::string& subject) {
  return {Cause::machine_integrated_gpu, subject, "a GPU with memory of its own"};
}

}  // namespace

void judge_pair_mode(const Machine& machine, std::uint32_t source, std::uint32_t target,
                     bool by_nvlink, std::vector<Finding>& findings) {
  const std::string pair = gpu_name(machine, source) + " -> " + gpu_name(machine, target);
  bool whole = true;
  for (const std::uint32_t gpu : {source, target}) {
    const std::string name = gpu_name(machine, gpu);
    whole = whole && machine.gpus[gpu].mode == GpuMode::whole;
    switch (machine.gpus[gpu].mode) {
      case GpuMode::whole:
        break;
      case GpuMode::mig:
        findings.push_back(unmet({Cause::p2p_mig_enabled, pair, "GPUs that are not split by MIG"},
                                 name + " is split into MIG instances", mig_source));
        break;
      case GpuMode::vgpu: {
        const Rule rule{Cause::p2p_vgpu, pair, "whole GPUs, or vGPUs that NVLink joins"};
        findings.push_back(
            by_nvlink
                ? unknown(rule, name + " is a vGPU, joined by NVLink", virtualization_source)
                : unmet(rule, name + " is a vGPU, and PCIe joins the pair", virtualization_source));
        break;
      }
      case GpuMode::integrated:
        findings.push_back(
            unmet(integrated_rule(name), name + " uses the processor's own memory", memory_source));
        break;
    }
  }
  if (whole) {
    findings.push_back(met({Cause::p2p_mig_enabled, pair, "GPUs that are not split by MIG"},
                           "both are whole GPUs", mig_source));
  }
  const Rule confidential = confidential_rule(pair);
  if (!machine.confidential) {
    findings.push_back(met(confidential, "off", confidential_source));
  } else if (by_nvlink) {
    findings.push_back(
        unknown(confidential, "on; NVLink may be protected and in use", confidential_source));
  } else {
    findings.push_back(unmet(confidential, "on: transfers go through encrypted bounce buffers",
                             confidential_source));
  }
}

void judge_storage_mode(const Machine& machine, std::uint32_t gpu, std::vector<Finding>& findings) {
  const std::string name = gpu_name(machine, gpu);
  const bool integrated = machine.gpus[gpu].mode == GpuMode::integrated;
  findings.push_back(integrated ? unmet(integrated_rule(name),
                                        name + " uses the processor's own memory", memory_source)
                                : met(integrated_rule(name), "it has", memory_source));
  findings.push_back(machine.confidential
                         ? unmet(confidential_rule(name),
                                 "on: transfers go through encrypted bounce buffers",
                                 confidential_source)
                         : met(confidential_rule(name), "off", confidential_source));
}

}  // namespace nobounce::judge
