// What the engines do to memory, the driver's silent detours through host memory included.
#include <algorithm>

#include "fabric/soft_gpu_engine.hpp"
#include "fabric/soft_gpu_engine_state.hpp"

namespace nobounce::fabric {

namespace cuda = system::cuda;

namespace {

constexpr std::uint64_t staging_bytes = 4u << 20;

Initiator engine_of(std::uint32_t gpu) {
  return {Initiator::Kind::copy_engine, gpu};
}

CUresult code_of(const Carried& carried) {
  switch (carried.outcome) {
    case BusOutcome::done:
    // A posted write that no bridge forwards is gone without an answer: the real driver reports
    // success as well.
    case BusOutcome::lost:
      return cuda::success;
    case BusOutcome::bad_address:
      return cuda::error_illegal_address;
    default:
      return cuda::error_unknown;
  }
}

}  // namespace

/// The driver's own pinned memory, one for each command that stages: two engines may do so at once.
Result<DramBuffer> GpuEngines::staging_for(std::uint32_t gpu, std::uint64_t length_bytes) {
  const DeviceRef device{DeviceRef::Kind::gpu, static_cast<std::uint16_t>(gpu)};
  return bus_.allocate_dram(numa_of(bus_.machine(), device), std::min(staging_bytes, length_bytes),
                            DramUse::internal);
}

CUresult GpuEngines::run(std::uint32_t gpu, const GpuCopy& copy) {
  if (copy.kind != GpuCopy::Kind::fill && random_.chance(faults_.cuda_error)) {
    return cuda::error_unknown;
  }
  switch (copy.kind) {
    case GpuCopy::Kind::fill:
      return code_of(bus_.fill_vram(copy.target, copy.value, copy.length_bytes));
    case GpuCopy::Kind::on_device:
      return copy.staged ? run_staged(copy) : run_on_device(gpu, copy);
    case GpuCopy::Kind::on_host:
      return code_of(bus_.cpu_copy(bus_.address_of(copy.host), bus_.address_of(copy.host_source),
                                   copy.length_bytes));
    default:
      break;
  }
  // A stream may be asked to copy to or from another GPU's memory: that GPU's engine does it.
  const bool loading = copy.kind == GpuCopy::Kind::to_device;
  gpu = bus_.gpu_of(loading ? copy.target : copy.source).value_or(gpu);
  if (copy.pageable) return run_pageable(gpu, copy);
  const End host = End::at(bus_.address_of(copy.host));
  return code_of(loading ? bus_.dma(engine_of(gpu), host, End::of(copy.target), copy.length_bytes)
                         : bus_.dma(engine_of(gpu), End::of(copy.source), host, copy.length_bytes));
}

CUresult GpuEngines::run_pageable(std::uint32_t gpu, const GpuCopy& copy) {
  const Result<DramBuffer> staging = staging_for(gpu, copy.length_bytes);
  if (!staging.ok()) return cuda::error_out_of_memory;
  const BusAddress host = bus_.address_of(copy.host);
  const End own = End::at(staging->address);
  bool good = true;
  for (std::uint64_t at = 0; at < copy.length_bytes && good; at += staging_bytes) {
    const std::uint64_t length = std::min(staging_bytes, copy.length_bytes - at);
    Carried first;
    Carried second;
    if (copy.kind == GpuCopy::Kind::to_device) {
      first = bus_.cpu_copy(staging->address, host.plus(at), length);
      second = bus_.dma(engine_of(gpu), own, End::of(copy.target.plus(at)), length);
    } else {
      first = bus_.dma(engine_of(gpu), End::of(copy.source.plus(at)), own, length);
      second = bus_.cpu_copy(host.plus(at), staging->address, length);
    }
    good = first.ok() && second.ok();
  }
  bus_.free_dram(*staging);
  return good ? cuda::success : cuda::error_illegal_address;
}

CUresult GpuEngines::run_staged(const GpuCopy& copy) {
  const auto source_gpu = bus_.gpu_of(copy.source);
  const auto target_gpu = bus_.gpu_of(copy.target);
  if (!source_gpu || !target_gpu) return cuda::error_illegal_address;
  const Result<DramBuffer> staging = staging_for(*source_gpu, copy.length_bytes);
  if (!staging.ok()) return cuda::error_out_of_memory;
  const End own = End::at(staging->address);
  CUresult result = cuda::success;
  for (std::uint64_t at = 0; at < copy.length_bytes && result == cuda::success;
       at += staging_bytes) {
    const std::uint64_t length = std::min(staging_bytes, copy.length_bytes - at);
    result = code_of(bus_.dma(engine_of(*source_gpu), End::of(copy.source.plus(at)), own, length));
    if (result != cuda::success) break;
    result = code_of(bus_.dma(engine_of(*target_gpu), own, End::of(copy.target.plus(at)), length));
  }
  bus_.free_dram(*staging);
  return result;
}

CUresult GpuEngines::run_on_device(std::uint32_t gpu, const GpuCopy& copy) {
  const auto source_gpu = bus_.gpu_of(copy.source);
  const auto target_gpu = bus_.gpu_of(copy.target);
  if (!source_gpu || !target_gpu) return cuda::error_illegal_address;
  // The engine must own one end: a stream of a third GPU lets the source's do it.
  gpu = copy.engine.value_or(gpu);
  const bool owns = *source_gpu == gpu || *target_gpu == gpu;
  return code_of(bus_.dma(engine_of(owns ? gpu : *source_gpu), End::of(copy.source),
                          End::of(copy.target), copy.length_bytes));
}

}  // namespace nobounce::fabric
