// Reads cufile.json (JSON with comments) and the CUFILE_ variables.
#include "fabric/soft_cufile_config.hpp"

#include <cstddef>
#include <fstream>
#include <iterator>
#include <utility>

#include "core/cufile_flag.hpp"

namespace nobounce::fabric {
namespace {

struct BoolKey {
  std::string_view pointer;
  std::size_t parameter;
};

constexpr BoolKey bool_keys[] = {
    {"/properties/use_poll_mode", 0},
    {"/properties/allow_compat_mode", 1},
    {"/properties/force_compat_mode", 2},
    {"/miscellaneous/api_check_aggressive", 3},
    {"/execution/parallel_io", 4},
    {"/profile/nvtx", 5},
    {"/properties/allow_system_memory", 6},
    {"/properties/use_pci_p2pdma", 7},
    {"/properties/prefer_iouring", 8},
    {"/properties/force_odirect_mode", 9},
    {"/miscellaneous/skip_topology_detection", 10},
    {"/miscellaneous/stream_memops_bypass", 11},
};

struct BoolVariable {
  std::string_view name;
  std::size_t parameter;
};

constexpr BoolVariable bool_variables[] = {
    {"CUFILE_ALLOW_COMPAT_MODE", 1}, {"CUFILE_FORCE_COMPAT_MODE", 2},        {"CUFILE_NVTX", 5},
    {"CUFILE_USE_PCIP2PDMA", 7},     {"CUFILE_SKIP_TOPOLOGY_DETECTION", 10},
};

void take_bool(const core::Json& document, std::string_view pointer, bool& target) {
  const core::Json* json = core::resolve_pointer(document, pointer);
  if (json != nullptr && json->as_bool() != nullptr) target = *json->as_bool();
}

void take_number(const core::Json& document, std::string_view pointer, std::uint64_t& target) {
  const core::Json* json = core::resolve_pointer(document, pointer);
  if (json != nullptr && json->as_unsigned() != nullptr) target = *json->as_unsigned();
}

void take_list(const core::Json& document, const std::string& pointer,
               std::vector<std::string>& target) {
  const core::Json* json = core::resolve_pointer(document, pointer);
  if (json == nullptr || json->as_array() == nullptr) return;
  for (const core::Json& item : *json->as_array()) {
    if (item.as_text() != nullptr) target.push_back(*item.as_text());
  }
}

// The machine's own files first, then the real ones: a private configuration is a real file.
std::optional<std::string> configuration_text(system::Files& files, const std::string& path) {
  if (Result<std::string> text = files.read(path); text.ok()) return std::move(*text);
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

}  // namespace

void apply_cufile_json(const core::Json& document, CufileConfig& config) {
  for (const BoolKey& key : bool_keys) {
    take_bool(document, key.pointer, config.bools[key.parameter]);
  }
  take_bool(document, "/properties/gds_rdma_write_support", config.gds_rdma_write_support);
  take_bool(document, "/fs/generic/posix_unaligned_writes", config.posix_unaligned_writes);
  for (const std::string_view name : {"lustre", "beegfs", "scatefs"}) {
    take_number(document, "/fs/" + std::string(name) + "/posix_gds_min_kb",
                config.posix_gds_min_kb);
  }
  const std::pair<std::string_view, std::uint64_t*> numbers[] = {
      {"/properties/max_direct_io_size_kb", &config.max_direct_io_size_kb},
      {"/properties/per_buffer_cache_size_kb", &config.per_buffer_cache_size_kb},
      {"/properties/max_device_cache_size_kb", &config.max_device_cache_size_kb},
      {"/properties/max_device_pinned_mem_size_kb", &config.max_device_pinned_mem_size_kb},
      {"/profile/cufile_stats", &config.stats_level},
  };
  for (const auto& [pointer, target] : numbers) take_number(document, pointer, *target);
  for (const std::string list : {"/denylist", "/blacklist"}) {
    take_list(document, list + "/drivers", config.denied_drivers);
    take_list(document, list + "/devices", config.denied_devices);
    take_list(document, list + "/mounts", config.denied_mounts);
    take_list(document, list + "/filesystems", config.denied_file_systems);
  }
  // Values out of range are replaced, not refused.
  if (config.max_direct_io_size_kb < 64 || config.max_direct_io_size_kb > 16384) {
    config.max_direct_io_size_kb = 16384;
  }
  if (config.per_buffer_cache_size_kb < 64 || config.per_buffer_cache_size_kb > 16384) {
    config.per_buffer_cache_size_kb = 1024;
  }
  if (config.stats_level > 3) config.stats_level = 0;
}

Result<CufileConfig> load_cufile_config(system::Files& files, system::Environment& environment,
                                        const CufileStagedBools& staged) {
  CufileConfig config;
  std::vector<std::string> paths;
  if (auto named = environment.get("CUFILE_ENV_PATH_JSON")) paths.push_back(std::move(*named));
  paths.emplace_back("/etc/cufile.json");
  paths.emplace_back("/usr/local/cuda/gds/cufile.json");
  for (const std::string& path : paths) {
    const std::optional<std::string> text = configuration_text(files, path);
    if (!text) continue;
    const Result<core::Json> document = core::parse_json(*text, path, {.allow_comments = true});
    if (!document.ok()) return document.error();
    apply_cufile_json(*document, config);
    config.read_from = path;
    break;
  }
  for (const BoolVariable& variable : bool_variables) {
    const std::optional<std::string> text = environment.get(variable.name);
    if (!text) continue;
    if (const std::optional<bool> flag = core::cufile_flag(*text))
      config.bools[variable.parameter] = *flag;
  }
  for (std::size_t i = 0; i < staged.size(); ++i) {
    if (staged[i]) config.bools[i] = *staged[i];
  }
  return config;
}

}  // namespace nobounce::fabric
