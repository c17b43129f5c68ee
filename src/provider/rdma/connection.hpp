// A connection: its queue pairs, what is offered and used on it, and the memory registered for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <nobounce/error.hpp>
#include <nobounce/finding.hpp>
#include <nobounce/place.hpp>
#include "provider/rdma/queue_pair.hpp"
#include "provider/rdma/rdma_provider.hpp"
#include "provider/rdma/registration.hpp"

namespace nobounce::provider::rdma {

/// Memory registered with every lane of a connection, in their order; empty where it could not be.
struct LaneRegistrations {
  std::vector<std::shared_ptr<Registration>> by_lane;
  std::vector<Finding> findings;  ///< of every attempt
  std::uint64_t buffer = 0;       ///< the driver's number of what lay behind the address then
  [[nodiscard]] bool usable() const { return !by_lane.empty(); }
};

struct Lane {
  std::unique_ptr<QueuePair> pair;
  std::uint32_t in_flight = 0;
};

/// Guarded by the provider's lock, but for what is made before it is known to anybody.
struct Connection {
  enum class State : std::uint8_t { opened, established, ending };

  RdmaPeer peer = 0;
  State state = State::opened;
  std::vector<Lane> lanes;
  std::vector<Finding> findings;  ///< each once, the latest of many
  std::map<std::uint64_t, RdmaExport> imports;
  std::map<std::uint64_t, LaneRegistrations> exports;
  /// Local memory of transfers, by the address of its first byte.
  struct Local {
    core::RegionView region;
    LaneRegistrations registered;
    /// Registered for each operation alone: `registered` only says how the last try went.
    bool for_each = false;
    bool reachable = false;
  };
  std::map<std::uint64_t, Local> locals;
  std::optional<Error> lost;
  std::uint64_t progress_ns = 0;  ///< last completion, or since when one is due
  std::uint64_t failing_since_ns = 0;
  std::uint64_t silence_ns = 0;

  /// A connection that stands for long, or whose peer asks again and again, keeps no more of them.
  static constexpr std::size_t findings_max = 256;
  void note(const std::vector<Finding>& found);
  [[nodiscard]] std::uint32_t in_flight() const {
    std::uint32_t sum = 0;
    for (const Lane& lane : lanes) sum += lane.in_flight;
    return sum;
  }
  /// The memory that holds all of a place, or null.
  [[nodiscard]] const Local* local_of(const Place& place) const;
};

/// Where memory begins, as a number; GPU and host addresses never meet.
[[nodiscard]] std::uint64_t address_of(const Place& place);

}  // namespace nobounce::provider::rdma
