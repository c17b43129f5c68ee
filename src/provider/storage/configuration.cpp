// Our private cufile.json, and whether it is in force.
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "provider/storage/storage_provider.hpp"

namespace nobounce::provider {

namespace {

constexpr std::string_view variable = "CUFILE_ENV_PATH_JSON";
constexpr std::string_view memory_path = "/proc/self/fd/";

core::Fact fact(std::optional<bool> value, std::string observed, std::string source) {
  return core::Fact{value, std::move(observed), std::move(source)};
}

/// The variable names a file of ours already: an earlier session of this process set it.
bool set_by_us(system::Host& host) {
  const std::optional<std::string> path = host.environment().get(variable);
  if (!path.has_value() || path->compare(0, memory_path.size(), memory_path) != 0) return false;
  const Result<system::FileHandle> file = host.storage().open(*path, {});
  if (!file.ok()) return false;
  const std::string ours = private_cufile_json();
  std::string text(ours.size() + 1, '\0');
  const Result<std::size_t> count = host.storage().read(
      *file, reinterpret_cast<std::byte*>(text.data()), text.size(), FileOffset{0});
  (void)host.storage().close(*file);
  return count.ok() && *count == ours.size() && text.compare(0, ours.size(), ours) == 0;
}

/// In force already: opened by an earlier session of ours, after the variable was set.
core::Fact judge_open_library(system::Host& host, system::Cufile& cufile) {
  bool compat = true;
  if (!set_by_us(host)) {
    return fact(false, "cuFile was open before this session: its configuration is somebody else's",
                "cuFileUseCount");
  }
  if (cufile.get_parameter_bool(system::cufile::parameter_bool_allow_compat_mode, &compat).err !=
          0 ||
      compat) {
    return fact(false, "cuFile is open and does not confirm that compatibility mode is off",
                "cuFileGetParameterBool");
  }
  return fact(true, "cuFile was opened with our configuration by an earlier session",
              std::string(variable));
}

/// Threads run, so the environment may not be changed. Single switches can be set, but not all that
/// stage.
core::Fact set_single_switches(system::Cufile& cufile) {
  struct Switch {
    int parameter;
    const char* name;
  };
  constexpr std::array<Switch, 3> switches{{
      {system::cufile::parameter_bool_allow_compat_mode, "ALLOW_COMPAT_MODE"},
      {system::cufile::parameter_bool_force_compat_mode, "FORCE_COMPAT_MODE"},
      {system::cufile::parameter_bool_use_pcip2pdma, "USE_PCIP2PDMA"},
  }};
  std::string set;
  std::string refused;
  for (const Switch& one : switches) {
    const bool ok = cufile.set_parameter_bool(one.parameter, false).err == 0;
    std::string& list = ok ? set : refused;
    if (!list.empty()) list += ", ";
    list += one.name;
  }
  std::string observed =
      "the process has several threads, so CUFILE_ENV_PATH_JSON could not be set; ";
  observed += set.empty() ? "no single switch could be set" : "switched off singly: " + set;
  if (!refused.empty()) observed += "; refused: " + refused;
  observed += "; all other switches that stage are as the installed cufile.json says";
  return fact(false, std::move(observed), "cuFileSetParameterBool");
}

}  // namespace

std::string private_cufile_json() {
  return R"json({
  "logging": {"level": "ERROR"},
  "profile": {"nvtx": false, "cufile_stats": 3},
  "execution": {
    "max_io_queue_depth": 128,
    "max_io_threads": 4,
    "parallel_io": true,
    "min_io_threshold_size_kb": 8192,
    "max_request_parallelism": 4
  },
  "properties": {
    "max_direct_io_size_kb": 16384,
    "max_device_cache_size_kb": 131072,
    "per_buffer_cache_size_kb": 1024,
    "max_device_pinned_mem_size_kb": 33554432,
    "use_poll_mode": false,
    "use_pci_p2pdma": false,
    "allow_compat_mode": false,
    "force_compat_mode": false,
    "gds_rdma_write_support": true,
    "rdma_dynamic_routing": false,
    "rdma_dynamic_routing_order": ["GPU_MEM_NVLINKS", "GPU_MEM"]
  },
  "fs": {
    "generic": {"posix_unaligned_writes": false},
    "lustre": {"posix_gds_min_kb": 0},
    "beegfs": {"posix_gds_min_kb": 0},
    "scatefs": {"posix_gds_min_kb": 0},
    "weka": {"rdma_write_support": true},
    "gpfs": {"gds_write_support": true}
  },
  "sparse": {"p2p_compat_enable": false}
}
)json";
}

CufileConfiguration CufileConfiguration::install(system::Host& host, bool allowed) {
  CufileConfiguration configuration;
  core::Fact& ours = configuration.ours_;
  if (!allowed) {
    ours = fact(false, "the session was told to leave cuFile's configuration alone",
                "SessionOptions::configure_cufile");
    return configuration;
  }
  const Result<system::Cufile*> cufile = host.cufile();
  if (!cufile.ok()) {
    ours = fact(std::nullopt, "libcufile is absent, so nothing was configured",
                cufile.error().attempted);
    return configuration;
  }
  if ((*cufile)->use_count() > 0) {
    ours = judge_open_library(host, **cufile);
    return configuration;
  }
  if (set_by_us(host)) {
    ours = fact(true, "our configuration was set by an earlier session of this process",
                std::string(variable));
    return configuration;
  }
  // The file stays open as long as the process: the variable names it, and cuFile reads it when it
  // is opened.
  const Result<system::Storage::MemoryFile> file =
      host.storage().memory_file("nobounce-cufile.json", private_cufile_json());
  if (!file.ok()) {
    ours = fact(false, "a private configuration file could not be made: " + file.error().detail,
                file.error().attempted);
    return configuration;
  }
  const Status set = host.environment().set(variable, file->path);
  if (!set.ok()) {
    (void)host.storage().close(file->file);
    ours = set_single_switches(**cufile);
    return configuration;
  }
  ours = fact(true, "cuFile is not open yet and will read our configuration when it is",
              std::string(variable));
  return configuration;
}

}  // namespace nobounce::provider
