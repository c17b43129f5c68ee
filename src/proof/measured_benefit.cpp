// Times the legs of staging on a live machine.
#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "proof/benefit.hpp"

namespace nobounce::proof {
namespace {

constexpr int rounds = 2;

struct TimedLeg {
  std::string name;
  std::optional<std::uint64_t> best_ns;
};

TimedLeg time_leg(Session& session, system::Host& host, std::string name, const Place& source,
                  const Place& target) {
  TimedLeg leg{std::move(name), std::nullopt};
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t begin_ns = host.clock().now_ns();
    const Outcome outcome = session.transfer(source, target);
    const std::uint64_t elapsed_ns = host.clock().now_ns() - begin_ns;
    if (!outcome.ok() || elapsed_ns == 0) return leg;
    leg.best_ns = std::min(leg.best_ns.value_or(elapsed_ns), elapsed_ns);
  }
  return leg;
}

}  // namespace

Benefit measured_benefit(Session& session, system::Host& host, const Subject& subject,
                         RowPlaces& places, std::uint64_t volume_bytes, std::uint64_t control_ns,
                         std::uint64_t transfer_ns) {
  Benefit benefit;
  benefit.bottleneck = "unknown: the legs of staging could not be timed";
  if (control_ns == 0) return benefit;
  Result<Region> buffer = session.allocate_host(volume_bytes);
  if (!buffer.ok()) {
    benefit.bottleneck = "unknown: " + to_string(buffer.error());
    return benefit;
  }
  const bool p2p = subject.member == Member::p2p;
  const std::string source_name = p2p || subject.writing
                                      ? "copies out of gpu:" + std::to_string(subject.source_gpu)
                                      : "reads of " + subject.medium;
  const std::string target_name = !p2p && subject.writing
                                      ? "writes to " + subject.medium
                                      : "copies into gpu:" + std::to_string(subject.target_gpu);
  if (Status opened = places.open(volume_bytes); !opened.ok()) return benefit;
  const std::array<TimedLeg, 2> legs{
      time_leg(session, host, source_name, places.source(volume_bytes), buffer->place()),
      time_leg(session, host, target_name, buffer->place(), places.target(volume_bytes))};
  if (!legs[0].best_ns || !legs[1].best_ns) return benefit;
  const TimedLeg& slower = *legs[0].best_ns >= *legs[1].best_ns ? legs[0] : legs[1];
  // Staging that pipelines its legs takes as long as the slower; what it takes beyond is its own.
  const bool own = control_ns > *slower.best_ns + *slower.best_ns / 2;
  benefit.bottleneck = own ? "bounce itself, slower than either of its legs alone" : slower.name;
  // Between GPUs the direct path has a link of its own: only the transfer tells how fast that is.
  const std::uint64_t direct_ns = p2p ? transfer_ns : *slower.best_ns;
  if (direct_ns > 0)
    benefit.speedup_max = static_cast<double>(control_ns) / static_cast<double>(direct_ns);
  return benefit;
}

}  // namespace nobounce::proof
