// Copies by the GPUs' copy engines, piece by piece.
#include "system/copy_list.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace nobounce::system {

namespace {

constexpr std::uint64_t piece_bytes_most = 256u << 20;
/// A copy that runs when the deadline passes gets this long to end, so that its bytes are counted.
constexpr std::uint64_t landing_grace_ns = 100'000'000;
/// The same for one that was cancelled and has no deadline, or a late one.
constexpr std::uint64_t cancel_patience_ns = 20'000'000'000;
/// What has flown for so long is looked at rarely.
constexpr std::uint64_t stale_after_ns = 1'000'000'000;
constexpr std::uint64_t look_soon_ns = 20'000;
constexpr std::uint64_t look_rarely_ns = 10'000'000;

CopyEnds ends_of(const Segment& segment, std::uint64_t offset_bytes) {
  CopyEnds ends;
  if (const auto* host = std::get_if<HostMemory>(&segment.source)) {
    ends.host = host->address + offset_bytes;
  }
  if (const auto* host = std::get_if<HostMemory>(&segment.target)) {
    ends.host = host->address + offset_bytes;
  }
  if (const auto* gpu = std::get_if<GpuMemory>(&segment.source)) {
    ends.gpu_source = gpu->address.plus(offset_bytes);
  }
  if (const auto* gpu = std::get_if<GpuMemory>(&segment.target)) {
    ends.gpu_target = gpu->address.plus(offset_bytes);
  }
  return ends;
}

}  // namespace

void CopyList::add(const core::Operation& operation, const CopyOrder& order, std::uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  Job job;
  job.operation = operation;
  job.order = order;
  const bool ended = advance(job, now_ns);
  job.order.current = nullptr;  // other threads go on with it
  if (ended) {
    complete(job);
  } else {
    jobs_.push_back(std::move(job));
  }
}

void CopyList::refuse(core::OperationId id, Error error) {
  const std::lock_guard lock(mutex_);
  core::Completion completion;
  completion.id = id;
  completion.cause = error.cause;
  completion.error = std::move(error);
  completions_.push_back(std::move(completion));
}

bool CopyList::advance(std::uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  advance_all(now_ns);
  return !completions_.empty();
}

void CopyList::look_at_strays() {
  std::erase_if(strays_, [this](Stray& stray) {
    std::optional<Error> error;
    if (streams_.look(stray.copy, error) == Landing::flying) return false;
    stray.landed->store(true, std::memory_order_release);
    return true;
  });
}

void CopyList::give_up_on(Job& job) {
  job.copy.on->broken = true;
  const Segment& segment = job.operation.segment;
  strays_.push_back({job.copy, streams_.strays().add({segment.source}, {segment.target})});
  new_strays_ = true;
  stop(job, job.cancelled ? Cause::session_cancelled : Cause::session_deadline_passed,
       "the copy hangs; it may still reach its target later");
}

std::uint64_t CopyList::look_again_ns(std::uint64_t now_ns) const {
  const std::lock_guard lock(mutex_);
  if (jobs_.empty() && strays_.empty()) return 0;
  const bool fresh = std::any_of(jobs_.begin(), jobs_.end(), [&](const Job& job) {
    return now_ns < job.started_ns + stale_after_ns;
  });
  return now_ns + (fresh ? look_soon_ns : look_rarely_ns);
}

