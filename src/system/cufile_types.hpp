// Our own minimal declarations of libcufile's types and constants (cufile.h of CUDA 13.0), with
// their layout asserted.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace nobounce::system::cufile {

struct CUfileError_t {
  int err;     ///< CUfileOpError: 0 or 5000 + n
  int cu_err;  ///< CUresult behind it, if any
};
using CUfileHandle_t = void*;

struct CUfileDescr_t {
  int type;
  union {
    int fd;
    void* handle;
  } handle;
  const void* fs_ops;
};

struct CUfileDrvProps_t {
  struct {
    unsigned major_version;
    unsigned minor_version;
    std::size_t poll_thresh_size;
    std::size_t max_direct_io_size;
    unsigned dstatusflags;
    unsigned dcontrolflags;
  } nvfs;
  unsigned fflags;
  unsigned max_device_cache_size;
  unsigned per_buffer_cache_size;
  unsigned max_device_pinned_mem_size;
  unsigned max_batch_io_size;
  unsigned max_batch_io_timeout_msecs;
};

struct CUfileOpCounter_t {
  std::uint64_t ok;
  std::uint64_t err;
};

struct CUfileStatsLevel1_t {
  CUfileOpCounter_t read_ops, write_ops, hdl_register_ops, hdl_deregister_ops, buf_register_ops,
      buf_deregister_ops;
  std::uint64_t read_bytes, write_bytes;
  std::uint64_t rest[50];
};

struct CUfileStatsLevel2_t {
  CUfileStatsLevel1_t basic;
  std::uint64_t read_size_kb_hist[32];
  std::uint64_t write_size_kb_hist[32];
};

struct CUfilePerGpuStats_t {
  char uuid[16];
  std::uint64_t read_bytes, read_bw_bytes_per_sec, read_utilization, read_duration_us;
  std::uint64_t n_total_reads, n_p2p_reads, n_nvfs_reads, n_posix_reads, n_unaligned_reads,
      n_dr_reads;
  std::uint64_t n_sparse_regions, n_inline_regions, n_reads_err;
  std::uint64_t writes_bytes, write_bw_bytes_per_sec, write_utilization, write_duration_us;
  std::uint64_t n_total_writes, n_p2p_writes, n_nvfs_writes, n_posix_writes, n_unaligned_writes,
      n_dr_writes;
  std::uint64_t n_writes_err;
  std::uint64_t n_mmap, n_mmap_ok, n_mmap_err, n_mmap_free;
  std::uint64_t reg_bytes;
};

struct CUfileStatsLevel3_t {
  CUfileStatsLevel2_t detailed;
  std::uint32_t num_gpus;
  std::uint32_t padding;
  CUfilePerGpuStats_t per_gpu_stats[16];
};

static_assert(sizeof(CUfileError_t) == 8);
static_assert(sizeof(CUfileDescr_t) == 24);
static_assert(sizeof(CUfileDrvProps_t) == 56);
static_assert(sizeof(CUfileStatsLevel1_t) == 512);
static_assert(offsetof(CUfileStatsLevel1_t, read_bytes) == 96);
static_assert(sizeof(CUfileStatsLevel2_t) == 1024);
static_assert(sizeof(CUfilePerGpuStats_t) == 248);
static_assert(offsetof(CUfilePerGpuStats_t, n_p2p_reads) == 56);
static_assert(offsetof(CUfilePerGpuStats_t, n_p2p_writes) == 160);
static_assert(offsetof(CUfilePerGpuStats_t, reg_bytes) == 240);
static_assert(sizeof(CUfileStatsLevel3_t) == 5000);

inline constexpr int success = 0;
inline constexpr int error_driver_not_initialized = 5001;
inline constexpr int error_driver_closing = 5006;
inline constexpr int error_platform_not_supported = 5007;
inline constexpr int error_io_not_supported = 5008;
inline constexpr int error_device_not_supported = 5009;
inline constexpr int error_nvfs_driver = 5010;
inline constexpr int error_cuda_pointer_invalid = 5012;
inline constexpr int error_cuda_memory_type_invalid = 5013;
inline constexpr int error_cuda_pointer_range = 5014;
inline constexpr int error_invalid_mapping_size = 5016;
inline constexpr int error_invalid_mapping_range = 5017;
inline constexpr int error_invalid_file_type = 5018;
inline constexpr int error_invalid_file_open_flag = 5019;
inline constexpr int error_dio_not_set = 5020;
inline constexpr int error_invalid_value = 5022;
inline constexpr int error_memory_already_registered = 5023;
inline constexpr int error_memory_not_registered = 5024;
inline constexpr int error_driver_already_open = 5026;
inline constexpr int error_handle_not_registered = 5027;
inline constexpr int error_handle_already_registered = 5028;
inline constexpr int error_internal = 5030;
inline constexpr int error_nvfs_setup = 5033;
inline constexpr int error_io_disabled = 5034;
inline constexpr int error_gpu_memory_pinning_failed = 5036;
inline constexpr int error_io = 5044;
/// What the absent default answers: the library is not there.
inline constexpr int error_absent = error_platform_not_supported;

inline constexpr int handle_type_opaque_fd = 1;
inline constexpr int parameter_bool_allow_compat_mode = 1;
inline constexpr int parameter_bool_force_compat_mode = 2;
inline constexpr int parameter_bool_use_pcip2pdma = 7;
inline constexpr int parameter_size_profile_stats = 0;

}  // namespace nobounce::system::cufile
