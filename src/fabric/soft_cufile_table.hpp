// The state of the libcufile model: configuration in force, registered files and buffers,
// statistics.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "fabric/soft_cufile.hpp"
#include "fabric/soft_cufile_config.hpp"
#include "fabric/soft_cufile_mover.hpp"
#include "fabric/soft_cufile_statistics.hpp"
#include "fabric/soft_cufile_support.hpp"

namespace nobounce::fabric {

/// What a call answers, with no CUDA error behind it.
[[nodiscard]] inline system::cufile::CUfileError_t cufile_answer(int code) {
  return {code, 0};
}

/// A registered file. Owns a duplicate of the caller's descriptor.
struct CufileFile {
  CufileFile() = default;
  CufileFile(const CufileFile&) = delete;
  CufileFile& operator=(const CufileFile&) = delete;
  ~CufileFile();

  int descriptor = -1;
  Medium medium;
  int access_mode = 0;  ///< O_RDONLY, O_WRONLY, O_RDWR
  CufileSupport support;
  bool small_requests_staged = false;  ///< its file system has a posix_gds_min_kb
};

/// A registered buffer. Unmaps its BAR1 windows at the end.
struct CufileRegistration {
  CufileRegistration(Bus& on_bus, NvfsModule& by_module, CufileStatistics& counted,
                     std::uint64_t length)
      : bus(on_bus), module(by_module), statistics(counted), length_bytes(length) {}
  CufileRegistration(const CufileRegistration&) = delete;
  CufileRegistration& operator=(const CufileRegistration&) = delete;
  ~CufileRegistration();

  Bus& bus;
  NvfsModule& module;
  CufileStatistics& statistics;
  std::uint64_t length_bytes = 0;
  bool on_gpu = false;
  std::uint32_t gpu = 0;
  std::optional<BusAddress> window;
};

class SoftCufile : public system::Cufile {
 public:
  explicit SoftCufile(const SoftCufileParts& parts);

#define NOBOUNCE_CUFILE(type, method, symbol, parameters, arguments) \
  type method parameters override;
#include "system/cufile_functions.inc"
#undef NOBOUNCE_CUFILE

 private:
  static constexpr std::uint64_t handle_stride = 64;  ///< handles look like pointers, never reused
  static constexpr int first_version_with_parameters = 1140;
  static constexpr int first_version_with_statistics = 1150;

  /// A read or write call, with what its arguments were found to be.
  struct Call {
    std::shared_ptr<CufileFile> file;
    std::shared_ptr<CufileRegistration> buffer;  ///< null: not registered
    CufileMove move;
    std::uint64_t piece_bytes = 0;
    std::uint64_t cache_bytes = 0;
    bool compat_allowed = false;
    int refusal = 0;       ///< why the direct path is not possible: a cuFile code
    bool silence = false;  ///< staged although nobody allowed it
  };
  /// What a call answers: bytes, or -1 and an errno (or cuFile code in it).
  struct Answer {
    ssize_t bytes = 0;
    int errno_value = 0;
  };

  [[nodiscard]] bool has_statistics() const {
    return version_ >= first_version_with_statistics;
  }
  [[nodiscard]] int open_locked();
  [[nodiscard]] int register_file(const CUfileDescr_t& description, std::uint64_t& id);
  [[nodiscard]] int register_buffer(const void* base, std::size_t length);
  [[nodiscard]] int pin(CufileRegistration& buffer, DevicePointer pointer);
  void count_mapping(std::uint32_t gpu, bool succeeded);

  [[nodiscard]] Answer transfer(CUfileHandle_t handle, const void* base, std::size_t size,
                                off_t file_offset, off_t base_offset, bool writing);
  /// Fills a call in, or says what is wrong with its arguments.
  [[nodiscard]] int prepare(CUfileHandle_t handle, const void* base, std::size_t size,
                            off_t file_offset, off_t base_offset, Call& call);
  [[nodiscard]] int resolve_memory(const void* base, std::size_t size, off_t base_offset,
                                   Call& call);
  void choose_path(Call& call) const;
  [[nodiscard]] bool clamp_to_file(Call& call) const;
  [[nodiscard]] Answer carry_out(Call& call);

  const SoftCufileParts parts_;
  int version_ = 0;
  CufileStatistics statistics_;
  CufileMover mover_;
  std::shared_mutex running_;  ///< shared by requests, exclusive for closing the driver
  std::mutex mutex_;           ///< the rest; taken after running_
  long use_count_ = 0;
  CufileConfig config_;
  CufileStagedBools staged_bools_;
  std::optional<int> staged_level_;  ///< of statistics, set before opening
  std::uint64_t last_handle_ = 1u << 20;
  std::map<std::uint64_t, std::shared_ptr<CufileFile>> handles_;
  std::map<int, std::uint64_t> descriptors_;
  std::map<std::uintptr_t, std::shared_ptr<CufileRegistration>> buffers_;
};

}  // namespace nobounce::fabric
