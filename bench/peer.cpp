// GPU to GPU beside the plain driver call: direct, staged by us, and staged in silence by the
// driver, with NVLink's counters beside the receipts.
#include <cstdlib>
#include <optional>

#include <nobounce/session.hpp>

#include "bench/measure.hpp"
#include "support/cuda_driver.hpp"
#include "system/live_host.hpp"

namespace nobounce::bench {

namespace {

using test::CudaDriver;
namespace nvml = system::nvml;
constexpr std::uint64_t mib = 1u << 20;
constexpr std::uint64_t large = 1024 * mib;

/// Contexts and memory of an ordered pair, for the plain calls.
class Pair {
 public:
  Pair(const CudaDriver& driver, int source, int target)
      : driver_(driver), devices_{source, target} {
    for (int i = 0; i < 2; ++i) {
      (void)driver.retain(&contexts[i], devices_[i]);
      const Pair::Current current(*this, i);
      good = good && driver.allocate(&memory[i], large) == 0;
    }
    const Pair::Current current(*this, 0);
    good = good && driver.create_stream(&stream, 1) == 0;
  }
  ~Pair() {
    for (int i = 0; i < 2; ++i) {
      const Pair::Current current(*this, i);
      (void)driver_.free(memory[i]);
    }
    for (const int device : devices_) (void)driver_.release(device);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  class Current {
   public:
    Current(const Pair& pair, int index) : pair_(pair) {
      (void)pair.driver_.push(pair.contexts[index]);
    }
    ~Current() {
      void* popped = nullptr;
      (void)pair_.driver_.pop(&popped);
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    const Pair& pair_;
  };

  /// cuMemcpyPeerAsync in a stream of the source, waited for.
  bool copy(std::uint64_t bytes) const {
    const Pair::Current current(*this, 0);
    return driver_.peer_copy(memory[1], contexts[1], memory[0], contexts[0], bytes, stream) == 0 &&
           driver_.synchronize(stream) == 0;
  }
  /// Both ways, as applications do.
  void enable(bool on) const {
    for (int i = 0; i < 2; ++i) {
      const Pair::Current current(*this, i);
      (void)(on ? driver_.enable_peer(contexts[1 - i], 0) : driver_.disable_peer(contexts[1 - i]));
    }
  }

  void* contexts[2] = {nullptr, nullptr};
  test::Pointer memory[2] = {0, 0};
  void* stream = nullptr;
  bool good = true;

 private:
  const CudaDriver& driver_;
  int devices_[2];
};

/// Data bytes that NVLink carried, by NVML: out of the source and into the target.
struct LinkBytes {
  double sent = 0;
  double received = 0;
};

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

LinkBytes link_bytes(system::Nvml& table, int source, int target) {
  return {link_field(table, source, nvml::field_nvlink_throughput_data_tx),
          link_field(table, target, nvml::field_nvlink_throughput_data_rx)};
}

std::uint64_t repeats_for(std::uint64_t bytes) {
  return bytes >= 64 * mib ? 10 : bytes >= mib ? 50 : 200;
}

template <typename Move>
Samples microseconds(std::uint64_t bytes, Move&& move) {
  Samples samples;
  for (std::uint64_t i = 0; i < repeats_for(bytes) + 3; ++i) {
    const double begin = seconds_now();
    if (!move()) return {};
    if (i >= 3) samples.add((seconds_now() - begin) * 1e6);
  }
  return samples;
}

double rate_of(const Samples& times, std::uint64_t bytes) {
  return gigabytes_per_second(bytes, times.median() / 1e6);
}

struct SessionPair {
  SessionPair(system::Host& host, int source_gpu, int target_gpu) {
    SessionOptions options;
    options.warn_on_close = false;
    auto opened = Session::open(host, options);
    if (!opened.ok()) {
      failure = to_string(opened.error());
      return;
    }
    session.emplace(std::move(*opened));
    auto first = session->allocate(static_cast<std::uint32_t>(source_gpu), large);
    auto second = session->allocate(static_cast<std::uint32_t>(target_gpu), large);
    if (!first.ok() || !second.ok()) {
      failure = "no GPU memory";
      return;
    }
    source.emplace(std::move(*first));
    target.emplace(std::move(*second));
  }
  bool move(std::uint64_t bytes, Policy policy) {
    TransferOptions options;
    options.policy = policy;
    const Outcome outcome =
        session->transfer(source->place(0, bytes), target->place(0, bytes), options);
    if (!outcome.ok()) failure = to_string(*outcome.error);
    carried += outcome.receipt.bytes;
    return outcome.ok();
  }
  std::optional<Session> session;
  std::optional<Region> source;
  std::optional<Region> target;
  CarriageBytes carried;
  std::string failure;
};

core::Json sizes_of(const Pair& pair, SessionPair& ours) {
  core::JsonArray rows;
  for (const std::uint64_t bytes :
       {std::uint64_t{4096}, std::uint64_t{65536}, mib, 64 * mib, 256 * mib, large}) {
    // In turn: plain, ours, plain again, so that a drift of the machine shows as a difference.
    const Samples plain = microseconds(bytes, [&] { return pair.copy(bytes); });
    const Samples direct =
        microseconds(bytes, [&] { return ours.move(bytes, Policy::direct_required); });
    const Samples again = microseconds(bytes, [&] { return pair.copy(bytes); });
    core::JsonObject row;
    row.emplace_back("bytes", bytes);
    row.emplace_back("plain_us", plain.json());
    row.emplace_back("direct_us", direct.json());
    row.emplace_back("plain_again_us", again.json());
    row.emplace_back("plain_gb_per_s", rate_of(plain, bytes));
    row.emplace_back("direct_gb_per_s", rate_of(direct, bytes));
    row.emplace_back("direct_of_plain", direct.median() > 0 ? plain.median() / direct.median() : 0);
    row.emplace_back("added_us", direct.median() - plain.median());
    rows.emplace_back(std::move(row));
  }
  return rows;
}

core::Json measure_pair(const CudaDriver& driver, system::Host& host, system::Nvml& table,
                        int source, int target, std::string& failure) {
  core::JsonObject row;
  row.emplace_back("source", "gpu:" + std::to_string(source));
  row.emplace_back("target", "gpu:" + std::to_string(target));
  int can = 0;
  (void)driver.can_access_peer(&can, source, target);
  row.emplace_back("driver_says_possible", can == 1);
  const Pair pair(driver, source, target);
  if (!pair.good) return failure = "no memory or stream for the plain calls", row;
  pair.enable(false);
  const LinkBytes silent_before = link_bytes(table, source, target);
  const Samples silent = microseconds(large, [&] { return pair.copy(large); });
  const LinkBytes silent_after = link_bytes(table, source, target);
  row.emplace_back("driver_without_access_gb_per_s", rate_of(silent, large));
  row.emplace_back("nvlink_readable", silent_after.sent >= 0 && silent_after.received >= 0);
  row.emplace_back("nvlink_bytes_of_it", silent_after.sent - silent_before.sent);

  SessionPair ours(host, source, target);
  if (!ours.failure.empty()) return failure = ours.failure, row;
  const Samples staged = microseconds(large, [&] { return ours.move(large, Policy::staged_only); });
  row.emplace_back("staged_gb_per_s", rate_of(staged, large));
  row.emplace_back("staged_of_drivers_own_staging",
                   staged.median() > 0 ? silent.median() / staged.median() : 0);
  if (can != 1) return row;
  pair.enable(true);
  row.emplace_back("sizes", sizes_of(pair, ours));
  const CarriageBytes carried_before = ours.carried;
  const LinkBytes before = link_bytes(table, source, target);
  for (int i = 0; i < 8 && ours.failure.empty(); ++i) {
    (void)ours.move(large, Policy::direct_required);
  }
  const LinkBytes after = link_bytes(table, source, target);
  const double receipts =
      static_cast<double>(ours.carried[Carriage::direct] - carried_before[Carriage::direct]);
  row.emplace_back("receipts_direct_bytes", receipts);
  row.emplace_back("nvlink_sent_by_source", after.sent - before.sent);
  row.emplace_back("nvlink_received_by_target", after.received - before.received);
  row.emplace_back("nvlink_sent_per_receipt_byte",
                   receipts > 0 ? (after.sent - before.sent) / receipts : 0);
  pair.enable(false);
  failure = ours.failure;
  return row;
}

}  // namespace

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
  if (!failure.empty()) result.emplace_back("failure", failure);
  const int printed = print(std::move(result));
  return failure.empty() ? printed : failed(failure);
}

}  // namespace nobounce::bench