void CopyList::advance_all(std::uint64_t now_ns) {
  look_at_strays();
  for (std::size_t i = 0; i < jobs_.size();) {
    if (!advance(jobs_[i], now_ns)) {
      ++i;
      continue;
    }
    complete(jobs_[i]);
    jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

bool CopyList::advance(Job& job, std::uint64_t now_ns) {
  job.looked_ns = now_ns;
  const std::uint64_t deadline_ns = job.operation.deadline_ns;
  const bool late = deadline_ns != 0 && now_ns >= deadline_ns;
  if (job.copy.on != nullptr) {
    std::optional<Error> error;
    const Landing landing = streams_.look(job.copy, error);
    if (landing == Landing::flying) {
      if (job.cancelled && job.give_up_ns == 0) job.give_up_ns = now_ns + cancel_patience_ns;
      const bool over = late && now_ns >= std::max(deadline_ns, job.started_ns) + landing_grace_ns;
      if (!over && (job.give_up_ns == 0 || now_ns < job.give_up_ns)) return false;
      give_up_on(job);
      return true;
    }
    if (landing == Landing::landed) job.arrived_bytes += job.piece_bytes;
    if (landing == Landing::failed) {
      job.error = std::move(error);
      job.stopped = true;
    }
  }
  if (job.stopped || job.arrived_bytes == job.operation.segment.length_bytes) return true;
  if (late) {
    stop(job, Cause::session_deadline_passed, "the deadline passed");
    return true;
  }
  launch(job, now_ns, job.order.current);
  return job.stopped;
}

void CopyList::launch(Job& job, std::uint64_t now_ns, cuda::CUcontext current) {
  const Segment& segment = job.operation.segment;
  // Nothing can stop what somebody attends without a deadline: it needs no pieces.
  const bool whole = job.operation.attended && job.operation.deadline_ns == 0;
  job.piece_bytes = segment.length_bytes - job.arrived_bytes;
  if (!whole) job.piece_bytes = std::min(job.piece_bytes, piece_bytes_most);
  CopyEnds ends = ends_of(segment, job.arrived_bytes);
  ends.by_address = job.order.by_address;
  ends.current = current;
  Result<CopyInFlight> copy = streams_.start(job.order.lane, ends, job.piece_bytes);
  if (!copy.ok()) {
    job.error = std::move(copy).error();
    job.stopped = true;
    return;
  }
  job.copy = *copy;
  job.started_ns = now_ns;
}

void CopyList::stop(Job& job, Cause cause, const char* detail) {
  job.stopped = true;
  if (job.error.has_value()) return;
  job.error = Error{.origin = ErrorOrigin::session,
                    .attempted = job.order.attempted,
                    .cause = cause,
                    .detail = detail};
}

void CopyList::complete(Job& job) {
  core::Completion completion;
  completion.id = job.operation.id;
  completion.bytes[Carriage::direct] = job.arrived_bytes;
  if (job.arrived_bytes > 0) completion.link = job.order.link;
  completion.known = Known::claimed;
  completion.ended_ns = job.looked_ns;
  if (job.error.has_value()) completion.cause = job.error->cause;
  completion.error = std::move(job.error);
  completions_.push_back(std::move(completion));
}

std::size_t CopyList::poll(std::uint64_t now_ns, std::span<core::Completion> completions) {
  const std::lock_guard lock(mutex_);
  advance_all(now_ns);
  const std::size_t count = std::min(completions.size(), completions_.size());
  const auto end = completions_.begin() + static_cast<std::ptrdiff_t>(count);
  std::move(completions_.begin(), end, completions.begin());
  completions_.erase(completions_.begin(), end);
  return count;
}

void CopyList::rest(core::OperationId id) {
  CopyStreams::Rest rest;
  {
    const std::lock_guard lock(mutex_);
    for (const Job& job : jobs_) {
      if (job.operation.id == id && job.copy.on != nullptr)
        rest = CopyStreams::begin_rest(job.copy);
    }
  }
  if (rest.on == nullptr) return;
  streams_.wait(rest);
  const std::lock_guard lock(mutex_);
  CopyStreams::end_rest(rest);
}

void CopyList::cancel(core::OperationId id) {
  const std::lock_guard lock(mutex_);
  for (Job& job : jobs_) {
    if (job.operation.id != id) continue;
    job.cancelled = true;
    // All of it may be in flight already; then it ends as if nobody had asked.
    if (job.arrived_bytes + job.piece_bytes == job.operation.segment.length_bytes) continue;
    stop(job, Cause::session_cancelled, "the operation was cancelled");
  }
}

void CopyList::cancel_all() {
  const std::lock_guard lock(mutex_);
  for (Job& job : jobs_) {
    job.cancelled = true;
    if (job.arrived_bytes + job.piece_bytes == job.operation.segment.length_bytes) continue;
    stop(job, Cause::session_cancelled, "the provider is being closed");
  }
}

bool CopyList::idle() const {
  const std::lock_guard lock(mutex_);
  return jobs_.empty();
}

bool CopyList::release() {
  const std::lock_guard lock(mutex_);
  return streams_.release();
}

}  // namespace nobounce::system
