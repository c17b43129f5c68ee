// Devices: their names, numbers and attributes, and how these agree with NVML's.
#include <cstring>

#include "conformance/sequence.hpp"

namespace nobounce::conformance {

namespace {

constexpr Needs bare{Start::bare};

/// NVML's device 0, asked without a trace. CUDA_VISIBLE_DEVICES must not reorder.
struct NvmlView {
  explicit NvmlView(Run& run) {
    system::Nvml& table = **run.host.nvml();
    if (table.init() != nvml::success) return;
    nvml::nvmlDevice_t device = nullptr;
    (void)table.device_get_handle_by_index(0, &device);
    (void)table.device_get_name(device, name, sizeof name);
    (void)table.device_get_uuid(device, uuid, sizeof uuid);
    (void)table.device_get_pci_info(device, &pci);
    (void)table.device_get_memory_info(device, &memory);
    (void)table.shutdown();
  }
  char name[96] = "";
  char uuid[96] = "";
  nvml::nvmlPciInfo_t pci{};
  nvml::nvmlMemory_t memory{};
};

std::string uuid_text(const cuda::CUuuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    constexpr const char* digits = "0123456789abcdef";
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits[uuid.bytes[i] >> 4];
    text += digits[uuid.bytes[i] & 15];
  }
  return text;
}

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

void ordinals(Run& run) {
  int count = 0;
  (void)run.cuda().device_get_count(&count);
  for (const int ordinal : {0, -1, count, 1000}) {
    int device = -7;
    run.note(ordinal == count ? "ordinal: the count" : "ordinal " + std::to_string(ordinal));
    (void)run.cuda().device_get(&device, ordinal);
    if (device != -7) run.yes("device is the ordinal", device == ordinal);
  }
  (void)run.cuda().device_get(nullptr, 0);
}

void names(Run& run) {
  char text[96];
  for (const int length : {96, 7, 1}) {
    std::memset(text, '#', sizeof text);
    run.note("length " + std::to_string(length));
    const auto code = run.cuda().device_get_name(text, length, 0);
    if (code == cuda::success && length < 96) run.number("characters", std::strlen(text));
  }
  (void)run.cuda().device_get_name(nullptr, 96, 0);
  (void)run.cuda().device_get_name(text, 96, 0);
  run.yes("as NVML names it", std::string(text) == NvmlView(run).name);
}

void uuids(Run& run) {
  cuda::CUuuid uuid{};
  (void)run.cuda().device_get_uuid(&uuid, 0);
  run.yes("as NVML's", uuid_text(uuid) == NvmlView(run).uuid);
  (void)run.cuda().device_get_uuid(nullptr, 0);
  (void)run.cuda().device_get_uuid(&uuid, -1);
  (void)run.cuda().device_get_uuid(&uuid, 4711);
}

void pci_bus_ids(Run& run) {
  char text[64];
  for (const int length : {64, 13, 12, 5, 0, -1}) {
    std::memset(text, '#', sizeof text);
    run.note("length " + std::to_string(length));
    const auto code = run.cuda().device_get_pci_bus_id(text, length, 0);
    if (code == cuda::success) run.number("characters", std::strlen(text));
  }
  (void)run.cuda().device_get_pci_bus_id(nullptr, 64, 0);
  (void)run.cuda().device_get_pci_bus_id(text, 64, 0);
  run.yes("as NVML's legacy id", lower(text) == lower(NvmlView(run).pci.busIdLegacy));
  run.yes("in lower case", lower(text) == text);
}

void pci_attributes(Run& run) {
  const NvmlView view(run);
  int bus = -1;
  int device = -1;
  int domain = -1;
  (void)run.cuda().device_get_attribute(&bus, cuda::attribute_pci_bus_id, 0);
  (void)run.cuda().device_get_attribute(&device, cuda::attribute_pci_device_id, 0);
  (void)run.cuda().device_get_attribute(&domain, cuda::attribute_pci_domain_id, 0);
  run.yes("bus as NVML's", bus == static_cast<int>(view.pci.bus));
  run.yes("device as NVML's", device == static_cast<int>(view.pci.device));
  run.yes("domain as NVML's", domain == static_cast<int>(view.pci.domain));
}

void total_memory(Run& run) {
  std::size_t bytes = 0;
  (void)run.cuda().device_total_mem(&bytes, 0);
  const NvmlView view(run);
  run.yes("no more than NVML's total", bytes <= view.memory.total);
  run.yes("at least 95 % of it", bytes >= view.memory.total / 100 * 95);
  (void)run.cuda().device_total_mem(nullptr, 0);
  (void)run.cuda().device_total_mem(&bytes, 4711);
}

}  // namespace

