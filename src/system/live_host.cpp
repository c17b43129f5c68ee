// LiveHost: this machine, its parts put together; foreign libraries are loaded when first asked
// for.
#include "system/live_host.hpp"

#include <mutex>
#include <optional>
#include <utility>

#include "system/live_cuda.hpp"
#include "system/live_cufile.hpp"
#include "system/live_files.hpp"
#include "system/live_library.hpp"
#include "system/live_nvml.hpp"
#include "system/live_parts.hpp"
#include "system/live_pci.hpp"
#include "system/live_verbs.hpp"
#include "system/network.hpp"

namespace nobounce::system {
namespace {

/// A table whose library is loaded by the first call for it. Thread-safe; the answer stays the
/// same.
template <typename Table, typename LiveTable>
class LazyTable {
 public:
  LazyTable(std::string file, Cause cause, std::string remedy)
      : file_(std::move(file)), cause_(cause), remedy_(std::move(remedy)) {}

  Result<Table*> get() {
    std::call_once(loaded_, [this] { load(); });
    if (table_.has_value()) return static_cast<Table*>(&*table_);
    return *error_;
  }

 private:
  void load() {
    auto library = load_library(file_);
    if (library) {
      table_.emplace(*library);
      return;
    }
    error_ = library.error();
    error_->cause = cause_;
    error_->remedy = remedy_;
  }

  std::string file_;
  Cause cause_;
  std::string remedy_;
  std::once_flag loaded_;
  std::optional<LiveTable> table_;
  std::optional<Error> error_;
};

constexpr const char* driver_remedy =
    "install the NVIDIA driver; without a GPU, try a software machine (soft:workstation)";

constexpr const char* cufile_remedy = "install libcufile, which comes with the CUDA toolkit";

constexpr const char* verbs_remedy = "sudo apt-get install libibverbs1 ibverbs-providers";

class LiveHost final : public Host {
 public:
  explicit LiveHost(const LiveOptions& options)
      : cuda_(options.cuda_library, Cause::none, driver_remedy),
        nvml_(options.nvml_library, Cause::none, driver_remedy),
        cufile_(options.cufile_library, Cause::storage_cufile_absent, cufile_remedy),
        verbs_(options.verbs_library, Cause::rdma_verbs_absent, verbs_remedy),
        files_(make_live_files(options.root)) {}

  HostKind kind() const override { return HostKind::live; }
  std::string_view name() const override { return "live"; }
  Result<Cuda*> cuda() override { return cuda_.get(); }
  Result<Nvml*> nvml() override { return nvml_.get(); }
  Result<Cufile*> cufile() override { return cufile_.get(); }
  Result<Verbs*> verbs() override { return verbs_.get(); }
  Result<Pci*> pci() override { return pci_.get(); }
  Files& files() override { return *files_; }
  Storage& storage() override { return *storage_; }
  Memory& memory() override { return *memory_; }
  Workers& workers() override { return *workers_; }
  Counters& counters() override { return *counters_; }
  Environment& environment() override { return *environment_; }
  Process& process() override { return *process_; }
  Clock& clock() override { return *clock_; }
  Entropy& entropy() override { return *entropy_; }
  Result<Network*> network() override { return network_.get(); }

 private:
  LazyTable<Cuda, LiveCuda> cuda_;
  LazyTable<Nvml, LiveNvml> nvml_;
  LazyTable<Cufile, LiveCufile> cufile_;
  LazyTable<Verbs, LiveVerbs> verbs_;
  std::unique_ptr<Clock> clock_ = make_live_clock();
  std::unique_ptr<Files> files_;
  std::unique_ptr<Storage> storage_ = make_live_storage();
  std::unique_ptr<Memory> memory_ = make_live_memory(*this);
  std::unique_ptr<Counters> counters_ = make_live_counters();
  std::unique_ptr<Environment> environment_ = make_live_environment();
  std::unique_ptr<Process> process_ = make_live_process();
  std::unique_ptr<Entropy> entropy_ = make_live_entropy();
  std::unique_ptr<Network> network_ = make_live_network();
  std::unique_ptr<Pci> pci_ = make_live_pci(*files_);
  std::unique_ptr<Workers> workers_ = make_threaded_workers(*clock_);  // last: stopped first
};

}  // namespace

std::unique_ptr<Host> make_live_host(const LiveOptions& options) {
  return std::make_unique<LiveHost>(options);
}

}  // namespace nobounce::system

namespace nobounce {

HostPointer live_host() {
  return HostPointer(system::make_live_host().release());
}

}  // namespace nobounce
