// The connections of a session to servers, and what it may use over them.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nobounce/peer.hpp>
#include <nobounce/receipt.hpp>

namespace nobounce::session {

class PeerConnection;

/// Thread-safe. Names are kept after their region is gone, for receipts.
class Remotes {
 public:
  /// Numbers of connections, of clients and servers alike: adapters know them by it.
  [[nodiscard]] std::uint32_t next_number() { return next_number_++; }

  void add(std::uint32_t number, PeerConnection& connection) {
    const std::scoped_lock lock(mutex_);
    connections_[number] = &connection;
  }
  void remove(std::uint32_t number) {
    const std::scoped_lock lock(mutex_);
    connections_.erase(number);
    named_.erase(named_.lower_bound({number, 0}), named_.upper_bound({number, UINT64_MAX}));
  }
  /// Null where there is none of that number. It may go as soon as its owner drops it: not while a
  /// transfer uses it.
  [[nodiscard]] PeerConnection* find(std::uint32_t number) {
    const std::scoped_lock lock(mutex_);
    const auto found = connections_.find(number);
    return found == connections_.end() ? nullptr : found->second;
  }

  /// What is opened again under the same name has the same place in receipts. Beyond what a
  /// receipt can tell apart it is called "remote".
  void name(const RemoteMemory& memory, const std::string& name) {
    const std::scoped_lock lock(mutex_);
    const auto known = places_.find(name);
    if (known == places_.end() && names_.size() >= unnamed) return;
    const std::uint16_t place =
        known != places_.end() ? known->second : static_cast<std::uint16_t>(names_.size());
    if (known == places_.end()) {
      places_[name] = place;
      names_.push_back(name);
    }
    named_[{memory.peer, memory.key}] = place;
  }
  /// The memory was closed; its name stays.
  void forget(std::uint32_t peer, std::uint64_t key) {
    const std::scoped_lock lock(mutex_);
    named_.erase({peer, key});
  }
  [[nodiscard]] DeviceRef device_of(const RemoteMemory& memory) {
    const std::scoped_lock lock(mutex_);
    const auto found = named_.find({memory.peer, memory.key});
    return {DeviceRef::Kind::remote, found == named_.end() ? unnamed : found->second};
  }
  [[nodiscard]] std::string name_of(DeviceRef device) {
    const std::scoped_lock lock(mutex_);
    return device.index < names_.size() ? names_[device.index] : "remote";
  }

 private:
  static constexpr std::uint16_t unnamed = UINT16_MAX;
  std::atomic<std::uint32_t> next_number_{1};
  std::mutex mutex_;
  std::map<std::uint32_t, PeerConnection*> connections_;
  std::vector<std::string> names_;
  std::map<std::string, std::uint16_t> places_;                             ///< in names_
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint16_t> named_;  ///< by peer and key
};

}  // namespace nobounce::session
