// The cuFile driver as this provider uses it: opened once, on first need, verified, closed if we
// opened it.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include <nobounce/result.hpp>

#include "core/facts.hpp"
#include "provider/storage/statistics_window.hpp"
#include "system/host.hpp"

namespace nobounce::provider::storage {

/// Thread-safe.
class CufileDriver {
 public:
  CufileDriver(system::Host& host, const core::Fact& configuration_ours)
      : host_(host), configuration_ours_(configuration_ours) {}
  CufileDriver(const CufileDriver&) = delete;
  CufileDriver& operator=(const CufileDriver&) = delete;

  /// Opens the driver on the first call; later ones give the same answer.
  [[nodiscard]] Result<system::Cufile*> open();
  /// The answer of open() if it was ever asked.
  [[nodiscard]] std::optional<Status> opened() const;
  /// What is known of the configuration in force: what install() said, unless the open driver said
  /// otherwise.
  [[nodiscard]] core::Fact configuration_ours() const;
  /// The module's /proc directory was there when the driver was opened and is gone now.
  [[nodiscard]] bool module_vanished() const;
  /// All three as one number, for comparison; the module is looked for anew.
  [[nodiscard]] unsigned standing() const;
  /// A reading of the statistics; empty where they cannot be read. Only after open().
  [[nodiscard]] std::optional<PathCounters> read_counters(bool writing) const;
  void close();

 private:
  [[nodiscard]] Result<system::Cufile*> open_now();
  void verify_configuration(system::Cufile& cufile);
  void start_statistics(system::Cufile& cufile);

  system::Host& host_;
  mutable std::mutex mutex_;
  core::Fact configuration_ours_;
  std::optional<Result<system::Cufile*>> opened_;
  bool statistics_started_ = false;
  bool statistics_readable_ = false;
  bool module_was_there_ = false;
};

}  // namespace nobounce::provider::storage
