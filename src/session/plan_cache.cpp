// Plans that transfers share.
#include "session/plan_cache.hpp"

#include <utility>

namespace nobounce::session {

namespace {

std::uint64_t mixed(std::uint64_t sum, std::uint64_t value) {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;  // the golden ratio's bits
  return (sum ^ value) * odd;
}

std::uint64_t number_of(const PlaceFacts& facts) {
  return static_cast<std::uint64_t>(facts.device.kind) | std::uint64_t{facts.device.index} << 8 |
         static_cast<std::uint64_t>(facts.kind) << 24 | std::uint64_t{facts.node} << 32;
}

}  // namespace

PlanCache::Entry& PlanCache::entry_of(const PlanKey& key) {
  std::uint64_t hash = mixed(0, number_of(key.source));
  hash = mixed(hash, number_of(key.target));
  hash = mixed(hash, key.confirmed << 8 | static_cast<std::uint64_t>(key.policy));
  return entries_[(hash >> 32) % entries_count];
}

std::shared_ptr<const CommonPlan> PlanCache::find(const PlanKey& key, const Lessons& lessons) {
  Entry& entry = entry_of(key);
  const std::scoped_lock lock(entry.mutex);
  if (entry.plan == nullptr || !(entry.key == key) || !(entry.lessons == lessons)) return nullptr;
  return entry.plan;
}

void PlanCache::keep(const PlanKey& key, const Lessons& lessons,
                     std::shared_ptr<const CommonPlan> plan) {
  Entry& entry = entry_of(key);
  const std::scoped_lock lock(entry.mutex);
  entry.key = key;
  entry.lessons = lessons;
  entry.plan.swap(plan);
}

}  // namespace nobounce::session
