// Copies that were given up on and still fly: what they read and write must stay until they land.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <nobounce/place.hpp>

namespace nobounce::system {

/// Thread-safe. Whoever gives up on a copy says so here and says when it has landed after all;
/// whoever frees or uses memory asks.
class StrayCopies {
 public:
  /// `tell` is called when there is one again after there was none.
  explicit StrayCopies(std::function<void()> tell) : tell_(std::move(tell)) {}
  StrayCopies(const StrayCopies&) = delete;
  StrayCopies& operator=(const StrayCopies&) = delete;
  ~StrayCopies();

  /// Set by whoever looks at the copy once it has landed.
  using Landed = std::shared_ptr<std::atomic<bool>>;
  /// A copy, and the parts of its ends that are not its owner's to keep.
  [[nodiscard]] Landed add(std::vector<Place> sources, std::vector<Place> targets);
  /// Something that its owner lets go of while copies use it: it looks at them by itself, and stays
  /// until they and all others have landed. `landed` is called under this list's lock: it must be
  /// cheap, and must not ask this list.
  void keep(std::shared_ptr<void> kept, std::function<bool()> landed);

  [[nodiscard]] bool uses(const Place& place) const;
  /// Whether bytes may still arrive in any of it.
  [[nodiscard]] bool writes(const Place& place) const;
  /// False: whatever the driver is told to free now may wait for ever.
  [[nodiscard]] bool all_landed() const;
  /// False as long as nobody ever gave up on a copy. Takes no lock.
  [[nodiscard]] bool any() const { return any_.load(std::memory_order_acquire); }
  /// Lets go of what was kept. All must have landed.
  void clear();

 private:
  struct Stray {
    std::shared_ptr<void> kept;
    std::function<bool()> landed;
    std::vector<Place> sources;
    std::vector<Place> targets;
  };
  void look() const;
  [[nodiscard]] bool landed_all() const;
  /// Answers whether it is the only one.
  bool put(Stray stray);

  const std::function<void()> tell_;
  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;
  std::vector<Stray> strays_;
};

/// Whether two pieces of memory share a byte.
[[nodiscard]] bool share_bytes(const Place& first, const Place& second);

}  // namespace nobounce::system
