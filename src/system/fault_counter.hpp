// Counts the calls that can fail and says which one must.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "system/faulty_host.hpp"

namespace nobounce::system {

/// Shared by all parts of one FaultyHost. Thread-safe; allocates only when a call is failed.
class FaultCounter {
 public:
  explicit FaultCounter(FaultPlan plan);

  /// Counts one call by its `part.method` name; true: it must fail without reaching the inner host.
  [[nodiscard]] bool fails(std::string_view name);
  /// The error of a failed call that answers a Result.
  [[nodiscard]] Error error(std::string_view name) const;

  [[nodiscard]] const FaultPlan& plan() const { return plan_; }
  [[nodiscard]] std::uint64_t calls() const { return calls_.load(); }
  [[nodiscard]] std::string failed_call() const;

 private:
  FaultPlan plan_;
  std::atomic<std::uint64_t> calls_{0};
  mutable std::mutex mutex_;
  std::string failed_call_;
};

}  // namespace nobounce::system
