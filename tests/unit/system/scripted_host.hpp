// A live host whose CUDA, process and environment are scripted by the test.
#pragma once

#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "system/live_host.hpp"

namespace nobounce::test {

/// A driver that keeps books: devices, retained contexts, current contexts per thread,
/// registrations.
class ScriptedCuda : public system::Cuda {
 public:
  struct Device {
    unsigned char uuid_seed = 0;
    bool has_uuid = true;
    std::string bdf;
  };
  std::vector<Device> devices;
  int init_code = 0;
  int register_code = 0;
  int retain_code = 0;
  bool initialised = false;
  std::map<int, int> retained;                  // device -> references
  std::map<void*, std::size_t> registered;      // address -> bytes
  std::map<void*, CUcontext> registered_under;  // address -> current context then
  unsigned last_register_flags = 0;
  std::vector<CUcontext> current;  // of the one thread of these tests
  std::mutex mutex;

  static CUcontext context_of(int device) { return reinterpret_cast<CUcontext>(0x1000 + device); }

  CUresult init(unsigned) override {
    if (init_code == 0) initialised = true;
    return init_code;
  }
  CUresult device_get_count(int* count) override {
    *count = static_cast<int>(devices.size());
    return 0;
  }
  CUresult device_get(CUdevice* device, int ordinal) override {
    if (ordinal < 0 || ordinal >= static_cast<int>(devices.size())) return 101;
    *device = ordinal + 50;
    return 0;
  }
  CUresult device_get_uuid(CUuuid* uuid, CUdevice device) override {
    const Device& found = devices[static_cast<std::size_t>(device - 50)];
    if (!found.has_uuid) return system::cuda::error_not_supported;
    for (int index = 0; index < 16; ++index) {
      uuid->bytes[index] = static_cast<unsigned char>(found.uuid_seed + index);
    }
    return 0;
  }
  CUresult device_get_pci_bus_id(char* text, int length, CUdevice device) override {
    std::snprintf(text, static_cast<std::size_t>(length), "%s",
                  devices[static_cast<std::size_t>(device - 50)].bdf.c_str());
    return 0;
  }
  CUresult device_primary_ctx_retain(CUcontext* context, CUdevice device) override {
    const std::lock_guard lock(mutex);
    if (retain_code != 0) return retain_code;
    ++retained[device];
    *context = context_of(device);
    return 0;
  }
  CUresult device_primary_ctx_release(CUdevice device) override {
    const std::lock_guard lock(mutex);
    return --retained[device] < 0 ? 1 : 0;
  }
  CUresult ctx_get_current(CUcontext* context) override {
    if (!initialised) return system::cuda::error_not_initialized;
    *context = current.empty() ? nullptr : current.back();
    return 0;
  }
  CUresult ctx_push_current(CUcontext context) override {
    current.push_back(context);
    return 0;
  }
  CUresult ctx_pop_current(CUcontext* context) override {
    if (current.empty()) return system::cuda::error_invalid_context;
    *context = current.back();
    current.pop_back();
    return 0;
  }
  CUresult mem_host_register(void* pointer, std::size_t bytes, unsigned flags) override {
    if (current.empty()) return system::cuda::error_invalid_context;
    if (register_code != 0) return register_code;
    registered[pointer] = bytes;
    registered_under[pointer] = current.back();
    last_register_flags = flags;
    return 0;
  }
  CUresult mem_host_unregister(void* pointer) override {
    if (current.empty()) return system::cuda::error_invalid_context;
    return registered.erase(pointer) == 1 ? 0 : system::cuda::error_host_memory_not_registered;
  }
  CUresult get_error_name(CUresult error, const char** name) override {
    if (error == system::cuda::error_out_of_memory) *name = "CUDA_ERROR_OUT_OF_MEMORY";
    return error == system::cuda::error_out_of_memory ? 0 : 1;
  }
};

class ScriptedProcess : public system::Process {
 public:
  std::uint64_t number = 100;
  std::uint64_t id() override { return number; }
  bool alive(std::uint64_t) override { return true; }
  std::uint32_t user() override { return 0; }
  void warn(std::string_view) override {}
};

class ScriptedEnvironment : public system::Environment {
 public:
  std::map<std::string, std::string, std::less<>> variables;
  std::optional<std::string> get(std::string_view name) override {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  }
  Status set(std::string_view, std::string_view) override { return {}; }
};

class ScriptedHost : public system::Host {
 public:
  ScriptedCuda driver;
  bool driver_absent = false;
  ScriptedProcess scripted_process;
  ScriptedEnvironment scripted_environment;

  HostKind kind() const override { return HostKind::live; }
  std::string_view name() const override { return "scripted"; }
  Result<system::Cuda*> cuda() override {
    if (driver_absent) return os_error(2, "load libcuda.so.1");
    return static_cast<system::Cuda*>(&driver);
  }
  Result<system::Nvml*> nvml() override { return &nvml_; }
  Result<system::Cufile*> cufile() override { return &cufile_; }
  system::Files& files() override { return live_->files(); }
  system::Storage& storage() override { return live_->storage(); }
  system::Memory& memory() override { return live_->memory(); }
  system::Workers& workers() override { return live_->workers(); }
  system::Counters& counters() override { return live_->counters(); }
  system::Environment& environment() override { return scripted_environment; }
  system::Process& process() override { return scripted_process; }
  system::Clock& clock() override { return live_->clock(); }
  system::Entropy& entropy() override { return live_->entropy(); }

 private:
  std::unique_ptr<system::Host> live_ = system::make_live_host();
  system::Nvml nvml_;
  system::Cufile cufile_;
};

}  // namespace nobounce::test
