// What a small blocking transfer costs beside the driver: a driver that does nothing, a session on
// top of it, and a count of the calls that go through the seam. Needs no GPU.
#include <memory>
#include <optional>
#include <string>

#include <nobounce/session.hpp>
#include <nobounce/software_machine.hpp>

#include "bench/measure.hpp"
#include "fabric/soft_host.hpp"
#include "support/quick_cuda.hpp"
#include "system/counted_host.hpp"

namespace nobounce::bench {

namespace {

constexpr int transfers_per_run = 20'000;
constexpr int runs = 15;
constexpr std::uint64_t bytes = 4096;

/// A session between two places, warm.
struct Setup {
  explicit Setup(bool from_host, bool counted) {
    const Result<Machine> machine = software_machine_description("workstation");
    if (!machine.ok()) return;
    auto made = fabric::SoftHost::create(*machine, {});
    if (!made.ok()) return;
    soft = std::move(*made);
    cuda = std::make_unique<support::QuickCuda>(**soft->cuda());
    around = std::make_unique<support::AroundHost>(*soft);
    around->cuda_table = cuda.get();
    system::Host* host = around.get();
    if (counted) host = (counting = system::CountedHost::wrap(*around)).get();
    SessionOptions options;
    options.warn_on_close = false;
    options.publish_ledger = false;
    auto opened = Session::open(*host, options);
    if (!opened.ok()) return;
    session.emplace(std::move(*opened));
    auto first = from_host ? session->allocate_host(bytes) : session->allocate(0, bytes);
    auto second = session->allocate(1, bytes);
    if (!first.ok() || !second.ok()) return;
    source.emplace(std::move(*first));
    target.emplace(std::move(*second));
    for (int i = 0; i < 4; ++i) good = move();
    cuda->quick = true;
    for (int i = 0; i < 4; ++i) good = good && move();
  }
  bool move() {
    return session->transfer(source->place(), target->place(), {.policy = Policy::direct_required})
        .ok();
  }
  std::unique_ptr<fabric::SoftHost> soft;
  std::unique_ptr<support::QuickCuda> cuda;
  std::unique_ptr<support::AroundHost> around;
  std::unique_ptr<system::CountedHost> counting;
  std::optional<Session> session;
  std::optional<Region> source;
  std::optional<Region> target;
  bool good = false;
};

core::Json measure(bool from_host, bool& good) {
  Setup timed(from_host, false);
  Setup counted(from_host, true);
  good = timed.good && counted.good;
  Samples samples;
  for (int run = 0; run < runs && good; ++run) {
    const double begin = seconds_now();
    for (int i = 0; i < transfers_per_run; ++i) good = timed.move() && good;
    samples.add((seconds_now() - begin) / transfers_per_run * 1e9);
  }
  core::JsonObject row;
  row.emplace_back("ns_per_transfer", samples.json());
  if (!good) return row;
  const std::uint64_t before = counted.counting->counts().calls;
  constexpr int counted_transfers = 100;
  for (int i = 0; i < counted_transfers; ++i) good = counted.move() && good;
  row.emplace_back(
      "seam_calls_per_transfer",
      static_cast<double>(counted.counting->counts().calls - before) / counted_transfers);
  return row;
}

}  // namespace

int overhead(const std::vector<std::string>&) {
  core::JsonObject result;
  result.emplace_back("case", "overhead");
  bool peers = false;
  bool pinned = false;
  result.emplace_back("gpu_to_gpu_4096", measure(false, peers));
  result.emplace_back("pinned_host_to_gpu_4096", measure(true, pinned));
  const int printed = print(std::move(result));
  return peers && pinned ? printed : failed("a transfer failed");
}

}  // namespace nobounce::bench
