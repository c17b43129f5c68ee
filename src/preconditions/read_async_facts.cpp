// Attributes of a GPU, found by its bus address.
#include "preconditions/read_async_facts.hpp"

#include <array>
#include <optional>
#include <string>

#include "core/bus_address.hpp"
#include "preconditions/gpu_facts.hpp"

namespace nobounce::preconditions {

namespace cuda = system::cuda;

namespace {

constexpr int ordering_owner = 100;

std::optional<cuda::CUdevice> device_at(system::Cuda& table, const std::string& bdf) {
  int count = 0;
  if (table.device_get_count(&count) != cuda::success) return std::nullopt;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cuda::CUdevice device = 0;
    std::array<char, 32> text{};
    if (table.device_get(&device, ordinal) != cuda::success) continue;
    if (table.device_get_pci_bus_id(text.data(), static_cast<int>(text.size()) - 1, device) ==
            cuda::success &&
        core::canonical_bdf(text.data()) == core::canonical_bdf(bdf)) {
      return device;
    }
  }
  return std::nullopt;
}

}  // namespace

core::AsyncFacts read_async_facts(system::Host& host, const Machine& machine, std::uint32_t gpu,
                                  bool may_ask_cuda) {
  core::AsyncFacts facts;
  facts.gpu = gpu;
  std::string why = "CUDA is not initialised";
  std::optional<cuda::CUdevice> device;
  system::Cuda* table = nullptr;
  if (may_ask_cuda) {
    if (Result<system::Cuda*> found = host.cuda(); found.ok()) {
      table = *found;
      device = device_at(*table, machine.gpus[gpu].bdf);
      why = "CUDA does not show this GPU (CUDA_VISIBLE_DEVICES)";
    } else {
      why = to_string(found.error());
    }
  }
  const auto ask = [&](int attribute, const char* name, auto judged) {
    core::Fact fact;
    fact.source = std::string("cuDeviceGetAttribute ") + name;
    int value = 0;
    if (!device.has_value()) {
      fact.observed = why;
    } else if (const auto code = table->device_get_attribute(&value, attribute, *device);
               code != cuda::success) {
      fact.observed = "the driver answered " + std::to_string(code);
    } else {
      fact.value = judged(value);
      fact.observed = "it is " + std::to_string(value);
    }
    return fact;
  };
  const auto set = [](int value) { return value != 0; };
  facts.stream_words =
      ask(cuda::attribute_can_use_64_bit_stream_mem_ops, "CAN_USE_64_BIT_STREAM_MEM_OPS", set);
  facts.inbound_ordered =
      ask(cuda::attribute_gpu_direct_rdma_writes_ordering, "GPU_DIRECT_RDMA_WRITES_ORDERING",
          [](int value) { return value >= ordering_owner; });
  facts.flush_by_stream =
      ask(cuda::attribute_can_flush_remote_writes, "CAN_FLUSH_REMOTE_WRITES", set);
  facts.flush_by_host = ask(cuda::attribute_gpu_direct_rdma_flush_writes_options,
                            "GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS",
                            [](int value) { return (value & cuda::flush_option_host) != 0; });
  facts.host_memory_seen = ask(cuda::attribute_unified_addressing, "UNIFIED_ADDRESSING", set);
  return facts;
}

}  // namespace nobounce::preconditions
