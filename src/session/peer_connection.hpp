// The active end of a connection: asks for exports, joins adapters, announces transfers and reports
// how they ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nobounce/peer.hpp>
#include "session/session_state.hpp"
#include "system/network.hpp"
#include "system/workers.hpp"
#include "wire/link.hpp"
#include "wire/token.hpp"

namespace nobounce::session {

/// Thread-safe. Its worker pumps the link.
class PeerConnection final : public system::Worker {
 public:
  [[nodiscard]] static Result<std::unique_ptr<PeerConnection>> open(SessionState& session,
                                                                    std::string_view address,
                                                                    const ConnectOptions& options);
  PeerConnection(const PeerConnection&) = delete;
  PeerConnection& operator=(const PeerConnection&) = delete;
  ~PeerConnection() override;

  [[nodiscard]] system::Step step() override;

  [[nodiscard]] Result<std::vector<ExportDescription>> list();

  struct Opened {
    RemoteMemory memory;
    RemoteAccess access = RemoteAccess::read;
  };
  [[nodiscard]] Result<Opened> open_export(std::string_view name, RemoteAccess access);
  void close_export(std::uint64_t key);

  /// Whether this end may move these bytes: they lie in an export that is open for that. Origin
  /// remote with remote.out_of_bounds, access_denied, revoked, or what ended the connection.
  [[nodiscard]] Status check(const RemoteMemory& memory, bool writing) const;
  /// Joins adapters near `local` to the server's and has them reach the export, once; remembers the
  /// answer. Findings of both ends.
  [[nodiscard]] std::vector<Finding> attach(std::uint64_t key, DeviceRef local);

  /// Never wait: what cannot be said any more is dropped.
  void announce(const wire::Begin& begin);
  void report(const wire::Report& report);

  [[nodiscard]] SessionState& session() const { return session_; }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] std::string name() const { return link_->peer_name(); }
  [[nodiscard]] std::optional<Error> error() const;
  [[nodiscard]] std::string export_name(std::uint64_t key) const;

 private:
  struct ExportEntry {
    std::string name;
    std::uint64_t length_bytes = 0;
    RemoteAccess access = RemoteAccess::read;
    bool gpu = false;
    bool revoked = false;
    bool attach_tried = false;
    bool attached = false;
    std::vector<Finding> findings;
  };

  PeerConnection(SessionState& session, std::string address, const ConnectOptions& options,
                 wire::Token token);
  [[nodiscard]] Status connect(const system::SocketAddress& to);
  void handle(wire::Link::Incoming message);
  /// Sends a request and waits for its answer: the message, or the refusal as an error.
  [[nodiscard]] Result<wire::Message> ask(const wire::Message& request, std::uint32_t number,
                                          const std::string& attempted);
  [[nodiscard]] std::uint32_t next_request();
  [[nodiscard]] std::vector<Finding> join(std::uint64_t key, const ExportEntry& entry,
                                          DeviceRef local, bool& attached);
  void lose();
  void wake();

  SessionState& session_;
  const std::uint32_t number_;
  const std::string address_;
  const ConnectOptions options_;
  const wire::Token token_;
  system::Network* network_ = nullptr;
  system::SocketHandle waker_;
  std::unique_ptr<wire::Link> link_;
  std::optional<system::WorkerId> worker_;
  std::atomic<bool> stopping_{false};

  mutable std::mutex mutex_;  ///< of what follows
  std::uint32_t next_request_ = 1;
  std::map<std::uint32_t, std::optional<wire::Message>> answers_;  ///< of requests under way
  std::map<std::uint64_t, ExportEntry> exports_;                   ///< by key
  bool lost_ = false;
  std::mutex attach_mutex_;  ///< one at a time
  std::atomic<bool> lanes_open_{false};
  bool lanes_joined_ = false;  ///< under attach_mutex_
};

}  // namespace nobounce::session
