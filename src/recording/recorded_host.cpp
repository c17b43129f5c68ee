// The parts of a recorded machine: files, tables and environment answer, all else refuses.
#include "recording/recorded_host.hpp"

#include <cerrno>
#include <string>
#include <utility>

#include "recording/recorded_files.hpp"
#include "recording/recorded_tables.hpp"
#include "recording/refusing_storage.hpp"
#include "system/verbs.hpp"

namespace nobounce::recording {
namespace {

class RecordedEnvironment final : public system::Environment {
 public:
  explicit RecordedEnvironment(const Recording& recording) : recording_(recording) {}
  std::optional<std::string> get(std::string_view name) override {
    const auto at = recording_.environment.find(name);
    if (at == recording_.environment.end()) return std::nullopt;
    return at->second;
  }
  Status set(std::string_view name, std::string_view) override {
    return recording_only("set " + std::string(name));
  }

 private:
  const Recording& recording_;
};

class RefusingMemory final : public system::Memory {
 public:
  Result<system::HostBuffer> allocate_pinned(std::uint64_t, std::uint32_t,
                                             system::MemoryUse) override {
    return recording_only("allocate pinned memory");
  }
  Result<system::HostBuffer> allocate_plain(std::uint64_t, std::uint32_t) override {
    return recording_only("allocate memory");
  }
  void free(const system::HostBuffer&) override {}
  void copy(std::byte*, const std::byte*, std::size_t) override {}
};

class RefusingCounters final : public system::Counters {
 public:
  Result<std::uint64_t> cpu_time_ns() override { return recording_only("read the CPU time"); }
  Result<double> perf_event(std::string_view pmu, std::string_view event) override {
    return recording_only("count " + std::string(pmu) + "/" + std::string(event));
  }
};

class RecordedHost final : public system::Host {
 public:
  RecordedHost(Recording recording, system::Host& around)
      : recording_(std::move(recording)),
        around_(around),
        files_(recording_.files),
        storage_(recording_),
        environment_(recording_),
        nvml_(recorded_nvml(recording_.nvml)),
        cuda_(recorded_cuda(recording_.cuda)),
        cufile_(recorded_cufile(recording_.cufile)) {}

  HostKind kind() const override { return HostKind::recorded; }
  std::string_view name() const override { return recording_.name; }
  Result<system::Cuda*> cuda() override {
    if (auto error = absence(recording_.cuda, "libcuda.so.1")) return *error;
    return cuda_.get();
  }
  Result<system::Nvml*> nvml() override {
    if (auto error = absence(recording_.nvml, "libnvidia-ml.so.1")) return *error;
    return nvml_.get();
  }
  Result<system::Cufile*> cufile() override {
    if (auto error = absence(recording_.cufile, "libcufile.so.0")) return *error;
    return cufile_.get();
  }
  /// The library alone: what it would say of adapters, /sys says as well.
  Result<system::Verbs*> verbs() override {
    if (auto error = absence(recording_.verbs, "libibverbs.so.1")) return *error;
    return &verbs_;
  }
  system::Files& files() override { return files_; }
  system::Storage& storage() override { return storage_; }
  system::Memory& memory() override { return memory_; }
  system::Counters& counters() override { return counters_; }
  system::Environment& environment() override { return environment_; }
  system::Workers& workers() override { return around_.workers(); }
  system::Process& process() override { return around_.process(); }
  system::Clock& clock() override { return around_.clock(); }
  system::Entropy& entropy() override { return around_.entropy(); }

 private:
  const Recording recording_;
  system::Host& around_;
  RecordedFiles files_;
  RefusingStorage storage_;
  RecordedEnvironment environment_;
  RefusingMemory memory_;
  RefusingCounters counters_;
  system::Verbs verbs_;
  std::unique_ptr<system::Nvml> nvml_;
  std::unique_ptr<system::Cuda> cuda_;
  std::unique_ptr<system::Cufile> cufile_;
};

}  // namespace

std::unique_ptr<system::Host> make_recorded_host(Recording recording, system::Host& around) {
  return std::make_unique<RecordedHost>(std::move(recording), around);
}

}  // namespace nobounce::recording
