// Counting calls against a plan of faults.
#include "system/fault_counter.hpp"

#include <utility>

namespace nobounce::system {

FaultCounter::FaultCounter(FaultPlan plan) : plan_(std::move(plan)) {}

bool FaultCounter::fails(std::string_view name) {
  if (name.substr(0, plan_.only.size()) != plan_.only) return false;
  const std::uint64_t call = calls_.fetch_add(1) + 1;
  if (plan_.fail_call == 0 || call < plan_.fail_call) return false;
  if (call > plan_.fail_call && !plan_.fail_all_after) return false;
  const std::lock_guard lock(mutex_);
  if (failed_call_.empty()) failed_call_ = name;
  return true;
}

Error FaultCounter::error(std::string_view name) const {
  return os_error(plan_.errno_value, std::string(name) + " (a planned fault)");
}

std::string FaultCounter::failed_call() const {
  const std::lock_guard lock(mutex_);
  return failed_call_;
}

}  // namespace nobounce::system
