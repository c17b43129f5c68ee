// FaultyHost put together: faulty parts and tables over those of the inner host.
#include "system/faulty_host.hpp"

#include <mutex>
#include <optional>
#include <utility>

#include "system/fault_counter.hpp"
#include "system/faulty_network.hpp"
#include "system/faulty_parts.hpp"
#include "system/faulty_pci.hpp"
#include "system/faulty_storage.hpp"
#include "system/faulty_tables.hpp"

namespace nobounce::system {
namespace {

class WrappingFaultyHost final : public FaultyHost {
 public:
  WrappingFaultyHost(Host& inner, FaultPlan plan) : inner_(inner), counter_(std::move(plan)) {}

  HostKind kind() const override { return inner_.kind(); }
  std::string_view name() const override { return inner_.name(); }

  Result<Cuda*> cuda() override { return table("host.cuda", &Host::cuda, cuda_); }
  Result<Nvml*> nvml() override { return table("host.nvml", &Host::nvml, nvml_); }
  Result<Cufile*> cufile() override { return table("host.cufile", &Host::cufile, cufile_); }
  Result<Verbs*> verbs() override { return table("host.verbs", &Host::verbs, verbs_); }

  Result<Pci*> pci() override { return table("host.pci", &Host::pci, pci_); }

  Files& files() override { return files_; }
  Storage& storage() override { return storage_; }
  Memory& memory() override { return memory_; }
  Workers& workers() override { return workers_; }
  Counters& counters() override { return counters_; }
  Environment& environment() override { return environment_; }
  Process& process() override { return inner_.process(); }
  Clock& clock() override { return inner_.clock(); }
  Entropy& entropy() override { return inner_.entropy(); }
  Result<Network*> network() override { return table("host.network", &Host::network, network_); }

  std::uint64_t calls() const override { return counter_.calls(); }
  std::string failed_call() const override { return counter_.failed_call(); }

 private:
  template <typename Table, typename FaultyTable>
  Result<Table*> table(std::string_view name, Result<Table*> (Host::*accessor)(),
                       std::optional<FaultyTable>& faulty) {
    if (counter_.fails(name)) return counter_.error(name);
    const auto found = (inner_.*accessor)();
    if (!found) return found.error();
    const std::lock_guard lock(wrapping_);
    if (!faulty.has_value()) faulty.emplace(counter_, **found);
    return static_cast<Table*>(&*faulty);
  }

  Host& inner_;
  FaultCounter counter_;
  std::mutex wrapping_;
  std::optional<FaultyCuda> cuda_;
  std::optional<FaultyNvml> nvml_;
  std::optional<FaultyCufile> cufile_;
  std::optional<FaultyNetwork> network_;
  std::optional<FaultyVerbs> verbs_;
  std::optional<FaultyPci> pci_;
  FaultyFiles files_{counter_, inner_.files()};
  FaultyStorage storage_{counter_, inner_.storage()};
  FaultyMemory memory_{counter_, inner_.memory()};
  FaultyWorkers workers_{counter_, inner_.workers()};
  FaultyCounters counters_{counter_, inner_.counters()};
  FaultyEnvironment environment_{counter_, inner_.environment()};
};

}  // namespace

std::unique_ptr<FaultyHost> FaultyHost::wrap(Host& inner, FaultPlan plan) {
  return std::make_unique<WrappingFaultyHost>(inner, std::move(plan));
}

}  // namespace nobounce::system
