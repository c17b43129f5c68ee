// SoftEnvironment: a map under a lock.
#include "fabric/soft_environment.hpp"

#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace nobounce::fabric {
namespace {

class SoftEnvironment : public system::Environment {
 public:
  explicit SoftEnvironment(const Machine& machine)
      : variables_(machine.environment.begin(), machine.environment.end()) {}

  std::optional<std::string> get(std::string_view name) override {
    const std::lock_guard lock(mutex_);
    const auto at = variables_.find(name);
    if (at == variables_.end()) return std::nullopt;
    return at->second;
  }

  Status set(std::string_view name, std::string_view value) override {
    const std::lock_guard lock(mutex_);
    variables_.insert_or_assign(std::string(name), std::string(value));
    return {};
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string, std::less<>> variables_;
};

}  // namespace

std::unique_ptr<system::Environment> make_soft_environment(const Machine& machine) {
  return std::make_unique<SoftEnvironment>(machine);
}

}  // namespace nobounce::fabric
