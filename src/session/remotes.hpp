// The connections of a session to servers, and what it may use over them.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
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
  }
  /// Null where there is none of that number. It may go as soon as its owner drops it: not while a
  /// transfer uses it.
  [[nodiscard]] PeerConnection* find(std::uint32_t number) {
    const std::scoped_lock lock(mutex_);
    const auto found = connections_.find(number);
    return found == connections_.end() ? nullptr : found->second;
  }

  void name(const RemoteMemory& memory, std::string name) {
    const std::scoped_lock lock(mutex_);
    names_.push_back({memory.peer, memory.key, std::move(name)});
  }
  [[nodiscard]] DeviceRef device_of(const RemoteMemory& memory) {
    const std::scoped_lock lock(mutex_);
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (names_[i].peer == memory.peer && names_[i].key == memory.key)
        return {DeviceRef::Kind::remote, static_cast<std::uint16_t>(i)};
    }
    return {DeviceRef::Kind::remote, UINT16_MAX};
  }
  [[nodiscard]] std::string name_of(DeviceRef device) {
    const std::scoped_lock lock(mutex_);
    return device.index < names_.size() ? names_[device.index].name : "remote";
  }

 private:
  struct Name {
    std::uint32_t peer = 0;
    std::uint64_t key = 0;
    std::string name;
  };
  std::atomic<std::uint32_t> next_number_{1};
  std::mutex mutex_;
  std::map<std::uint32_t, PeerConnection*> connections_;
  std::vector<Name> names_;
};

}  // namespace nobounce::session
