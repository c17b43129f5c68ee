// NVML: its use count, texts and their room, memory, NVLink, and the counters we rest proofs on.
#include <cstring>

#include "conformance/sequence.hpp"

namespace nobounce::conformance {

namespace {

constexpr Needs fresh{Start::fresh};
constexpr std::size_t mib = 1u << 20;

/// NVML initialised, and its device 0.
struct Device {
  explicit Device(Run& in) : run(in), table(**in.host.nvml()) {
    (void)table.init();
    (void)table.device_get_handle_by_index(0, &handle);
  }
  ~Device() { (void)table.shutdown(); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  Run& run;
  system::Nvml& table;
  nvml::nvmlDevice_t handle = nullptr;
};

void before_init(Run& run) {
  char text[96];
  unsigned number = 0;
  nvml::nvmlDevice_t device = nullptr;
  (void)run.nvml().shutdown();
  (void)run.nvml().system_get_driver_version(text, sizeof text);
  (void)run.nvml().device_get_count(&number);
  (void)run.nvml().device_get_handle_by_index(0, &device);
}

void device_before_init(Run& run) {
  char text[96];
  unsigned number = 0;
  int status = 0;
  nvml::nvmlPciInfo_t pci{};
  nvml::nvmlMemory_t memory{};
  nvml::nvmlBAR1Memory_t bar1{};
  nvml::nvmlFieldValue_t field{};
  (void)run.nvml().device_get_name(nullptr, text, sizeof text);
  (void)run.nvml().device_get_uuid(nullptr, text, sizeof text);
  (void)run.nvml().device_get_pci_info(nullptr, &pci);
  (void)run.nvml().device_get_memory_info(nullptr, &memory);
  (void)run.nvml().device_get_bar1_memory_info(nullptr, &bar1);
  (void)run.nvml().device_get_p2p_status(nullptr, nullptr, 0, &status);
  (void)run.nvml().device_get_nvlink_state(nullptr, 0, &number);
  (void)run.nvml().device_get_nvlink_remote_pci_info(nullptr, 0, &pci);
  (void)run.nvml().device_get_field_values(nullptr, 1, &field);
}

void use_count(Run& run) {
  unsigned count = 0;
  (void)run.nvml().init();
  (void)run.nvml().init();
  (void)run.nvml().shutdown();
  run.note("once more than shut down");
  (void)run.nvml().device_get_count(&count);
  (void)run.nvml().shutdown();
  (void)run.nvml().device_get_count(&count);
  (void)run.nvml().shutdown();
  (void)run.nvml().init();
  (void)run.nvml().device_get_count(&count);
  run.yes("a device", count > 0);
  (void)run.nvml().shutdown();
}

void stale_handle(Run& run) {
  nvml::nvmlDevice_t first = nullptr;
  nvml::nvmlDevice_t second = nullptr;
  char text[96];
  (void)run.nvml().init();
  (void)run.nvml().device_get_handle_by_index(0, &first);
  (void)run.nvml().shutdown();
  (void)run.nvml().device_get_name(first, text, sizeof text);
  (void)run.nvml().init();
  (void)run.nvml().device_get_handle_by_index(0, &second);
  run.yes("the same handle", first == second);
  (void)run.nvml().shutdown();
}

void handles(Run& run) {
  const Device device(run);
  unsigned count = 0;
  (void)run.nvml().device_get_count(&count);
  (void)run.nvml().device_get_count(nullptr);
  for (const unsigned index : {0u, count, 4711u, ~0u}) {
    nvml::nvmlDevice_t handle = nullptr;
    (void)run.nvml().device_get_handle_by_index(index, &handle);
    run.yes("a handle", handle != nullptr);
  }
  (void)run.nvml().device_get_handle_by_index(0, nullptr);
}

void driver_version(Run& run) {
  const Device device(run);
  char text[96];
  for (const unsigned length : {96u, 80u, 10u, 4u, 1u, 0u}) {
    run.note("length " + std::to_string(length));
    (void)run.nvml().system_get_driver_version(text, length);
  }
  (void)run.nvml().system_get_driver_version(nullptr, 96);
}

void names(Run& run) {
  const Device device(run);
  char text[128];
  for (const unsigned length : {128u, 96u, 12u, 5u, 1u, 0u}) {
    run.note("length " + std::to_string(length));
    (void)run.nvml().device_get_name(device.handle, text, length);
  }
  (void)run.nvml().device_get_name(device.handle, nullptr, 96);
  (void)run.nvml().device_get_name(nullptr, text, 96);
}

void uuids(Run& run) {
  const Device device(run);
  char text[128];
  for (const unsigned length : {128u, 96u, 80u, 41u, 40u, 5u, 0u}) {
    run.note("length " + std::to_string(length));
    if (run.nvml().device_get_uuid(device.handle, text, length) == nvml::success) {
      run.number("characters", std::strlen(text));
    }
  }
  run.yes("begins with GPU-", std::string(text).substr(0, 4) == "GPU-");
  (void)run.nvml().device_get_uuid(device.handle, nullptr, 96);
  (void)run.nvml().device_get_uuid(nullptr, text, 96);
}

void pci(Run& run) {
  const Device device(run);
  nvml::nvmlPciInfo_t info{};
  (void)run.nvml().device_get_pci_info(device.handle, &info);
  run.number("characters", std::strlen(info.busId));
  run.number("characters of the legacy id", std::strlen(info.busIdLegacy));
  run.yes("the long one ends in the legacy one's tail",
          std::string(info.busId).substr(8) == std::string(info.busIdLegacy).substr(4));
  run.yes("vendor NVIDIA", (info.pciDeviceId & 0xffff) == 0x10de);
  (void)run.nvml().device_get_pci_info(device.handle, nullptr);
  (void)run.nvml().device_get_pci_info(nullptr, &info);
}

void memory(Run& run) {
  const Device device(run);
  nvml::nvmlMemory_t info{};
  (void)run.nvml().device_get_memory_info(device.handle, &info);
  run.yes("sums", info.free + info.used <= info.total && info.free > 0);
  const unsigned long long before = info.used;
  const cuda::CUdeviceptr pointer = run.allocate(256 * mib);
  (void)run.nvml().device_get_memory_info(device.handle, &info);
  run.yes("256 MiB more", info.used - before >= 256 * mib && info.used - before < 300 * mib);
  run.free(pointer);
  (void)run.nvml().device_get_memory_info(device.handle, nullptr);
  (void)run.nvml().device_get_memory_info(nullptr, &info);
}

void bar1(Run& run) {
  const Device device(run);
  nvml::nvmlBAR1Memory_t info{};
  (void)run.nvml().device_get_bar1_memory_info(device.handle, &info);
  run.yes("sums", info.bar1Free + info.bar1Used == info.bar1Total);
  run.yes("some", info.bar1Total > 0);
  run.yes("as large as the memory", info.bar1Total >= std::uint64_t{128} << 30);
  (void)run.nvml().device_get_bar1_memory_info(device.handle, nullptr);
}

void p2p_with_itself(Run& run) {
  const Device device(run);
  for (const int capability : {0, 1, 2, 3, 4, 5, 4711}) {
    int status = -7;
    run.note("capability " + std::to_string(capability));
    (void)run.nvml().device_get_p2p_status(device.handle, device.handle, capability, &status);
  }
  int status = -7;
  (void)run.nvml().device_get_p2p_status(device.handle, nullptr, 0, &status);
  (void)run.nvml().device_get_p2p_status(nullptr, device.handle, 0, &status);
}

void nvlink_states(Run& run) {
  const Device device(run);
  for (const unsigned link : {0u, 1u, 17u, 18u, 100u, ~0u}) {
    unsigned active = 7;
    run.note("link " + std::to_string(link));
    if (run.nvml().device_get_nvlink_state(device.handle, link, &active) == nvml::success) {
      run.number("active", active);
    }
  }
  (void)run.nvml().device_get_nvlink_state(device.handle, 0, nullptr);
  unsigned active = 7;
  (void)run.nvml().device_get_nvlink_state(nullptr, 0, &active);
}

void nvlink_remotes(Run& run) {
  const Device device(run);
  nvml::nvmlPciInfo_t info{};
  for (const unsigned link : {0u, 1u, 17u, 18u, 100u}) {
    run.note("link " + std::to_string(link));
    (void)run.nvml().device_get_nvlink_remote_pci_info(device.handle, link, &info);
  }
  (void)run.nvml().device_get_nvlink_remote_pci_info(device.handle, 0, nullptr);
  (void)run.nvml().device_get_nvlink_remote_pci_info(nullptr, 0, &info);
}

void field(Run& run, unsigned id) {
  const Device device(run);
  nvml::nvmlFieldValue_t value{};
  value.fieldId = id;
  value.valueType = -7;
  value.nvmlReturn = -7;
  (void)run.nvml().device_get_field_values(device.handle, 1, &value);
  run.note("its own code " + std::to_string(value.nvmlReturn));
  if (value.nvmlReturn == nvml::success) {
    run.note("type " + std::to_string(value.valueType));
    run.yes("a time", value.timestamp > 0);
  }
}

void fields_together(Run& run) {
  const Device device(run);
  nvml::nvmlFieldValue_t values[3]{};
  values[0].fieldId = nvml::field_pcie_count_tx_bytes;
  values[1].fieldId = 4711;
  values[2].fieldId = nvml::field_pcie_count_rx_bytes;
  (void)run.nvml().device_get_field_values(device.handle, 3, values);
  for (const auto& value : values) run.note("its own code " + std::to_string(value.nvmlReturn));
}

void fields_wrong(Run& run) {
  const Device device(run);
  nvml::nvmlFieldValue_t value{};
  value.fieldId = nvml::field_pcie_count_tx_bytes;
  (void)run.nvml().device_get_field_values(device.handle, 0, &value);
  (void)run.nvml().device_get_field_values(device.handle, -1, &value);
  (void)run.nvml().device_get_field_values(device.handle, 1, nullptr);
  (void)run.nvml().device_get_field_values(nullptr, 1, &value);
}

std::uint32_t pcie_bytes(const Device& device, unsigned id) {
  nvml::nvmlFieldValue_t value{};
  value.fieldId = id;
  (void)device.run.nvml().device_get_field_values(device.handle, 1, &value);
  return static_cast<std::uint32_t>(value.value.uiVal);
}

/// A pinned copy of 256 MiB: below the wrap of 4 GiB, far above anybody's noise.
void pcie_counts(Run& run, bool to_device) {
  constexpr std::size_t payload = 256 * mib;
  const Device device(run);
  std::byte* host = run.pinned(payload);
  const cuda::CUdeviceptr target = run.allocate(payload);
  const unsigned id = to_device ? nvml::field_pcie_count_rx_bytes : nvml::field_pcie_count_tx_bytes;
  const std::uint32_t before = pcie_bytes(device, id);
  if (to_device) {
    (void)run.cuda().memcpy_htod_async(target, host, payload, nullptr);
  } else {
    (void)run.cuda().memcpy_dtoh_async(host, target, payload, nullptr);
  }
  (void)run.cuda().stream_synchronize(nullptr);
  const std::uint32_t grown = pcie_bytes(device, id) - before;
  run.yes("grew by the payload or up to a fifth more",
          grown >= payload && grown <= payload / 5 * 6);
  run.free(target);
  run.free_pinned(host);
}

void mig(Run& run) {
  const Device device(run);
  unsigned current = 7;
  unsigned pending = 7;
  if (run.nvml().device_get_mig_mode(device.handle, &current, &pending) == nvml::success) {
    run.number("current", current);
    run.number("pending", pending);
  }
  (void)run.nvml().device_get_mig_mode(nullptr, &current, &pending);
}

void virtualization(Run& run) {
  const Device device(run);
  int mode = 7;
  if (run.nvml().device_get_virtualization_mode(device.handle, &mode) == nvml::success) {
    run.number("mode", static_cast<std::uint64_t>(mode));
  }
  (void)run.nvml().device_get_virtualization_mode(nullptr, &mode);
}

void confidential_computing(Run& run) {
  const Device device(run);
  nvml::nvmlConfComputeSystemState_t state{};
  if (run.nvml().system_get_conf_compute_state(&state) == nvml::success) {
    run.number("environment", state.environment);
    run.number("feature", state.ccFeature);
  }
}

/// Bytes of all links, which a single link's would be a part of.
void nvlink_all_links(Run& run) {
  const Device device(run);
  for (const unsigned scope : {~0u, 0u, 17u, 18u}) {
    nvml::nvmlFieldValue_t value{};
    value.fieldId = nvml::field_nvlink_throughput_data_tx;
    value.scopeId = scope;
    (void)run.nvml().device_get_field_values(device.handle, 1, &value);
    run.note("scope " + std::to_string(scope) + ": its own code " +
             std::to_string(value.nvmlReturn));
  }
}

}  // namespace

void add_nvml(Catalogue& all) {
  all.add("nvml.before_init", before_init, fresh);
  all.add("nvml.before_init.device", device_before_init, fresh);
  all.add("nvml.use_count", use_count, fresh);
  all.add("nvml.stale_handle", stale_handle, fresh);
  all.add("nvml.handles", handles);
  all.add("nvml.driver_version", driver_version);
  all.add("nvml.name", names);
  all.add("nvml.uuid", uuids);
  all.add("nvml.pci", pci);
  all.add("nvml.memory", memory);
  all.add("nvml.bar1", bar1);
  all.add("nvml.bar1.no_device",
          [](Run& run) {
            const Device device(run);
            nvml::nvmlBAR1Memory_t info{};
            (void)run.nvml().device_get_bar1_memory_info(nullptr, &info);
          },
          {Start::alone});
  all.add("nvml.p2p.with_itself", p2p_with_itself);
  all.add("nvml.p2p.with_itself.status", [](Run& run) {
    const Device device(run);
    for (const int capability : {0, 1, 2, 3, 4}) {
      int status = -7;
      (void)run.nvml().device_get_p2p_status(device.handle, device.handle, capability, &status);
      run.note("capability " + std::to_string(capability) + ": " + std::to_string(status));
    }
  });
  all.add("nvml.nvlink.states", nvlink_states);
  all.add("nvml.nvlink.remotes", nvlink_remotes);
  for (const unsigned id : {138u, 139u, 197u, 198u, 0u, 4711u}) {
    all.add("nvml.field." + std::to_string(id), [id](Run& run) { field(run, id); });
  }
  all.add("nvml.fields.nvlink_scopes", nvlink_all_links);
  all.add("nvml.mig", mig);
  all.add("nvml.virtualization", virtualization);
  all.add("nvml.confidential_computing", confidential_computing);
  all.add("nvml.fields.together", fields_together);
  all.add("nvml.fields.wrong", fields_wrong);
  all.add("nvml.fields.pcie.to_device", [](Run& run) { pcie_counts(run, true); });
  all.add("nvml.fields.pcie.to_host", [](Run& run) { pcie_counts(run, false); });
}

}  // namespace nobounce::conformance
