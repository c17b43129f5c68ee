// The configuration of the libcufile model: what it reads at open, from parameters, environment and
// JSON.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nobounce/result.hpp>

#include "core/json.hpp"
#include "system/files.hpp"
#include "system/host.hpp"

namespace nobounce::fabric {

inline constexpr std::size_t cufile_bool_count = 12;

/// Bool parameters that were set by call and not yet replaced.
using CufileStagedBools = std::array<std::optional<bool>, cufile_bool_count>;

/// Defaults are those of libcufile at CUDA 13.0.
struct CufileConfig {
  /// Indexed by CUFileBoolConfigParameter_t: poll mode, allow compat, force compat, check
  /// aggressive, parallel I/O, NVTX, system memory, P2PDMA, io_uring, force O_DIRECT, skip
  /// topology, stream memory operations bypass.
  std::array<bool, cufile_bool_count> bools = {false, true,  false, false, true,  false,
                                               true,  false, false, false, false, false};
  bool gds_rdma_write_support = true;
  bool posix_unaligned_writes = false;
  std::uint64_t posix_gds_min_kb = 0;  ///< lustre, beegfs, scatefs: smaller requests are staged
  std::uint64_t max_direct_io_size_kb = 16384;
  std::uint64_t per_buffer_cache_size_kb = 1024;
  std::uint64_t max_device_cache_size_kb = 131072;
  std::uint64_t max_device_pinned_mem_size_kb = 33554432;
  std::uint64_t stats_level = 0;
  std::vector<std::string> denied_drivers;
  std::vector<std::string> denied_devices;
  std::vector<std::string> denied_mounts;
  std::vector<std::string> denied_file_systems;
  std::string read_from;  ///< the file, or empty: defaults

  [[nodiscard]] bool allow_compat() const { return bools[1]; }
  [[nodiscard]] bool force_compat() const { return bools[2]; }
};

/// Parameters set by call win over the environment, which wins over the first configuration file
/// that can be read: CUFILE_ENV_PATH_JSON, /etc/cufile.json, /usr/local/cuda/gds/cufile.json. The
/// first may be a real file of this process (/proc/self/fd/N). A file that is not JSON is an error.
[[nodiscard]] Result<CufileConfig> load_cufile_config(system::Files& files,
                                                      system::Environment& environment,
                                                      const CufileStagedBools& staged);

/// One document onto a configuration. Unknown keys are passed over, as the library does.
void apply_cufile_json(const core::Json& document, CufileConfig& config);

}  // namespace nobounce::fabric
