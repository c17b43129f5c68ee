// LiveEnvironment: the process's variables; set only while nobody else can be reading them.
#include <cerrno>
#include <cstdlib>

#include "system/live_files.hpp"
#include "system/live_parts.hpp"

namespace nobounce::system {
namespace {

class LiveEnvironment final : public Environment {
 public:
  std::optional<std::string> get(std::string_view name) override {
    const char* const value = std::getenv(std::string(name).c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  }
  Status set(std::string_view name, std::string_view value) override;
};

Status LiveEnvironment::set(std::string_view name, std::string_view value) {
  const std::string attempted = "set the environment variable " + std::string(name);
  if (name.find('\0') != name.npos || value.find('\0') != value.npos) {
    return os_error(EINVAL, attempted);
  }
  const auto threads = make_live_files("/")->list("/proc/self/task");
  if (!threads) return threads.error();
  if (threads->size() > 1) {
    Error error;
    error.origin = ErrorOrigin::session;
    error.attempted = attempted;
    error.detail = "the process has " + std::to_string(threads->size()) +
                   " threads, and one of them may be reading the environment";
    error.remedy = "set " + std::string(name) + "=" + std::string(value) +
                   " before the program starts, or open the session before any thread";
    return error;
  }
  if (::setenv(std::string(name).c_str(), std::string(value).c_str(), 1) != 0) {
    return os_error(errno, attempted);
  }
  return {};
}

}  // namespace

std::unique_ptr<Environment> make_live_environment() {
  return std::make_unique<LiveEnvironment>();
}

}  // namespace nobounce::system
