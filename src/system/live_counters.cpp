// LiveCounters: CPU time of the process, and perf events that stay open from the first call for
// them.
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "system/descriptor.hpp"
#include "system/live_files.hpp"
#include "system/live_host.hpp"
#include "system/perf_events.hpp"

namespace nobounce::system {
namespace {

struct OpenPerfEvent {
  Descriptor descriptor;
  double scale = 1.0;
};

class LiveCounters final : public Counters {
 public:
  Result<std::uint64_t> cpu_time_ns() override;
  Result<double> perf_event(std::string_view pmu, std::string_view event) override;

 private:
  using Key = std::pair<std::string, std::string>;
  using OpenPerfEvents = std::vector<OpenPerfEvent>;
  Result<OpenPerfEvents> open_events(std::string_view pmu, std::string_view event);

  std::unique_ptr<Files> files_ = make_live_files("/");
  std::mutex mutex_;
  std::map<Key, Result<OpenPerfEvents>> events_;
};

Result<std::uint64_t> LiveCounters::cpu_time_ns() {
  std::timespec used{};
  if (::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) != 0) {
    return os_error(errno, "read the CPU time of this process");
  }
  return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(used.tv_nsec);
}

/// On one CPU for a PMU outside the cores (`cpu` >= 0); else this thread and those it starts later.
Result<OpenPerfEvent> open_event(const PerfEventSpec& spec, int cpu, std::string_view event) {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = spec.type;
  attributes.config = spec.config[0];
  attributes.config1 = spec.config[1];
  attributes.config2 = spec.config[2];
  attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  attributes.inherit = cpu < 0 ? 1 : 0;
  const pid_t process = cpu < 0 ? 0 : -1;
  const long number =
      ::syscall(SYS_perf_event_open, &attributes, process, cpu, -1, PERF_FLAG_FD_CLOEXEC);
  if (number >= 0) return OpenPerfEvent{Descriptor(static_cast<int>(number)), spec.scale};
  Error error = os_error(errno, "open the perf event " + spec.pmu + "/" + std::string(event));
  if (error.code == EACCES || error.code == EPERM) {
    error.remedy = "run as root, or: sysctl kernel.perf_event_paranoid=0";
  }
  return error;
}

Result<LiveCounters::OpenPerfEvents> LiveCounters::open_events(std::string_view pmu,
                                                               std::string_view event) {
  const auto pmus = perf_pmus(*files_, pmu);
  if (!pmus) return pmus.error();
  OpenPerfEvents events;
  for (const std::string& name : *pmus) {
    const auto spec = perf_event_spec(*files_, name, event);
    if (!spec) return spec.error();
    const std::vector<int> cpus = spec->cpus.empty() ? std::vector<int>{-1} : spec->cpus;
    for (const int cpu : cpus) {
      auto opened = open_event(*spec, cpu, event);
      if (!opened) return opened.error();
      events.push_back(std::move(*opened));
    }
  }
  return events;
}

Result<double> LiveCounters::perf_event(std::string_view pmu, std::string_view event) {
  const std::lock_guard lock(mutex_);
  const Key key(pmu, event);
  auto found = events_.find(key);
  if (found == events_.end()) found = events_.emplace(key, open_events(pmu, event)).first;
  if (!found->second) return found->second.error();
  double total = 0;
  for (const OpenPerfEvent& opened : *found->second) {
    struct {
      std::uint64_t value, enabled_ns, running_ns;
    } reading{};
    const ssize_t got = ::read(opened.descriptor.number(), &reading, sizeof reading);
    if (got != static_cast<ssize_t>(sizeof reading)) {
      return os_error(got < 0 ? errno : EIO, "read the perf event " + key.first + "/" + key.second);
    }
    // An event that shares its counter with others ran only part of the time.
    const double share = reading.running_ns == 0 ? 1.0
                                                 : static_cast<double>(reading.enabled_ns) /
                                                       static_cast<double>(reading.running_ns);
    total += static_cast<double>(reading.value) * share * opened.scale;
  }
  return total;
}

}  // namespace

std::unique_ptr<Counters> make_live_counters() {
  return std::make_unique<LiveCounters>();
}

}  // namespace nobounce::system
