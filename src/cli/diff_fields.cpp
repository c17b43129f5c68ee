// The table of what fields matter to, and a machine's document made flat.
#include "cli/diff_fields.hpp"

#include <algorithm>

namespace nobounce::cli {

namespace {

using report::DiffWeight;

constexpr FieldRule field_rules[] = {
    {"/unread", DiffWeight::other, "", Cause::machine_needs_root},
    {"/name", DiffWeight::other, "", Cause::none},
    {"/uuid", DiffWeight::other, "", Cause::none},
    {"/bdf", DiffWeight::other, "", Cause::none},
    {"/iommu_group", DiffWeight::other, "", Cause::none},
    {"/netdev", DiffWeight::other, "", Cause::none},
    {"/kernel/iommu", DiffWeight::setting, "storage, rdma, p2p", Cause::machine_iommu_translated},
    {"/kernel/dmabuf", DiffWeight::setting, "rdma", Cause::rdma_dmabuf_not_supported},
    {"/kernel/pci_p2pdma", DiffWeight::setting, "storage", Cause::storage_p2pdma_off},
    {"/kernel/nvidia_driver", DiffWeight::detail, "p2p, storage, rdma, async", Cause::none},
    {"/kernel/release", DiffWeight::detail, "storage, rdma", Cause::none},
    {"/modules/nvidia_fs", DiffWeight::setting, "storage", Cause::storage_nvidia_fs_absent},
    {"/modules/nvidia_peermem", DiffWeight::setting, "rdma", Cause::rdma_peermem_not_loaded},
    {"/modules/nvme", DiffWeight::setting, "storage", Cause::storage_driver_not_registered},
    {"/modules/parameters", DiffWeight::setting, "p2p, async", Cause::none},
    {"/modules/versions", DiffWeight::detail, "storage, rdma", Cause::none},
    {"/libraries", DiffWeight::detail, "rdma", Cause::none},
    {"/libcufile", DiffWeight::setting, "storage", Cause::storage_cufile_absent},
    {"/cufile_settings", DiffWeight::setting, "storage", Cause::storage_compat_forced},
    {"/udev", DiffWeight::setting, "storage", Cause::storage_udev_missing},
    {"/guest", DiffWeight::setting, "p2p, storage, rdma", Cause::machine_guest_topology_hidden},
    {"/confidential", DiffWeight::setting, "p2p, storage, rdma",
     Cause::machine_confidential_computing},
    {"/container/infiniband_hidden", DiffWeight::setting, "rdma", Cause::container_no_infiniband},
    {"/process/memlock", DiffWeight::setting, "rdma", Cause::rdma_memlock_limit},
    {"/process/seccomp", DiffWeight::detail, "storage", Cause::container_seccomp},
    {"/fabric_manager", DiffWeight::setting, "p2p", Cause::machine_fabric_manager_absent},
    {"/nvlinks_down", DiffWeight::setting, "p2p", Cause::machine_nvlink_down},
    {"/nvlinks", DiffWeight::setting, "p2p", Cause::machine_nvlink_down},
    {"/acs", DiffWeight::setting, "p2p, storage, rdma", Cause::machine_acs_redirect},
    {"/acs_control", DiffWeight::setting, "p2p, storage, rdma", Cause::machine_acs_redirect},
    {"/peer_forwarding", DiffWeight::setting, "p2p, storage, rdma",
     Cause::machine_cross_host_bridge},
    {"/link", DiffWeight::detail, "p2p, storage, rdma", Cause::machine_link_downtrained},
    {"/bar1_bytes", DiffWeight::setting, "rdma, storage, p2p", Cause::machine_bar1_too_small},
    {"/bar1_bytes_max", DiffWeight::setting, "rdma, storage, p2p", Cause::machine_bar1_too_small},
    {"/peer_status", DiffWeight::setting, "p2p", Cause::none},
    {"/mode", DiffWeight::setting, "p2p, storage", Cause::none},
    {"/active", DiffWeight::setting, "rdma", Cause::rdma_port_down},
    {"/rate_gbps", DiffWeight::detail, "rdma", Cause::none},
    {"/link_layer", DiffWeight::detail, "rdma", Cause::none},
    {"/firmware", DiffWeight::detail, "rdma, storage", Cause::none},
    {"/ats", DiffWeight::setting, "rdma", Cause::machine_acs_redirect},
    {"/iommu", DiffWeight::setting, "storage, rdma, p2p", Cause::machine_iommu_translated},
    {"/nvidia_fs_registered", DiffWeight::setting, "storage", Cause::storage_driver_not_registered},
    {"/options", DiffWeight::setting, "storage", Cause::storage_mount_options},
    {"/direct_io", DiffWeight::setting, "storage", Cause::storage_direct_io_refused},
    {"/type", DiffWeight::setting, "storage", Cause::none},
    {"/drive", DiffWeight::setting, "storage", Cause::none},
    {"/layer", DiffWeight::setting, "storage", Cause::storage_mount_is_layered},
    {"/parts", DiffWeight::setting, "storage", Cause::storage_mount_is_layered},
    {"/gpudirect_rdma", DiffWeight::setting, "rdma", Cause::none},
    {"/reliable_connections", DiffWeight::setting, "rdma", Cause::none},
    {"/coherent", DiffWeight::setting, "storage, rdma", Cause::none},
    {"/nvswitches", DiffWeight::setting, "p2p", Cause::none},
    {"/driver", DiffWeight::setting, "p2p, storage, rdma", Cause::none},
    {"/parent", DiffWeight::setting, "p2p, storage, rdma", Cause::none},
    {"/product", DiffWeight::detail, "p2p", Cause::none},
    {"/environment", DiffWeight::detail, "p2p, rdma, storage", Cause::none},
};

/// `steps` as whole steps of the pointer: `/mode` is not in `/processor/model`.
bool steps_in(std::string_view pointer, std::string_view steps) {
  for (std::size_t at = pointer.find(steps); at != std::string_view::npos;
       at = pointer.find(steps, at + 1)) {
    const std::size_t end = at + steps.size();
    if (end == pointer.size() || pointer[end] == '/') return true;
  }
  return false;
}

std::string without_addresses(std::string_view options) {
  std::string kept;
  for (std::size_t at = 0; at < options.size();) {
    const std::size_t end = std::min(options.find(',', at), options.size());
    const std::string_view option = options.substr(at, end - at);
    at = end + 1;
    const std::string_view key = option.substr(0, option.find('='));
    if (key.size() < option.size() &&
        (key == "addr" || key == "clientaddr" || key == "mountaddr")) {
      continue;
    }
    if (!kept.empty()) kept += ',';
    kept += option;
  }
  return kept;
}

std::string text_of(const core::Json& json) {
  const std::string* text = json.as_text();
  return text != nullptr ? *text : core::dump_json(json, true);
}

/// Lists of devices are compared by what they are called, so that one more moves none of the
/// others.
void flatten(const core::Json& json, const std::string& pointer,
             std::map<std::string, std::string>& fields) {
  if (const core::JsonObject* members = json.as_object()) {
    for (const auto& [key, value] : *members) {
      flatten(value, pointer + core::pointer_step(key), fields);
    }
    return;
  }
  const core::JsonArray* items = json.as_array();
  if (items == nullptr) {
    const bool options = steps_in(pointer, "/mounts") && steps_in(pointer, "/options");
    fields[pointer] = options ? without_addresses(text_of(json)) : text_of(json);
    return;
  }
  for (std::size_t i = 0; i < items->size(); ++i) {
    std::string step = std::to_string(i);
    for (const char* key : {"name", "point", "device"}) {
      const core::Json* named = (*items)[i].find(key);
      if (named != nullptr && named->as_text() != nullptr) {
        step = *named->as_text();
        break;
      }
    }
    flatten((*items)[i], pointer + core::pointer_step(step), fields);
  }
}

}  // namespace

const FieldRule& field_rule(std::string_view pointer) {
  for (const FieldRule& rule : field_rules) {
    if (steps_in(pointer, rule.steps)) return rule;
  }
  static constexpr FieldRule nothing{};
  return nothing;
}

std::map<std::string, std::string> diff_fields(const core::Json& machine) {
  std::map<std::string, std::string> fields;
  flatten(machine, "", fields);
  return fields;
}

}  // namespace nobounce::cli
