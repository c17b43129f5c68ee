// The work queue of the staged provider.
#include "provider/staged/job_queue.hpp"

#include <algorithm>
#include <utility>

namespace nobounce::provider::staged {

namespace {

Error session_error(Cause cause, std::string detail) {
  return Error{.origin = ErrorOrigin::session,
               .attempted = "move bytes through host memory",
               .cause = cause,
               .detail = std::move(detail)};
}

bool has_ended(const Job& job) {
  return job.outstanding == 0 && (job.stopped || job.next_bytes == job.length_bytes());
}

bool has_pieces(const Job& job) {
  return !job.stopped && job.next_bytes < job.length_bytes();
}

}  // namespace

std::uint64_t JobQueue::add(std::shared_ptr<Job> job) {
  const std::lock_guard lock(mutex_);
  std::uint64_t wanted = piece_count(*job, slot_bytes_);
  active_.push_back(std::move(job));
  std::uint64_t woken = 0;
  while (wanted > 0 && parked_ != 0) {
    const std::uint64_t lowest = parked_ & (~parked_ + 1);
    parked_ &= ~lowest;
    woken |= lowest;
    --wanted;
  }
  (void)settle();  // a job of zero bytes has ended already
  return woken;
}

void JobQueue::refuse(core::OperationId id, Error error) {
  const std::lock_guard lock(mutex_);
  core::Completion completion;
  completion.id = id;
  completion.cause = error.cause;
  completion.error = std::move(error);
  completions_.push_back(std::move(completion));
}

JobQueue::Claim JobQueue::claim(unsigned reader, bool may_park, std::uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  Claim claim;
  expire_locked(now_ns);
  claim.completed = settle();
  for (std::size_t tried = 0; tried < active_.size(); ++tried) {
    if (turn_ >= active_.size()) turn_ = 0;
    const std::shared_ptr<Job>& job = active_[turn_++];
    if (!has_pieces(*job)) continue;
    claim.piece = Piece{job, job->next_bytes, piece_length(*job, job->next_bytes, slot_bytes_)};
    job->next_bytes += claim.piece->length_bytes;
    ++job->outstanding;
    job->outstanding_most = std::max(job->outstanding_most, job->outstanding);
    parked_ &= ~(std::uint64_t{1} << reader);
    return claim;
  }
  if (may_park) parked_ |= std::uint64_t{1} << reader;
  return claim;
}

bool JobQueue::finish(const Piece& piece, std::uint64_t arrived_bytes, std::optional<Error> error) {
  const std::lock_guard lock(mutex_);
  Job& job = *piece.job;
  --job.outstanding;
  job.arrived_bytes += arrived_bytes;
  if (error.has_value()) stop(job, std::move(*error));
  return settle();
}

bool JobQueue::cancel(core::OperationId id) {
  const std::lock_guard lock(mutex_);
  for (const std::shared_ptr<Job>& job : active_) {
    if (job->operation.id != id || !has_pieces(*job)) continue;
    stop(*job, session_error(Cause::session_cancelled, "the operation was cancelled"));
  }
  return settle();
}

bool JobQueue::cancel_all() {
  return fail_all(session_error(Cause::session_cancelled, "the provider is being closed"));
}

bool JobQueue::fail_all(const Error& error) {
  const std::lock_guard lock(mutex_);
  for (const std::shared_ptr<Job>& job : active_) {
    if (has_pieces(*job)) stop(*job, error);
  }
  return settle();
}

bool JobQueue::expire(std::uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  expire_locked(now_ns);
  return settle();
}

void JobQueue::expire_locked(std::uint64_t now_ns) {
  for (const std::shared_ptr<Job>& job : active_) {
    const std::uint64_t deadline_ns = job->operation.deadline_ns;
    if (deadline_ns == 0 || now_ns < deadline_ns || !has_pieces(*job)) continue;
    stop(*job, session_error(Cause::session_deadline_passed, "the deadline passed"));
  }
}

std::size_t JobQueue::take(std::span<core::Completion> completions) {
  const std::lock_guard lock(mutex_);
  (void)settle();
  const std::size_t count = std::min(completions.size(), completions_.size());
  const auto end = completions_.begin() + static_cast<std::ptrdiff_t>(count);
  std::move(completions_.begin(), end, completions.begin());
  completions_.erase(completions_.begin(), end);
  return count;
}

bool JobQueue::idle() const {
  const std::lock_guard lock(mutex_);
  return std::all_of(active_.begin(), active_.end(),
                     [](const auto& job) { return has_ended(*job); });
}

bool JobQueue::has_work() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(active_.begin(), active_.end(),
                     [](const auto& job) { return has_pieces(*job); });
}

void JobQueue::stop(Job& job, Error error) {
  job.stopped = true;
  if (!job.error.has_value()) job.error = std::move(error);
}

bool JobQueue::settle() {
  bool any = false;
  for (std::size_t i = 0; i < active_.size();) {
    if (!has_ended(*active_[i])) {
      ++i;
      continue;
    }
    completions_.push_back(completion_of(*active_[i]));
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
    if (turn_ > i) --turn_;
    any = true;
  }
  return any;
}

core::Completion JobQueue::completion_of(Job& job) const {
  core::Completion completion;
  completion.id = job.operation.id;
  completion.bytes[Carriage::staged] = job.arrived_bytes;
  completion.link = job.arrived_bytes > 0 ? Link::host_bridge : Link::none;
  completion.known = Known::claimed;
  completion.pinned_bytes = job.outstanding_most * slot_bytes_;
  if (job.error.has_value()) completion.cause = job.error->cause;
  completion.error = std::move(job.error);
  return completion;
}

}  // namespace nobounce::provider::staged
