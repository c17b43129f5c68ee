// A host whose /sys and /proc are in memory and whose foreign libraries are absent unless given;
// the rest is live.
#pragma once

#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "support/memory_files.hpp"
#include "system/host.hpp"
#include "system/live_host.hpp"

namespace nobounce::support {

/// Variables in a map.
class MemoryEnvironment : public system::Environment {
 public:
  std::map<std::string, std::string, std::less<>> variables;
  std::optional<std::string> get(std::string_view name) override {
    const auto at = variables.find(name);
    if (at == variables.end()) return std::nullopt;
    return at->second;
  }
  Status set(std::string_view name, std::string_view value) override {
    variables[std::string(name)] = value;
    return {};
  }
};

class MemoryHost : public system::Host {
 public:
  MemoryFiles tree;
  MemoryEnvironment variables;
  system::Cuda* cuda_table = nullptr;
  system::Nvml* nvml_table = nullptr;
  system::Cufile* cufile_table = nullptr;
  system::Storage* storage_part = nullptr;  ///< null: the live one

  HostKind kind() const override { return HostKind::soft; }
  std::string_view name() const override { return "memory"; }
  Result<system::Cuda*> cuda() override { return table(cuda_table, "libcuda.so.1"); }
  Result<system::Nvml*> nvml() override { return table(nvml_table, "libnvidia-ml.so.1"); }
  Result<system::Cufile*> cufile() override { return table(cufile_table, "libcufile.so.0"); }
  system::Files& files() override { return tree; }
  system::Storage& storage() override {
    return storage_part != nullptr ? *storage_part : live_->storage();
  }
  system::Memory& memory() override { return live_->memory(); }
  system::Workers& workers() override { return live_->workers(); }
  system::Counters& counters() override { return live_->counters(); }
  system::Environment& environment() override { return variables; }
  system::Process& process() override { return live_->process(); }
  system::Clock& clock() override { return live_->clock(); }
  system::Entropy& entropy() override { return live_->entropy(); }

 private:
  template <typename Table>
  static Result<Table*> table(Table* given, const char* file) {
    if (given != nullptr) return given;
    return os_error(ENOENT, std::string("load ") + file);
  }

  std::unique_ptr<system::Host> live_ = system::make_live_host();
};

}  // namespace nobounce::support
