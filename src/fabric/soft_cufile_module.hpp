// The nvidia-fs kernel module of a software machine: loaded or not, its operation counters, its
// /proc files.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include <nobounce/machine.hpp>

#include "fabric/ledger.hpp"
#include "fabric/soft_host.hpp"

namespace nobounce::fabric {

/// Counts operations only; bytes in its statistics are read from the bus's ledger. Thread-safe.
class NvfsModule {
 public:
  /// All must outlive it.
  NvfsModule(const Machine& machine, const Ledger& ledger, const SoftFaults& faults)
      : machine_(machine), ledger_(ledger), faults_(faults) {}

  /// The machine has it, and the fault module_unloaded_after_requests has not struck.
  [[nodiscard]] bool loaded() const;
  /// The block driver of that drive registered with the module.
  [[nodiscard]] bool registered(const Drive& drive) const;

  /// One request handed to the module; false when it is not loaded (any more).
  [[nodiscard]] bool begin_request();
  void end_request(bool writing, bool succeeded);
  void count_mapping(bool succeeded);
  void count_unmapping();

  // Files of /proc/driver/nvidia-fs.
  [[nodiscard]] std::string version_text() const;
  [[nodiscard]] std::string devcount_text() const;
  [[nodiscard]] std::string modules_text() const;
  [[nodiscard]] std::string stats_text() const;
  [[nodiscard]] std::string peer_affinity_text() const;

 private:
  struct Operations {
    std::atomic<std::uint64_t> ok{0};
    std::atomic<std::uint64_t> failed{0};
  };

  const Machine& machine_;
  const Ledger& ledger_;
  const SoftFaults& faults_;
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<std::uint64_t> in_flight_{0};
  Operations reads_;
  Operations writes_;
  Operations mappings_;
  std::atomic<std::uint64_t> unmappings_{0};
};

}  // namespace nobounce::fabric
