// SoftHost put together: the one place that knows all parts of a software machine.
#include "fabric/soft_host.hpp"

#include <cerrno>
#include <utility>

#include "core/machine_json.hpp"
#include "fabric/bus.hpp"
#include "fabric/soft_clock.hpp"
#include "fabric/soft_counters.hpp"
#include "fabric/soft_cuda.hpp"
#include "fabric/soft_cufile.hpp"
#include "fabric/soft_cufile_module.hpp"
#include "fabric/soft_environment.hpp"
#include "fabric/soft_files.hpp"
#include "fabric/soft_gpu.hpp"
#include "fabric/soft_gpu_engine.hpp"
#include "fabric/soft_memory.hpp"
#include "fabric/soft_network.hpp"
#include "fabric/soft_nvml.hpp"
#include "fabric/soft_pci.hpp"
#include "fabric/soft_process.hpp"
#include "fabric/soft_random.hpp"
#include "fabric/soft_storage.hpp"
#include "fabric/soft_verbs.hpp"
#include "fabric/soft_workers.hpp"
#include "system/live_host.hpp"
#include "system/network.hpp"

namespace nobounce::fabric {

namespace {

class SoftEntropy final : public system::Entropy {
 public:
  explicit SoftEntropy(std::uint64_t seed) : random_(seed) {}
  void fill(std::span<std::byte> target) override {
    for (std::byte& byte : target) byte = static_cast<std::byte>(random_.next() & 0xff);
  }

 private:
  SoftRandom random_;
};

/// Streams of one seed that do not disturb one another.
enum class Draws : std::uint64_t {
  faults = 1,
  schedule = 2,
  engines = 3,
  entropy = 4,
  network = 5,
  drives = 6,
  nics = 7
};

std::uint64_t seed_for(std::uint64_t seed, Draws draws) {
  SoftRandom mixer(seed * 8 + static_cast<std::uint64_t>(draws));
  return mixer.next();
}

Error absent(const char* library, const char* why, Cause cause) {
  Error error = os_error(ENOENT, std::string("load ") + library, cause);
  error.detail = std::string(library) + ": " + why;
  return error;
}

class SoftHostParts final : public SoftHost {
 public:
  SoftHostParts(Machine machine, const SoftOptions& options)
      : machine_(std::move(machine)),
        options_(options),
        faults_(options.faults),
        fault_random_(seed_for(options.seed, Draws::faults)),
        engine_random_(seed_for(options.seed, Draws::engines)),
        nic_random_(seed_for(options.seed, Draws::nics)) {}

  Status build();

  HostKind kind() const override { return HostKind::soft; }
  std::string_view name() const override { return machine_.name; }
  Result<system::Cuda*> cuda() override {
    if (cuda_ == nullptr) return absent("libcuda.so.1", no_gpu, Cause::machine_no_gpu);
    return cuda_.get();
  }
  Result<system::Nvml*> nvml() override {
    if (nvml_ == nullptr) return absent("libnvidia-ml.so.1", no_gpu, Cause::machine_no_gpu);
    return nvml_.get();
  }
  Result<system::Cufile*> cufile() override {
    if (cufile_ == nullptr) {
      return absent("libcufile.so.0", "not installed on this software machine", Cause::none);
    }
    return cufile_.get();
  }
  Result<system::Pci*> pci() override { return static_cast<system::Pci*>(pci_.get()); }
  Result<system::Verbs*> verbs() override {
    if (verbs_ == nullptr) {
      return absent("libibverbs.so.1", "not on this software machine, which has no adapter",
                    Cause::rdma_no_rdma_device);
    }
    return verbs_.get();
  }
  system::Files& files() override { return *files_; }
  system::Storage& storage() override { return *storage_; }
  system::Memory& memory() override { return *memory_; }
  system::Workers& workers() override { return *workers_; }
  system::Counters& counters() override { return *counters_; }
  system::Environment& environment() override { return *environment_; }
  system::Process& process() override { return *process_; }
  system::Clock& clock() override { return *clock_; }
  system::Entropy& entropy() override { return *entropy_; }
  Result<system::Network*> network() override { return network_.get(); }

  const Machine& machine() const override { return machine_; }
  Bus& bus() override { return *bus_; }
  const Ledger& ledger() const override { return std::as_const(*bus_).ledger(); }
  SoftFaults& faults() override { return faults_; }
  system::cuda::CUresult launch(system::cuda::CUstream stream, Kernel kernel) override {
    if (cuda_ == nullptr) return system::cuda::error_no_device;
    return cuda_->launch(stream, std::move(kernel));
  }
  Result<OtherProcessMemory> export_from_other_process(std::uint32_t gpu,
                                                       std::uint64_t length_bytes) override {
    std::optional<OtherProcessMemory> made;
    if (cuda_ != nullptr) made = cuda_->export_from_other_process(gpu, length_bytes);
    if (made) return *made;
    Error error;
    error.origin = ErrorOrigin::fabric;
    error.attempted = "export " + std::to_string(length_bytes) +
                      " bytes of gpu:" + std::to_string(gpu) + " from another process";
    error.detail = "there is no such GPU, or no such room on it";
    return error;
  }
  std::optional<Medium> raw_medium(std::uint32_t drive) override { return pci_->raw_medium(drive); }
  std::uint64_t cpu_touches() const override { return bus_->cpu_touches(); }

