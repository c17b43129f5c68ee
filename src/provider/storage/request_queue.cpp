// The requests of the storage provider.
#include "provider/storage/request_queue.hpp"

#include <algorithm>
#include <utility>

namespace nobounce::provider::storage {

namespace {

bool io_ended(const Job& job) {
  return job.outstanding == 0 && (job.stopped || job.next_bytes == job.length_bytes());
}

bool has_requests(const Job& job) {
  return !job.stopped && job.next_bytes < job.length_bytes();
}

bool waits_for_window(const Job& job) {
  return job.open_bytes.aligned + job.open_bytes.bounced > 0;
}

/// Requests end on multiples of their size in the file, so that all but the first start on one.
std::uint64_t request_length(const Job& job) {
  const std::uint64_t offset = job.range.offset.value + job.next_bytes;
  const std::uint64_t left = job.length_bytes() - job.next_bytes;
  return std::min(request_bytes_most - offset % request_bytes_most, left);
}

}  // namespace

Call next_call(const Job& job, std::uint64_t offset_bytes, std::uint64_t length_bytes) {
  const std::uint64_t file = job.range.offset.value + offset_bytes;
  const std::uint64_t address = job.memory.address.value + offset_bytes;
  const std::uint64_t into_page = file % alignment_bytes;
  if (address % alignment_bytes != into_page || !job.buffer.registered ||
      job.buffer.base % alignment_bytes != 0) {
    return {offset_bytes, length_bytes, false};  // no cut makes any of it direct
  }
  if (into_page != 0) {
    return {offset_bytes, std::min(alignment_bytes - into_page, length_bytes), false};
  }
  const std::uint64_t whole = length_bytes - length_bytes % alignment_bytes;
  if (whole == 0) return {offset_bytes, length_bytes, false};
  return {offset_bytes, whole, true};
}

RequestQueue::Ready RequestQueue::ready(bool completed) {
  Ready result;
  result.completed = completed;
  const bool work = std::any_of(active_.begin(), active_.end(), [this](const auto& job) {
    return has_requests(*job) && may_start(*job);
  });
  if (work) {
    result.wake = parked_;
    parked_ = 0;
  }
  return result;
}

RequestQueue::Ready RequestQueue::add(std::shared_ptr<Job> job) {
  const std::lock_guard lock(mutex_);
  active_.push_back(std::move(job));
  return ready(settle());
}

void RequestQueue::refuse(core::OperationId id, Error error) {
  const std::lock_guard lock(mutex_);
  core::Completion completion;
  completion.id = id;
  completion.cause = error.cause;
  completion.error = std::move(error);
  completions_.push_back(std::move(completion));
}

bool RequestQueue::may_start(const Job& job) {
  const OpenWindow& window = window_of(job);
  return !window.held && !(window.careful && window.in_flight > 0);
}

RequestQueue::Claim RequestQueue::claim(unsigned worker, std::uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  Claim claim;
  expire_locked(now_ns);
  claim.completed = settle();
  for (std::size_t tried = 0; tried < active_.size(); ++tried) {
    if (turn_ >= active_.size()) turn_ = 0;
    const std::shared_ptr<Job>& job = active_[turn_++];
    if (!has_requests(*job) || !may_start(*job)) continue;
    OpenWindow& window = window_of(*job);
    if (!window.open) {
      window.window = {evidence_.read_counters(job->writing), std::nullopt, 0, 0};
      window.open = true;
    }
    ++window.in_flight;
    ++job->outstanding;
    claim.request = Request{job, job->next_bytes, request_length(*job)};
    job->next_bytes += claim.request->length_bytes;
    parked_ &= ~(std::uint64_t{1} << worker);
    return claim;
  }
  parked_ |= std::uint64_t{1} << worker;
  return claim;
}

RequestQueue::Ready RequestQueue::finish(const Request& request, RequestResult result) {
  const std::lock_guard lock(mutex_);
  Job& job = *request.job;
  OpenWindow& window = window_of(job);
  --window.in_flight;
  --job.outstanding;
  window.window.requests += result.calls;
  window.window.bounced += result.bounced_calls;
  job.open_bytes.aligned += result.bytes.aligned;
  job.open_bytes.bounced += result.bytes.bounced;
  if (result.error.has_value()) {
    job.stopped = true;
    if (!job.error.has_value()) job.error = std::move(result.error);
  }
  return ready(settle());
}

RequestQueue::Ready RequestQueue::cancel(core::OperationId id) {
  const std::lock_guard lock(mutex_);
  for (const std::shared_ptr<Job>& job : active_) {
    if (job->operation.id == id && has_requests(*job)) {
      stop(*job, Cause::session_cancelled, "the operation was cancelled");
    }
  }
  return ready(settle());
}

RequestQueue::Ready RequestQueue::cancel_all() {
  const std::lock_guard lock(mutex_);
  for (const std::shared_ptr<Job>& job : active_) {
    if (has_requests(*job)) {
      stop(*job, Cause::session_cancelled, "the provider is being closed");
    }
  }
  return ready(settle());
}

RequestQueue::Ready RequestQueue::fail_all(const Error& error) {
  const std::lock_guard lock(mutex_);
  for (const std::shared_ptr<Job>& job : active_) {
    if (!has_requests(*job)) continue;
    job->stopped = true;
    if (!job->error.has_value()) job->error = error;
  }
  return ready(settle());
}

RequestQueue::Ready RequestQueue::expire(std::uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  expire_locked(now_ns);
  return ready(settle());
}

void RequestQueue::expire_locked(std::uint64_t now_ns) {
  for (const std::shared_ptr<Job>& job : active_) {
    const std::uint64_t deadline_ns = job->operation.deadline_ns;
    if (deadline_ns == 0 || now_ns < deadline_ns || !has_requests(*job)) continue;
    stop(*job, Cause::session_deadline_passed, "the deadline passed");
  }
}

void RequestQueue::stop(Job& job, Cause cause, const char* detail) {
  job.stopped = true;
  if (job.error.has_value()) return;
  job.error = Error{.origin = ErrorOrigin::session,
                    .attempted = "move bytes between a file and GPU memory through cuFile",
                    .cause = cause,
                    .detail = detail};
}

std::size_t RequestQueue::take(std::span<core::Completion> completions) {
  const std::lock_guard lock(mutex_);
  const std::size_t count = std::min(completions.size(), completions_.size());
  const auto end = completions_.begin() + static_cast<std::ptrdiff_t>(count);
  std::move(completions_.begin(), end, completions.begin());
  completions_.erase(completions_.begin(), end);
  return count;
}

bool RequestQueue::idle() const {
  const std::lock_guard lock(mutex_);
  return active_.empty();
}

void RequestQueue::attribute_job(Job& job, WindowVerdict verdict) {
  storage::add(job.attribution, attribute(verdict, job.open_bytes));
  job.open_bytes = {};
}

/// Decides what can be decided about the window of one direction.
void RequestQueue::settle_window(bool writing) {
  OpenWindow& window = windows_[writing ? 1 : 0];
  if (!window.open) return;
  const auto concerned = [&](const Job& job) {
    return job.writing == writing && waits_for_window(job);
  };
  const bool ended = std::any_of(active_.begin(), active_.end(), [&](const auto& job) {
    return concerned(*job) && io_ended(*job);
  });
  if (window.in_flight > 0 && (!ended || window.held)) return;
  window.window.after = evidence_.read_counters(writing);
  const WindowVerdict verdict = judge_window(window.window);
  if (window.in_flight > 0) {
    // Without statistics nothing is gained by waiting; and if nothing was staged by anybody,
    // nothing was for the operations that have ended. Any other answer needs the window closed.
    const bool certain = verdict == WindowVerdict::direct || verdict == WindowVerdict::unavailable;
    window.held = !certain;
    if (!certain) return;
    for (const std::shared_ptr<Job>& job : active_) {
      if (concerned(*job) && io_ended(*job)) attribute_job(*job, verdict);
    }
    return;
  }
  for (const std::shared_ptr<Job>& job : active_) {
    if (concerned(*job)) attribute_job(*job, verdict);
  }
  window.open = false;
  window.held = false;
  if (verdict == WindowVerdict::mixed) window.careful = true;
}

bool RequestQueue::settle() {
  settle_window(false);
  settle_window(true);
  bool any = false;
  for (std::size_t i = 0; i < active_.size();) {
    if (!io_ended(*active_[i]) || waits_for_window(*active_[i])) {
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

core::Completion RequestQueue::completion_of(Job& job) {
  core::Completion completion;
  completion.id = job.operation.id;
  completion.bytes = job.attribution.bytes;
  completion.known = job.attribution.known;
  completion.cause = job.attribution.cause;
  const bool bounced = completion.bytes[Carriage::device_bounced] > 0;
  if (completion.cause == Cause::none && bounced) {
    completion.cause = job.buffer.registered ? Cause::storage_unaligned : job.buffer.cause;
  }
  if (job.error.has_value() && job.error->cause != Cause::none) completion.cause = job.error->cause;
  completion.error = std::move(job.error);
  return completion;
}

}  // namespace nobounce::provider::storage
