// Keeping what stray copies use.
#include "system/stray_copies.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace nobounce::system {

namespace {

bool any_shares(const std::vector<Place>& places, const Place& place) {
  return std::any_of(places.begin(), places.end(),
                     [&](const Place& used) { return share_bytes(used, place); });
}

}  // namespace

bool share_bytes(const Place& first, const Place& second) {
  if (const auto* a = std::get_if<GpuMemory>(&first)) {
    const auto* b = std::get_if<GpuMemory>(&second);
    return b != nullptr && a->gpu == b->gpu &&
           a->address.value < b->address.value + b->length_bytes &&
           b->address.value < a->address.value + a->length_bytes;
  }
  const auto* a = std::get_if<HostMemory>(&first);
  const auto* b = std::get_if<HostMemory>(&second);
  return a != nullptr && b != nullptr && a->address < b->address + b->length_bytes &&
         b->address < a->address + a->length_bytes;
}

StrayCopies::~StrayCopies() {
  // What has not landed is never freed, and reachable all the same.
  static std::mutex& mutex = *new std::mutex;
  static auto& left = *new std::vector<std::shared_ptr<void>>;
  const std::lock_guard lock(mutex);
  for (Stray& stray : strays_) {
    if (stray.kept != nullptr) left.push_back(std::move(stray.kept));
  }
}

/// What is kept looks at copies of its own, by which others then count as landed.
void StrayCopies::look() const {
  for (const Stray& stray : strays_) {
    if (stray.kept != nullptr) (void)stray.landed();
  }
}

bool StrayCopies::put(Stray stray) {
  std::vector<Stray> over;  // let go of without the lock
  const std::lock_guard lock(mutex_);
  // Not one by one: while a copy hangs the driver frees nothing, and whoever asks waits.
  if (landed_all()) over.swap(strays_);
  strays_.push_back(std::move(stray));
  any_.store(true, std::memory_order_release);
  return strays_.size() == 1;
}

StrayCopies::Landed StrayCopies::add(std::vector<Place> sources, std::vector<Place> targets) {
  auto landed = std::make_shared<std::atomic<bool>>(false);
  const bool alone = put({.kept = nullptr,
                          .landed = [landed] { return landed->load(std::memory_order_acquire); },
                          .sources = std::move(sources),
                          .targets = std::move(targets)});
  if (alone && tell_) tell_();
  return landed;
}

void StrayCopies::keep(std::shared_ptr<void> kept, std::function<bool()> landed) {
  (void)put({.kept = std::move(kept), .landed = std::move(landed), .sources = {}, .targets = {}});
}

bool StrayCopies::writes(const Place& place) const {
  if (!any()) return false;
  const std::lock_guard lock(mutex_);
  look();
  return std::any_of(strays_.begin(), strays_.end(), [&](const Stray& stray) {
    return any_shares(stray.targets, place) && !stray.landed();
  });
}

bool StrayCopies::uses(const Place& place) const {
  if (!any()) return false;
  const std::lock_guard lock(mutex_);
  look();
  return std::any_of(strays_.begin(), strays_.end(), [&](const Stray& stray) {
    return (any_shares(stray.targets, place) || any_shares(stray.sources, place)) &&
           !stray.landed();
  });
}

bool StrayCopies::landed_all() const {
  look();
  return std::all_of(strays_.begin(), strays_.end(),
                     [](const Stray& stray) { return stray.landed(); });
}

bool StrayCopies::all_landed() const {
  if (!any()) return true;
  const std::lock_guard lock(mutex_);
  return landed_all();
}

void StrayCopies::clear() {
  std::vector<Stray> over;
  const std::lock_guard lock(mutex_);
  over.swap(strays_);
}

}  // namespace nobounce::system
