// Plans that transfers between the same devices and kinds of memory share, while nothing changes
// that they rest on.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include <nobounce/place.hpp>
#include <nobounce/receipt.hpp>
#include <nobounce/route.hpp>

namespace nobounce::session {

/// The part of a plan that is the same for all places of the same devices and kinds.
struct CommonPlan {
  Route route;  ///< without segments
  ProviderKind provider = ProviderKind::staged;
  Carriage carriage = Carriage::staged;
  DeviceRef source;
  DeviceRef target;
  Link staged_link =
      Link::none;  ///< also where the route is direct: a failed piece is moved that way
};

/// One end of a transfer, as it was looked at a moment ago.
struct PlaceFacts {
  DeviceRef device;
  AllocationKind kind = AllocationKind::unknown;
  std::uint32_t node = 0;  ///< of host memory
  bool operator==(const PlaceFacts&) const = default;
};

/// All that a plan depends on and that may differ from one transfer to the next. Every part is read
/// anew for every transfer: nothing in it is remembered.
struct PlanKey {
  PlaceFacts source;
  PlaceFacts target;
  Policy policy = Policy::direct_preferred;
  std::uint64_t confirmed = 0;  ///< what the direct provider confirmed of the two places
  bool operator==(const PlanKey&) const = default;
};

/// What the session has learnt so far; counters that only grow.
struct Lessons {
  std::uint64_t beliefs = 0;
  std::uint64_t files = 0;
  std::uint64_t providers = 0;
  bool operator==(const Lessons&) const = default;
};

/// Thread-safe; a lock for each entry. A plan is forgotten when another one needs its room.
class PlanCache {
 public:
  /// Nothing where the plan was made before something was learnt. Allocates nothing.
  [[nodiscard]] std::shared_ptr<const CommonPlan> find(const PlanKey& key, const Lessons& lessons);
  void keep(const PlanKey& key, const Lessons& lessons, std::shared_ptr<const CommonPlan> plan);

 private:
  struct Entry {
    std::mutex mutex;
    PlanKey key;
    Lessons lessons;
    std::shared_ptr<const CommonPlan> plan;
  };
  static constexpr std::size_t entries_count = 256;
  [[nodiscard]] Entry& entry_of(const PlanKey& key);

  std::array<Entry, entries_count> entries_;
};

}  // namespace nobounce::session
