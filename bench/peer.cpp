// GPU to GPU beside the plain driver call: direct, staged by us, and staged in silence by the
// driver, with NVLink's counters beside the receipts.
#include "bench/peer.hpp"

#include "bench/in_turn.hpp"
#include "bench/measure.hpp"
#include "bench/peer_session.hpp"
#include "bench/quickest_cpu.hpp"
#include "system/live_host.hpp"

namespace nobounce::bench {

namespace {

using test::CudaDriver;
namespace nvml = system::nvml;
constexpr std::uint64_t mib = 1u << 20;
constexpr std::uint64_t large = 1024 * mib;
constexpr std::uint64_t largest = 4096 * mib;
constexpr std::uint64_t sizes[] = {4, 4096, 65536, mib, 64 * mib, 256 * mib, large, largest};

double link_field(system::Nvml& table, int gpu, unsigned field) {
  nvml::nvmlDevice_t device = nullptr;
  nvml::nvmlFieldValue_t value{};
  value.fieldId = field;
  value.scopeId = ~0u;  // all links
  if (table.device_get_handle_by_index(static_cast<unsigned>(gpu), &device) != 0) return -1;
  if (table.device_get_field_values(device, 1, &value) != 0 || value.nvmlReturn != 0) {
    value.scopeId = 0;
    if (table.device_get_field_values(device, 1, &value) != 0 || value.nvmlReturn != 0) return -1;
  }
  return static_cast<double>(value.value.ullVal) * 1024.0;
}

std::uint64_t repeats_for(std::uint64_t bytes) {
  return bytes >= 64 * mib ? 5 : bytes >= mib ? 50 : 500;
}

template <typename Move>
bool add_microseconds(Samples& samples, std::uint64_t times, Move&& move) {
  for (std::uint64_t i = 0; i < times; ++i) {
    const double begin = seconds_now();
    if (!move()) return false;
    samples.add((seconds_now() - begin) * 1e6);
  }
  return true;
}

double rate_of(const Samples& times, std::uint64_t bytes) {
  return gigabytes_per_second(bytes, times.median() / 1e6);
}

core::Json sizes_of(const Pair& pair, SessionPair& ours) {
  core::JsonArray rows;
  for (const std::uint64_t bytes : sizes) {
    InTurn measured;
    const bool good = measured.run(
        repeats_for(bytes), [&] { return pair.copy(bytes); },
        [&] { return ours.move(bytes, Policy::direct_required); });
    core::JsonObject row = in_turn_json(measured);
    row.insert(row.begin(), {"bytes", bytes});
    row.emplace_back("plain_gb_per_s", rate_of(measured.plain_us(), bytes));
    row.emplace_back("direct_gb_per_s", rate_of(measured.ours_us(), bytes));
    rows.emplace_back(std::move(row));
    if (!good) break;
  }
  return rows;
}

void measure_staging(const Pair& pair, SessionPair& ours, system::Nvml& table, int source,
                     int target, core::JsonObject& row) {
  pair.enable(false);
  const LinkBytes before = link_bytes(table, source, target);
  Samples silent;
  Samples staged;
  Samples warm;
  (void)add_microseconds(warm, 2, [&] { return pair.copy(large); });
  (void)add_microseconds(silent, 10, [&] { return pair.copy(large); });
  const LinkBytes after = link_bytes(table, source, target);
  (void)add_microseconds(warm, 2, [&] { return ours.move(large, Policy::staged_only); });
  (void)add_microseconds(staged, 10, [&] { return ours.move(large, Policy::staged_only); });
  row.emplace_back("driver_without_access_gb_per_s", rate_of(silent, large));
  row.emplace_back("nvlink_readable", after.sent >= 0 && after.received >= 0);
  row.emplace_back("nvlink_bytes_of_it", after.sent - before.sent);
  row.emplace_back("staged_gb_per_s", rate_of(staged, large));
  row.emplace_back("staged_of_drivers_own_staging",
                   staged.median() > 0 ? silent.median() / staged.median() : 0);
}

/// What NVLink carried beside what the receipts say.
void compare_with_links(SessionPair& ours, system::Nvml& table, int source, int target,
                        core::JsonObject& row) {
  const CarriageBytes carried = ours.carried;
  const LinkBytes before = link_bytes(table, source, target);
  for (int i = 0; i < 8 && ours.failure.empty(); ++i) {
    (void)ours.move(large, Policy::direct_required);
  }
  const LinkBytes after = link_bytes(table, source, target);
  const double receipts =
      static_cast<double>(ours.carried[Carriage::direct] - carried[Carriage::direct]);
  row.emplace_back("receipts_direct_bytes", receipts);
  row.emplace_back("nvlink_sent_by_source", after.sent - before.sent);
  row.emplace_back("nvlink_received_by_target", after.received - before.received);
  row.emplace_back("nvlink_sent_per_receipt_byte",
                   receipts > 0 ? (after.sent - before.sent) / receipts : 0);
}

core::Json measure_pair(const CudaDriver& driver, system::Host& host, system::Nvml& table,
                        int source, int target, std::string& failure) {
  core::JsonObject row;
  row.emplace_back("source", "gpu:" + std::to_string(source));
  row.emplace_back("target", "gpu:" + std::to_string(target));
  int can = 0;
  (void)driver.can_access_peer(&can, source, target);
  row.emplace_back("driver_says_possible", can == 1);
  const Pair pair(driver, source, target, largest);
  if (!pair.good) return failure = "no memory or stream for the plain calls", row;
  SessionPair ours(host, source, target, largest);
  if (!ours.failure.empty()) return failure = ours.failure, row;
  measure_staging(pair, ours, table, source, target, row);
  if (can != 1) return row;
  const Result<system::Cuda*> api = host.cuda();
  if (api.ok()) {
    const OnQuickestCpu here;
    row.emplace_back("quickest_cpu", here.json());
    row.emplace_back("driver_calls", peer_calls(driver, **api, pair));
  }
  pair.enable(true);
  row.emplace_back("sizes", sizes_of(pair, ours));
  compare_with_links(ours, table, source, target, row);
  pair.enable(false);
  failure = ours.failure;
  return row;
}

}  // namespace

LinkBytes link_bytes(system::Nvml& table, int source, int target) {
  return {link_field(table, source, nvml::field_nvlink_throughput_data_tx),
          link_field(table, target, nvml::field_nvlink_throughput_data_rx)};
}

int peer(const std::vector<std::string>&) {
  const CudaDriver driver;
  const int count = driver.gpus();
  if (count < 2) return failed("needs 2 GPUs, there are " + std::to_string(count));
  const auto host = system::make_live_host();
  const auto table = host->nvml();
  if (!table.ok() || (*table)->init() != 0) return failed("no NVML");
  core::JsonArray rows;
  std::string failure;
  for (int source = 0; source < count && failure.empty(); ++source) {
    for (int target = 0; target < count && failure.empty(); ++target) {
      if (source == target) continue;
      rows.push_back(measure_pair(driver, *host, **table, source, target, failure));
    }
  }
  core::JsonObject result;
  result.emplace_back("case", "peer");
  result.emplace_back("pairs", std::move(rows));
  int can = 0;
  if (failure.empty() && driver.can_access_peer(&can, 0, 1) == 0 && can == 1) {
    result.emplace_back("both_directions_at_once", peer_both_ways(driver, *host, failure));
    if (failure.empty()) {
      result.emplace_back("two_processes", peer_in_two_processes(driver, 0, 1, failure));
    }
  }
  if (!failure.empty()) result.emplace_back("failure", failure);
  const int printed = print(std::move(result));
  return failure.empty() ? printed : failed(failure);
}

}  // namespace nobounce::bench
