// The streams of one reader.
#include "provider/staged/gpu_lanes.hpp"

#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

namespace nobounce::provider::staged {

namespace {
using system::cuda::success;
}

std::uint32_t GpuLanes::numa_of(std::uint32_t gpu) {
  for (const auto& lane : lanes_) {
    if (lane->gpu == gpu) return lane->numa;
  }
  const Result<system::cuda::CUdevice> device = contexts_->device(gpu);
  if (!device.ok()) return 0;
  std::array<char, 32> text{};
  if (contexts_->table().device_get_pci_bus_id(text.data(), static_cast<int>(text.size()) - 1,
                                               *device) != success) {
    return 0;
  }
  std::string address = text.data();
  for (char& c : address) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const Result<std::string> node =
      host_.files().read("/sys/bus/pci/devices/" + address + "/numa_node");
  if (!node.ok()) return 0;
  int value = 0;
  std::from_chars(node->data(), node->data() + node->size(), value);
  return value > 0 ? static_cast<std::uint32_t>(value) : 0;  // -1: the firmware does not say
}

Result<Lane*> GpuLanes::find(std::uint32_t gpu, Direction direction) {
  Lane* reopen = nullptr;
  for (const auto& lane : lanes_) {
    if (lane->gpu != gpu || lane->direction != direction) continue;
    if (!lane->broken) return lane.get();
    if (lane->in_flight == 0) reopen = lane.get();
  }
  const Result<system::cuda::CUcontext> context = contexts_->context(gpu);
  if (!context.ok()) return context.error();
  system::Cuda& cuda = contexts_->table();
  const system::ContextGuard guard(cuda, *context);
  if (reopen != nullptr) close(*reopen, guard);
  system::cuda::CUstream stream = nullptr;
  const auto code = cuda.stream_create(&stream, system::cuda::stream_non_blocking);
  if (code != success) return system::cuda_error(cuda, code, "create a stream for staging");
  const std::uint32_t numa = numa_of(gpu);
  if (reopen == nullptr) {
    lanes_.push_back(std::make_unique<Lane>());
    reopen = lanes_.back().get();
  }
  reopen->gpu = gpu;
  reopen->direction = direction;
  reopen->numa = numa;
  reopen->context = *context;
  reopen->stream = stream;
  reopen->broken = false;
  return reopen;
}

Result<CopyInFlight> GpuLanes::copy_to_host(Lane& lane, std::byte* target, DevicePointer source,
                                            std::uint64_t length_bytes) {
  system::Cuda& cuda = contexts_->table();
  const system::ContextGuard guard(cuda, lane.context);
  return launched(lane, cuda.memcpy_dtoh_async(target, source.value, length_bytes, lane.stream));
}

Result<CopyInFlight> GpuLanes::copy_to_gpu(Lane& lane, DevicePointer target,
                                           const std::byte* source, std::uint64_t length_bytes) {
  system::Cuda& cuda = contexts_->table();
  const system::ContextGuard guard(cuda, lane.context);
  return launched(lane, cuda.memcpy_htod_async(target.value, source, length_bytes, lane.stream));
}

Result<CopyInFlight> GpuLanes::launched(Lane& lane, system::cuda::CUresult code) {
  system::Cuda& cuda = contexts_->table();
  if (code != success) {
    lane.broken = true;
    return system::cuda_error(cuda, code,
                              lane.direction == Direction::to_host
                                  ? "copy GPU memory to a slot (cuMemcpyDtoHAsync)"
                                  : "copy a slot to GPU memory (cuMemcpyHtoDAsync)");
  }
  CopyInFlight copy{&lane, nullptr, host_.clock().now_ns()};
  ++lane.in_flight;
  if (!lane.free_events.empty()) {
    copy.event = lane.free_events.back();
    lane.free_events.pop_back();
  } else if (cuda.event_create(&copy.event, system::cuda::event_disable_timing) != success) {
    copy.event = nullptr;
  }
  // The copy runs from here on, whatever happens to the event: without one the stream is asked.
  if (copy.event != nullptr && cuda.event_record(copy.event, lane.stream) != success) {
    (void)cuda.event_destroy(copy.event);
    copy.event = nullptr;
  }
  return copy;
}

Landing GpuLanes::look(CopyInFlight& copy, std::optional<Error>& error) {
  Lane& lane = *copy.lane;
  system::Cuda& cuda = contexts_->table();
  const system::ContextGuard guard(cuda, lane.context);
  auto code = copy.event != nullptr ? cuda.event_query(copy.event) : cuda.stream_query(lane.stream);
  if (code == system::cuda::error_not_ready) return Landing::flying;
  if (code != success) {
    // One failed question proves nothing about the copy. Only when the stream answers with an error
    // too has the driver given up on its work.
    lane.broken = true;
    code = cuda.stream_query(lane.stream);
    if (code == system::cuda::error_not_ready) return Landing::flying;
  }
  --lane.in_flight;
  if (copy.event != nullptr) lane.free_events.push_back(copy.event);
  const Direction direction = lane.direction;
  copy = {};
  if (code == success) return Landing::landed;
  error = system::cuda_error(
      cuda, code,
      direction == Direction::to_host ? "copy GPU memory to a slot" : "copy a slot to GPU memory");
  return Landing::failed;
}

void GpuLanes::close(Lane& lane, const system::ContextGuard& guard) {
  system::Cuda& cuda = contexts_->table();
  if (!guard.alive()) {
    lane.free_events.clear();
    lane.stream = nullptr;
  }
  for (const system::cuda::CUevent event : lane.free_events) (void)cuda.event_destroy(event);
  lane.free_events.clear();
  if (lane.stream != nullptr) (void)cuda.stream_destroy(lane.stream);
  lane.stream = nullptr;
}

bool GpuLanes::release() {
  bool all = true;
  for (const auto& lane : lanes_) {
    if (lane->in_flight > 0) {
      all = false;
      continue;
    }
    const system::ContextGuard guard(contexts_->table(), lane->context);
    close(*lane, guard);
  }
  return all;
}

}  // namespace nobounce::provider::staged
