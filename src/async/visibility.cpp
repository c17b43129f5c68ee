// The order of inbound writes, by what the driver says.
#include "async/visibility.hpp"

namespace nobounce {

std::string_view to_string(Visibility value) {
  switch (value) {
    case Visibility::native:
      return "native";
    case Visibility::flush_by_stream:
      return "flush_by_stream";
    case Visibility::flush_by_host:
      return "flush_by_host";
    case Visibility::refused:
      break;
  }
  return "refused";
}

namespace async {

namespace cuda = system::cuda;

namespace {
constexpr int ordering_owner = 100;
constexpr int ordering_all = 200;
}  // namespace

Result<GpuAbilities> read_abilities(system::CudaContexts& contexts, std::uint32_t gpu) {
  Result<cuda::CUdevice> device = contexts.device(gpu);
  if (!device.ok()) return std::move(device).error();
  // An attribute that this driver does not know is not there.
  const auto read = [&](int attribute) {
    int value = 0;
    const auto code = contexts.table().device_get_attribute(&value, attribute, *device);
    return code == cuda::success ? value : 0;
  };
  GpuAbilities abilities;
  abilities.wait_and_write_words = read(cuda::attribute_can_use_64_bit_stream_mem_ops) != 0;
  abilities.flush_in_wait = read(cuda::attribute_can_flush_remote_writes) != 0;
  abilities.writes_ordering = read(cuda::attribute_gpu_direct_rdma_writes_ordering);
  abilities.flush_options = read(cuda::attribute_gpu_direct_rdma_flush_writes_options);
  return abilities;
}

Visibility visibility_of(const GpuAbilities& abilities, bool by_owner) {
  const int needed = by_owner ? ordering_owner : ordering_all;
  if (abilities.writes_ordering >= needed) return Visibility::native;
  // A stream flushes what was written to its own GPU.
  const bool by_stream = by_owner && (abilities.flush_options & cuda::flush_option_memops) != 0;
  if (by_stream && abilities.flush_in_wait) return Visibility::flush_by_stream;
  if ((abilities.flush_options & cuda::flush_option_host) != 0) return Visibility::flush_by_host;
  return Visibility::refused;
}

}  // namespace async
}  // namespace nobounce