 private:
  static constexpr const char* no_gpu = "not on this software machine, which has no GPU";

  // In the order of construction; destroyed the other way round, engines before the bus.
  const Machine machine_;
  const SoftOptions options_;
  SoftFaults faults_;
  SoftRandom fault_random_;
  SoftRandom engine_random_;
  SoftRandom nic_random_;
  std::unique_ptr<system::Entropy> entropy_;
  SoftClock* virtual_clock_ = nullptr;  ///< clock_ of a deterministic machine
  std::unique_ptr<system::Clock> clock_;
  std::unique_ptr<Bus> bus_;
  std::unique_ptr<system::Network> network_;
  std::unique_ptr<SoftWorkers> workers_;
  std::unique_ptr<GpuAllocations> allocations_;
  DmaBufs dmabufs_;
  std::unique_ptr<system::Environment> environment_;
  std::unique_ptr<NvfsModule> module_;
  std::unique_ptr<SoftPci> pci_;
  std::unique_ptr<system::Files> files_;
  std::unique_ptr<SoftStorage> storage_;
  std::unique_ptr<system::Memory> memory_;
  std::unique_ptr<system::Counters> counters_;
  std::unique_ptr<system::Process> process_;
  std::unique_ptr<GpuEngines> engines_;
  std::unique_ptr<SoftCudaTable> cuda_;
  std::unique_ptr<system::Nvml> nvml_;
  std::unique_ptr<system::Cufile> cufile_;
  std::unique_ptr<system::Verbs> verbs_;
};

Status SoftHostParts::build() {
  BusOptions bus_options;
  bus_options.trap_cpu_touches = options_.trap_cpu_touches;
  bus_options.mutant = faults_.mutant;
  bus_options.dma_fault = [this] { return fault_random_.chance(faults_.dma_fault); };
  if (options_.deterministic) {
    auto clock = std::make_unique<SoftClock>();
    virtual_clock_ = clock.get();
    bus_options.carried = [this](std::uint64_t length_bytes) {
      virtual_clock_->spend(length_bytes);
    };
    workers_ = make_deterministic_workers(*clock, seed_for(options_.seed, Draws::schedule));
    clock_ = std::move(clock);
    entropy_ = std::make_unique<SoftEntropy>(seed_for(options_.seed, Draws::entropy));
    network_ = make_in_process_network(seed_for(options_.seed, Draws::network));
  } else {
    clock_ = system::make_live_clock();
    workers_ = make_threaded_soft_workers(*clock_);
    entropy_ = system::make_live_entropy();  // what other processes must not guess
    network_ = system::make_live_network();  // of the local machine: other processes are real
  }
  Result<std::unique_ptr<Bus>> bus = Bus::create(machine_, std::move(bus_options));
  if (!bus.ok()) return std::move(bus).error();
  bus_ = std::move(bus).value();
  allocations_ = std::make_unique<GpuAllocations>(*bus_);
  pci_ = make_soft_pci(*bus_, *workers_, faults_, seed_for(options_.seed, Draws::drives));
  environment_ = make_soft_environment(machine_);
  module_ = std::make_unique<NvfsModule>(machine_, ledger(), faults_);
  files_ = make_soft_files(machine_, *module_, ledger());
  storage_ =
      make_soft_storage(*bus_, machine_, faults_, fault_random_, system::make_live_storage());
  memory_ = make_soft_memory(*bus_, *allocations_);
  counters_ = make_soft_counters(*bus_, machine_, system::make_live_counters());
  process_ = make_soft_process();
  if (!machine_.gpus.empty()) {
    engines_ = std::make_unique<GpuEngines>(*bus_, *workers_, *clock_, faults_, engine_random_);
    cuda_ = make_soft_cuda(*bus_, *allocations_, *engines_, *environment_, dmabufs_);
    nvml_ = make_soft_nvml(*bus_, *allocations_, *clock_);
  }
  if (!machine_.nics.empty()) {
    verbs_ = make_soft_verbs({*bus_, *allocations_, dmabufs_, *workers_, *clock_, faults_,
                              nic_random_, options_.deterministic});
  }
  if (!machine_.libcufile.empty()) {
    cufile_ = make_soft_cufile({*bus_, machine_, faults_, fault_random_, *allocations_, *storage_,
                                *files_, *environment_, *module_});
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<SoftHost>> SoftHost::create(const Machine& machine,
                                                   const SoftOptions& options) {
  Machine complete = machine;
  core::complete_machine(complete);
  if (Status valid = validate(complete); !valid.ok()) return valid.error();
  auto host = std::make_unique<SoftHostParts>(std::move(complete), options);
  if (Status built = host->build(); !built.ok()) return built.error();
  return std::unique_ptr<SoftHost>(std::move(host));
}

}  // namespace nobounce::fabric
