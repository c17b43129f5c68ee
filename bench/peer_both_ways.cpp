// Both directions of a pair at once.
#include <thread>

#include "bench/measure.hpp"
#include "bench/peer.hpp"
#include "bench/peer_session.hpp"

namespace nobounce::bench {

namespace {

constexpr std::uint64_t bytes = 1u << 30;
constexpr int copies = 20;

/// Bytes per second of both together; 0 where one failed.
template <typename Move>
double both_rate(Move&& move) {
  bool good[2] = {true, true};
  const double begin = seconds_now();
  std::thread other([&] {
    for (int i = 0; i < copies && good[1]; ++i) good[1] = move(1);
  });
  for (int i = 0; i < copies && good[0]; ++i) good[0] = move(0);
  other.join();
  return good[0] && good[1] ? gigabytes_per_second(2 * copies * bytes, seconds_now() - begin) : 0;
}

}  // namespace

core::Json peer_both_ways(const test::CudaDriver& driver, system::Host& host,
                          std::string& failure) {
  const Pair there(driver, 0, 1, bytes);
  const Pair back(driver, 1, 0, bytes);
  if (!there.good || !back.good) return failure = "no memory for both ways", core::Json();
  there.enable(true);
  SessionPair ours(host, 0, 1, bytes);
  Result<Region> from =
      ours.session.has_value() ? ours.session->allocate(1, bytes) : Result<Region>(Error{});
  Result<Region> to =
      ours.session.has_value() ? ours.session->allocate(0, bytes) : Result<Region>(Error{});
  if (!ours.failure.empty() || !from.ok() || !to.ok()) {
    return failure = "no session for both ways", core::Json();
  }
  const TransferOptions strict{.policy = Policy::direct_required};
  Samples plain;
  Samples direct;
  for (int run = 0; run < 4; ++run) {
    const double raw = both_rate([&](int way) { return (way == 0 ? there : back).copy(bytes); });
    const double own = both_rate([&](int way) {
      return way == 0
                 ? ours.session->transfer(ours.source->place(), ours.target->place(), strict).ok()
                 : ours.session->transfer(from->place(), to->place(), strict).ok();
    });
    if (raw == 0 || own == 0) failure = "a copy of both ways failed";
    if (run == 0) continue;  // warms up
    plain.add(raw);
    direct.add(own);
  }
  core::JsonObject row;
  row.emplace_back("bytes", bytes);
  row.emplace_back("plain_gb_per_s", plain.json());
  row.emplace_back("direct_gb_per_s", direct.json());
  row.emplace_back("direct_of_plain", plain.median() > 0 ? direct.median() / plain.median() : 0);
  return row;
}

}  // namespace nobounce::bench
