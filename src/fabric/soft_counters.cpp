// SoftCounters: memory controllers count what the ledger says of DRAM, in MiB as the kernel scales
// them.
#include "fabric/soft_counters.hpp"

#include <cerrno>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace nobounce::fabric {
namespace {

constexpr double mebibyte = 1024.0 * 1024.0;

class SoftCounters : public system::Counters {
 public:
  SoftCounters(const Bus& bus, const Machine& machine, std::unique_ptr<Counters> live)
      : ledger_(bus.ledger()),
        unit_(bus.planted(Mutant::counters_in_lines) ? 64 : mebibyte),
        nodes_(machine.guest ? 0 : machine.numa_nodes.size()),
        live_(std::move(live)) {}

  Result<std::uint64_t> cpu_time_ns() override { return live_->cpu_time_ns(); }

  Result<double> perf_event(std::string_view pmu, std::string_view event) override {
    constexpr std::string_view prefix = "uncore_imc_";
    const bool reads = event == "cas_count_read";
    for (std::size_t node = 0; node < nodes_ && (reads || event == "cas_count_write"); ++node) {
      if (pmu != std::string(prefix) + std::to_string(node)) continue;
      const auto index = static_cast<std::uint32_t>(node);
      const std::uint64_t now =
          reads ? ledger_.dram_read_bytes(index) : ledger_.dram_written_bytes(index);
      const std::lock_guard lock(mutex_);
      const std::uint64_t first = first_.try_emplace({index, reads}, now).first->second;
      return static_cast<double>(now - first) / unit_;
    }
    return os_error(ENOENT, "open the perf event " + std::string(pmu) + '/' + std::string(event));
  }

 private:
  const Ledger& ledger_;
  double unit_;
  std::size_t nodes_;
  std::unique_ptr<Counters> live_;
  std::mutex mutex_;
  std::map<std::pair<std::uint32_t, bool>, std::uint64_t> first_;
};

}  // namespace

std::unique_ptr<system::Counters> make_soft_counters(const Bus& bus, const Machine& machine,
                                                     std::unique_ptr<system::Counters> live) {
  return std::make_unique<SoftCounters>(bus, machine, std::move(live));
}

}  // namespace nobounce::fabric
