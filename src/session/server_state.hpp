// A listening server: its exports, its connections, and what happened at it.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <nobounce/peer.hpp>
#include "session/server_connection.hpp"
#include "session/session_state.hpp"
#include "session/shared_token.hpp"
#include "system/network.hpp"
#include "system/workers.hpp"

namespace nobounce::session {

/// Thread-safe. Its worker does everything; the rest asks it and waits.
class ServerState final : public system::Worker {
 public:
  [[nodiscard]] static Result<std::unique_ptr<ServerState>> open(SessionState& session,
                                                                 const ListenOptions& options);
  ServerState(const ServerState&) = delete;
  ServerState& operator=(const ServerState&) = delete;
  ~ServerState() override;

  [[nodiscard]] system::Step step() override;

  [[nodiscard]] Result<std::uint32_t> add_export(const Place& place, AllocationKind kind,
                                                 std::string_view name, RemoteAccess access);
  /// Returns when no peer reaches it any more, or with its memory kept until that is so.
  void withdraw(std::uint32_t number);
  [[nodiscard]] bool exports_any_of(const Place& place);

  [[nodiscard]] std::optional<ServerEvent> next_event(std::uint64_t timeout_ns);
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] std::size_t connections() const { return standing_; }
  [[nodiscard]] SessionState& session() const { return session_; }

 private:
  ServerState(SessionState& session, const ListenOptions& options, wire::Token token);
  [[nodiscard]] Status listen(const system::SocketAddress& at);
  bool accept_some();
  bool step_connections();
  void make_room();
  void withdraw_some();
  void tell(ServerEvent event);
  void wake();

  SessionState& session_;
  const ListenOptions options_;
  const wire::Token token_;
  system::Network* network_ = nullptr;
  system::SocketHandle waker_;
  system::SocketHandle listener_;
  std::string address_;
  LeftToken left_token_;
  std::optional<system::WorkerId> worker_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::size_t> standing_{0};

  std::mutex mutex_;  ///< of exports_, held by the worker while it steps
  std::map<std::uint32_t, ExportEntry> exports_;
  std::uint32_t next_export_ = 1;
  ServerShare share_;
  std::list<ServerConnection> connections_;  ///< the worker's own; oldest first
  std::uint64_t next_serial_ = 1;
  bool accept_failed_ = false;

  std::mutex events_mutex_;
  std::deque<ServerEvent> events_;
  std::uint64_t dropped_ = 0;  ///< events that nobody asked for, since the last one was said
};

}  // namespace nobounce::session
