// One-sided reads and writes, piece by piece over equal lanes.
#include "provider/rdma/mover.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "core/remote_segment.hpp"
#include "provider/rdma/statuses.hpp"

namespace nobounce::provider::rdma {

namespace verbs = system::verbs;

namespace {

constexpr const char* attempted_move = "move by RDMA";
constexpr std::size_t reaped_at_once = 32;

Error refused(Cause cause, std::string detail, ErrorOrigin origin = ErrorOrigin::input) {
  return Error{
      .origin = origin, .attempted = attempted_move, .cause = cause, .detail = std::move(detail)};
}

}  // namespace

std::optional<Error> Mover::why_not(const core::Operation& operation, const Connection* connection,
                                    const Connection::Local* own) const {
  const Segment& segment = operation.segment;
  const RemoteMemory* remote = core::peer_memory_of(segment);
  const Place& local = core::own_end_of(segment);
  if (remote == nullptr) {
    return refused(Cause::none, "this mover serves memory here and memory of a peer");
  }
  if (connection == nullptr || connection->state != Connection::State::established) {
    return refused(Cause::remote_peer_lost, "there is no such connection", ErrorOrigin::remote);
  }
  if (connection->lost.has_value()) return connection->lost;
  const auto import = connection->imports.find(remote->key);
  if (import == connection->imports.end()) {
    return refused(Cause::remote_revoked, "the peer's memory is not open for this connection",
                   ErrorOrigin::remote);
  }
  const RdmaExport& offered = import->second;
  const std::uint64_t length = segment.length_bytes;
  if (remote->length_bytes < length || length_bytes(local) < length) {
    return refused(Cause::memory_too_small, "a place is smaller than the segment");
  }
  if (remote->address > offered.length_bytes || length > offered.length_bytes - remote->address) {
    return refused(Cause::remote_out_of_bounds,
                   "the peer's memory is " + std::to_string(offered.length_bytes) + " bytes long",
                   ErrorOrigin::remote);
  }
  const bool writes = std::holds_alternative<RemoteMemory>(segment.target);
  if (writes && offered.access == RdmaAccess::read) {
    return refused(Cause::remote_access_denied, "the peer's memory may only be read",
                   ErrorOrigin::remote);
  }
  if (length == 0) return std::nullopt;
  if (offered.keys.empty()) {
    return refused(offered.causes.empty() ? Cause::rdma_registration_failed : offered.causes[0],
                   "no adapter reaches the peer's memory", ErrorOrigin::remote);
  }
  const Connection::Local* memory = own != nullptr ? own : connection->local_of(local);
  if (memory == nullptr || !memory->registered.usable()) {
    if (own != nullptr && !own->registered.findings.empty()) {
      const Finding& why = own->registered.findings.back();
      return refused(why.cause, why.observed, ErrorOrigin::verbs);
    }
    return refused(Cause::rdma_registration_failed,
                   "the local memory is not registered with the adapters of this connection");
  }
  return std::nullopt;
}

void Mover::add(const core::Operation& operation, const std::shared_ptr<Connection>& connection,
                Link link, std::shared_ptr<const Connection::Local> own) {
  if (std::optional<Error> error = why_not(operation, connection.get(), own.get())) {
    refuse(operation.id, std::move(*error));
    return;
  }
  const RemoteMemory& remote = *core::peer_memory_of(operation.segment);
  Job job;
  job.operation = operation;
  job.connection = connection;
  job.own = std::move(own);
  job.link = link;
  job.writes = std::holds_alternative<RemoteMemory>(operation.segment.target);
  job.remote_offset = remote.address;
  job.import = remote.key;
  jobs_[operation.id] = std::move(job);
}

void Mover::refuse(core::OperationId id, Error error) {
  core::Completion completion{.id = id};
  completion.cause = error.cause;
  completion.error = std::move(error);
  completions_.push_back(std::move(completion));
}

void Mover::stop(Job& job, Error error) {
  if (!job.error.has_value()) job.error = std::move(error);
  job.stopped = true;
}

void Mover::stop(Job& job, Cause cause, const char* detail) {
  stop(job, Error{.origin = ErrorOrigin::session,
                  .attempted = attempted_move,
                  .cause = cause,
                  .detail = detail});
}

void Mover::cancel(core::OperationId id) {
  const auto found = jobs_.find(id);
  if (found != jobs_.end()) stop(found->second, Cause::session_cancelled, "cancelled");
}

void Mover::cancel_all() {
  for (auto& [id, job] : jobs_) stop(job, Cause::session_closed, "the session is closing");
}

bool Mover::expire(std::uint64_t now_ns) {
  for (auto& [id, job] : jobs_) {
    const std::uint64_t deadline_ns = job.operation.deadline_ns;
    if (deadline_ns == 0 || now_ns < deadline_ns || job.stopped) continue;
    stop(job, Cause::session_deadline_passed, "the deadline passed");
  }
  return settle();
}

std::uint64_t Mover::next_deadline_ns() const {
  std::uint64_t next_ns = 0;
  for (const auto& [id, job] : jobs_) {
    const std::uint64_t deadline_ns = job.operation.deadline_ns;
    if (deadline_ns == 0 || job.stopped) continue;
    if (next_ns == 0 || deadline_ns < next_ns) next_ns = deadline_ns;
  }
  return next_ns;
}

bool Mover::has_work(const Connection& connection) const {
  return std::any_of(jobs_.begin(), jobs_.end(), [&connection](const auto& each) {
    return each.second.connection.get() == &connection;
  });
}

void Mover::completed(Connection& connection, const verbs::ibv_wc& completion) {
  const auto found = asked_.find(completion.wr_id);
  if (found == asked_.end()) return;
  const Asked asked = found->second;
  asked_.erase(found);
  --connection.lanes[asked.lane].in_flight;
  const bool ended_well = completion.status == verbs::wc_success;
  const bool first_failure = !ended_well && !connection.lost.has_value();
  if (first_failure) {
    const std::string& adapter = connection.lanes[asked.lane].pair->adapter().name;
    connection.lost = completion_error(completion.status, completion.vendor_err,
                                       std::string(attempted_move) + " with nic:" + adapter);
    // The others have no reason of their own to end.
    for (Lane& lane : connection.lanes) lane.pair->fail();
  }
  const auto job = jobs_.find(asked.job);
  if (job == jobs_.end()) return;
  --job->second.in_flight;
  if (ended_well) {
    job->second.arrived_bytes += asked.length_bytes;
  } else {
    stop(job->second, *connection.lost);
  }
}

bool Mover::reap(Connection& connection, std::uint64_t now_ns) {
  bool any = false;
  std::array<verbs::ibv_wc, reaped_at_once> completions{};
  for (Lane& lane : connection.lanes) {
    std::size_t count = 0;
    const int code = lane.pair->poll(completions, count);
    if (code != verbs::success && !connection.lost.has_value()) {
      connection.lost = call_error(code, "poll completions of nic:" + lane.pair->adapter().name,
                                   Cause::rdma_completion_error);
    }
    for (std::size_t i = 0; i < count; ++i) completed(connection, completions[i]);
    any = any || count > 0;
  }
  if (any) connection.progress_ns = now_ns;
  return any;
}

int Mover::post_one(Connection& connection, Job& job, std::size_t lane, std::uint64_t length) {
  const Connection::Local* memory =
      job.own != nullptr ? job.own.get()
                         : connection.local_of(core::own_end_of(job.operation.segment));
  const auto import = connection.imports.find(job.import);
  if (memory == nullptr || !memory->registered.usable() || import == connection.imports.end()) {
    return EFAULT;
  }
  const std::shared_ptr<Registration>& registration = memory->registered.by_lane[lane];
  const wire::RemoteKey& key = import->second.keys[lane];
  const std::uint64_t inside =
      address_of(core::own_end_of(job.operation.segment)) - address_of(memory->region.place);
  verbs::ibv_sge piece{};
  piece.addr = registration->address() + inside + job.next_bytes;
  piece.length = static_cast<std::uint32_t>(length);
  piece.lkey = registration->local_key();
  verbs::ibv_send_wr request{};
  request.wr_id = next_request_++;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = job.writes ? verbs::wr_rdma_write : verbs::wr_rdma_read;
  request.send_flags = verbs::send_signaled;
  request.wr.rdma.remote_addr = key.address + job.remote_offset + job.next_bytes;
  request.wr.rdma.rkey = key.key;
  const int code = connection.lanes[lane].pair->post(request);
  if (code != verbs::success) return code;
  asked_[request.wr_id] = {job.operation.id, length, lane, registration};
  ++connection.lanes[lane].in_flight;
  ++job.in_flight;
  job.next_bytes += length;
  return verbs::success;
}

bool Mover::post(Connection& connection, Job& job, std::uint64_t now_ns) {
  bool any = false;
  while (!job.stopped && job.next_bytes < job.operation.segment.length_bytes) {
    const auto lane = std::min_element(
        connection.lanes.begin(), connection.lanes.end(),
        [](const Lane& one, const Lane& other) { return one.in_flight < other.in_flight; });
    if (lane->in_flight >= options_.requests_per_lane) return any;
    const std::uint64_t length =
        std::min(options_.request_bytes, job.operation.segment.length_bytes - job.next_bytes);
    if (connection.in_flight() == 0) connection.progress_ns = now_ns;
    const int code = post_one(connection, job,
                              static_cast<std::size_t>(lane - connection.lanes.begin()), length);
    if (code != verbs::success) {
      stop(job, call_error(code, "post a request to nic:" + lane->pair->adapter().name,
                           Cause::rdma_completion_error));
      return true;
    }
    any = true;
  }
  return any;
}

bool Mover::settle() {
  bool any = false;
  for (auto at = jobs_.begin(); at != jobs_.end();) {
    Job& job = at->second;
    const bool whole = job.arrived_bytes == job.operation.segment.length_bytes;
    if (job.in_flight > 0 || (!whole && !job.stopped)) {
      ++at;
      continue;
    }
    if (!job.writes && job.arrived_bytes > 0 && options_.landed) {
      const Status seen = options_.landed(core::own_end_of(job.operation.segment));
      if (!seen.ok()) {
        // What nobody vouches for is not counted.
        job.arrived_bytes = 0;
        if (!job.error.has_value()) job.error = seen.error();
      }
    }
    core::Completion completion{.id = at->first};
    completion.bytes[Carriage::direct] = job.arrived_bytes;
    completion.link = job.arrived_bytes > 0 ? job.link : Link::none;
    if (!whole || job.error.has_value()) {
      completion.error = std::move(job.error);
      completion.cause = completion.error.has_value() ? completion.error->cause : Cause::none;
    }
    completions_.push_back(std::move(completion));
    at = jobs_.erase(at);
    any = true;
  }
  return any;
}

bool Mover::advance(Connection& connection, std::uint64_t now_ns) {
  bool any = reap(connection, now_ns);
  for (auto& [id, job] : jobs_) {
    if (job.connection.get() != &connection) continue;
    if (connection.lost.has_value() && !job.stopped) stop(job, *connection.lost);
    any = post(connection, job, now_ns) || any;
  }
  return settle() || any;
}

void Mover::abandon(Connection& connection, const Error& why) {
  for (auto at = asked_.begin(); at != asked_.end();) {
    const auto job = jobs_.find(at->second.job);
    if (job == jobs_.end() || job->second.connection.get() != &connection) {
      ++at;
      continue;
    }
    --job->second.in_flight;
    at = asked_.erase(at);
  }
  for (Lane& lane : connection.lanes) lane.in_flight = 0;
  for (auto& [id, job] : jobs_) {
    if (job.connection.get() == &connection) stop(job, why);
  }
  (void)settle();
}

std::size_t Mover::take(std::span<core::Completion> completions) {
  const std::size_t count = std::min(completions.size(), completions_.size());
  const auto end = completions_.begin() + static_cast<std::ptrdiff_t>(count);
  std::move(completions_.begin(), end, completions.begin());
  completions_.erase(completions_.begin(), end);
  return count;
}

}  // namespace nobounce::provider::rdma
