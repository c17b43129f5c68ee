// Statistics of the libcufile model: operations as the library counts them, read out in its own
// structs.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include <nobounce/machine.hpp>

#include "fabric/soft_host.hpp"
#include "system/cufile_types.hpp"

namespace nobounce::fabric {

/// How one read or write call was carried out.
struct CufileOperation {
  bool writing = false;
  bool on_gpu = false;  ///< the buffer is GPU memory of `gpu`
  std::uint32_t gpu = 0;
  bool nvfs = false;       ///< went to the kernel module
  bool posix = false;      ///< staged: POSIX I/O and a copy
  bool unaligned = false;  ///< part of it went through the bounce cache for alignment
  bool succeeded = false;
  std::uint64_t bytes = 0;
};

/// Counts only between start and stop, and not at all under the fault statistics_stuck.
/// Thread-safe.
class CufileStatistics {
 public:
  CufileStatistics(const Machine& machine, const SoftFaults& faults)
      : machine_(machine), faults_(faults) {}

  /// At driver open, with the level of the configuration: above 0 counting starts at once.
  void reset(std::uint64_t level);
  void set_level(int level);
  [[nodiscard]] int level() const;
  void start();
  void stop();

  void count_operation(const CufileOperation& operation);
  void count_handle(bool registering, bool succeeded);
  void count_buffer(bool registering, bool succeeded, bool on_gpu, std::uint32_t gpu,
                    std::uint64_t length_bytes);
  void count_mapping(std::uint32_t gpu, bool succeeded);
  void count_unmapping(std::uint32_t gpu);

  void read_out(system::cufile::CUfileStatsLevel3_t& target) const;

 private:
  [[nodiscard]] bool counting() const;

  const Machine& machine_;
  const SoftFaults& faults_;
  mutable std::mutex mutex_;
  int level_ = 0;
  bool running_ = false;
  system::cufile::CUfileStatsLevel3_t totals_{};
};

}  // namespace nobounce::fabric
