// Moves operations over the lanes of their connections: cut into requests, completed, failed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/provider.hpp"
#include "provider/rdma/connection.hpp"

namespace nobounce::provider::rdma {

struct MoverOptions {
  std::uint64_t request_bytes = 1u << 20;
  std::uint32_t requests_per_lane = 16;  ///< in flight
  /// Told before a transfer completes that adapters have written into that memory; answers whether
  /// everybody sees it.
  std::function<Status(const Place&)> landed;
};

/// Not thread-safe: the provider's lock guards it.
class Mover {
 public:
  explicit Mover(MoverOptions options = {}) : options_(std::move(options)) {}

  /// Takes an operation in. `connection` may be null: it is refused then, as for other reasons.
  /// `own`: its local memory, where that is registered for it alone.
  void add(const core::Operation& operation, const std::shared_ptr<Connection>& connection,
           Link link, std::shared_ptr<const Connection::Local> own = nullptr);
  void refuse(core::OperationId id, Error error);
  void cancel(core::OperationId id);
  void cancel_all();

  /// Reaps completions of a connection and posts what it has room for. True if anything changed.
  bool advance(Connection& connection, std::uint64_t now_ns);
  /// Ends what is past its deadline. True if anything did.
  bool expire(std::uint64_t now_ns);
  /// Nothing of this connection will be told any more: its queue pairs are gone.
  void abandon(Connection& connection, const Error& why);

  [[nodiscard]] std::size_t take(std::span<core::Completion> completions);
  [[nodiscard]] bool idle() const { return jobs_.empty(); }
  [[nodiscard]] bool has_work(const Connection& connection) const;
  /// The earliest deadline of a job, or 0.
  [[nodiscard]] std::uint64_t next_deadline_ns() const;

 private:
  struct Job {
    core::Operation operation;
    std::shared_ptr<Connection> connection;
    std::shared_ptr<const Connection::Local> own;  ///< goes before the connection does
    Link link = Link::none;
    bool writes = false;  ///< the far memory is the target
    std::uint64_t remote_offset = 0;
    std::uint64_t import = 0;
    std::uint64_t next_bytes = 0;     ///< asked for so far
    std::uint64_t arrived_bytes = 0;  ///< completed requests
    std::uint32_t in_flight = 0;
    bool stopped = false;
    std::optional<Error> error;
  };
  struct Asked {
    core::OperationId job = 0;
    std::uint64_t length_bytes = 0;
    std::size_t lane = 0;
    std::shared_ptr<Registration> memory;  ///< may have been replaced meanwhile
  };

  [[nodiscard]] std::optional<Error> why_not(const core::Operation& operation,
                                             const Connection* connection,
                                             const Connection::Local* own) const;
  bool reap(Connection& connection, std::uint64_t now_ns);
  void completed(Connection& connection, const system::verbs::ibv_wc& completion);
  bool post(Connection& connection, Job& job, std::uint64_t now_ns);
  [[nodiscard]] int post_one(Connection& connection, Job& job, std::size_t lane,
                             std::uint64_t length);
  void stop(Job& job, Error error);
  void stop(Job& job, Cause cause, const char* detail);
  bool settle();

  const MoverOptions options_;
  std::map<core::OperationId, Job> jobs_;
  std::map<std::uint64_t, Asked> asked_;  ///< by the number of the work request
  std::uint64_t next_request_ = 1;
  std::vector<core::Completion> completions_;
};

}  // namespace nobounce::provider::rdma