void add_cuda_devices(Catalogue& all) {
  all.add("devices.ordinals", ordinals, bare);
  all.add("devices.name", names, bare);
  all.add(
      "devices.name.no_such_device",
      [](Run& run) {
        char text[96];
        (void)run.cuda().device_get_name(text, 96, -1);
        (void)run.cuda().device_get_name(text, 96, 4711);
      },
      bare);
  all.add("devices.name.no_room",
          [](Run& run) {
            char text[96];
            (void)run.cuda().device_get_name(text, 0, 0);
            (void)run.cuda().device_get_name(text, -1, 0);
          },
          {Start::alone});
  all.add("devices.uuid", uuids, bare);
  all.add("devices.pci_bus_id", pci_bus_ids, bare);
  all.add("devices.total_memory", total_memory, bare);
  all.add("devices.attribute.pci", pci_attributes, bare);
  const std::pair<const char*, int> attributes[] = {
      {"integrated", cuda::attribute_integrated},
      {"unified_addressing", cuda::attribute_unified_addressing},
      {"host_register_supported", cuda::attribute_host_register_supported},
      {"gpu_direct_rdma_supported", cuda::attribute_gpu_direct_rdma_supported},
      {"gpu_direct_rdma_flush_writes_options",
       cuda::attribute_gpu_direct_rdma_flush_writes_options},
      {"gpu_direct_rdma_writes_ordering", cuda::attribute_gpu_direct_rdma_writes_ordering},
      {"dma_buf_supported", cuda::attribute_dma_buf_supported},
      {"number_0", 0},
      {"number_100000", 100000},
      {"number_negative", -1}};
  for (const auto& [name, attribute] : attributes) {
    all.add(
        std::string("devices.attribute.") + name,
        [attribute = attribute](Run& run) {
          int value = -7;
          if (run.cuda().device_get_attribute(&value, attribute, 0) == cuda::success) {
            run.number("value", static_cast<std::uint64_t>(value));
          }
        },
        bare);
  }
  all.add(
      "devices.attribute.wrong_arguments",
      [](Run& run) {
        int value = -7;
        (void)run.cuda().device_get_attribute(nullptr, cuda::attribute_integrated, 0);
        (void)run.cuda().device_get_attribute(&value, cuda::attribute_integrated, -1);
        (void)run.cuda().device_get_attribute(&value, cuda::attribute_integrated, 4711);
      },
      bare);
  all.add(
      "devices.error_names",
      [](Run& run) {
        for (const int code : {0,   1,   2,   3,   4,   100, 101, 201, 217, 400, 500,
                               600, 700, 704, 705, 709, 712, 713, 800, 801, 999}) {
          const char* name = nullptr;
          (void)run.cuda().get_error_name(code, &name);
          run.note(std::to_string(code) + " " + (name == nullptr ? "nothing" : name));
        }
      },
      bare);
  all.add("devices.error_names.no_target",
          [](Run& run) { (void)run.cuda().get_error_name(0, nullptr); }, {Start::alone});
  all.add(
      "devices.error_names.unknown",
      [](Run& run) {
        for (const int code : {4711, -1}) {
          const char* name = "untouched";
          (void)run.cuda().get_error_name(code, &name);
          run.note(name == nullptr ? "null" : name);
        }
      },
      bare);
}

}  // namespace nobounce::conformance
