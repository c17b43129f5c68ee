// The worker of a drive: orders in, commands out, completions back, and what is overdue ended.
#include "provider/nvme/drive.hpp"

#include <algorithm>
#include <utility>

#include "provider/nvme/status.hpp"

namespace nobounce::provider::nvme {
namespace {

constexpr std::uint32_t quiet_before_health = 64;  ///< steps without news before a register is read
constexpr std::uint32_t quiet_before_rest = 2000;
constexpr std::uint64_t rest_ns = 50'000;
/// While others have queues the drive may fail without any command of ours.
constexpr std::uint64_t health_ns = 10'000'000;
constexpr std::uint64_t errand_patience_ns = 60'000'000'000;

Error unasked(std::string attempted) {
  return Error{.origin = ErrorOrigin::session,
               .attempted = std::move(attempted),
               .cause = Cause::async_queue_failed,
               .detail = "the drive's worker did not come to it in time"};
}

}  // namespace

Result<std::unique_ptr<Drive>> Drive::start(system::Host& host,
                                            std::unique_ptr<system::PciFunction> function,
                                            const ControllerOptions& options) {
  std::unique_ptr<Drive> drive(new Drive(host, std::move(function)));
  Result<std::unique_ptr<Controller>> controller =
      Controller::open(host, *drive->function_, options);
  if (!controller.ok()) return std::move(controller).error();
  drive->controller_ = std::move(*controller);
  drive->identity_ = drive->controller_->identity();
  drive->in_flight_.resize(drive->controller_->io().entries());
  Result<system::WorkerId> worker = host.workers().start(*drive, "nvme-drive");
  if (!worker.ok()) return std::move(worker).error();
  drive->worker_ = *worker;
  return drive;
}

Drive::~Drive() {
  if (worker_ != 0) (void)close(0);
  controller_.reset();
}

std::optional<Error> Drive::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Drive::submit(Job job) {
  {
    const std::lock_guard lock(mutex_);
    arrived_.push_back(std::make_shared<Job>(std::move(job)));
    idle_ = false;
  }
  host_.workers().wake(worker_);
}

std::size_t Drive::poll(std::span<core::Completion> completions) {
  const std::lock_guard lock(mutex_);
  const std::size_t count = std::min(completions.size(), completions_.size());
  std::move(completions_.begin(), completions_.begin() + static_cast<std::ptrdiff_t>(count),
            completions.begin());
  completions_.erase(completions_.begin(),
                     completions_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void Drive::cancel(core::OperationId operation) {
  {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back(operation);
  }
  host_.workers().wake(worker_);
}

bool Drive::close(std::uint64_t deadline_ns) {
  if (worker_ == 0) return true;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  host_.workers().wake(worker_);
  const bool quiet = host_.workers().wait(
      [this] {
        const std::lock_guard lock(mutex_);
        return idle_;
      },
      deadline_ns);
  host_.workers().stop(std::exchange(worker_, 0));
  // Even where the time has passed: only a controller that is off lets go of memory.
  (void)controller_->shut_down();
  lose_guests();
  return quiet;
}

bool Drive::run_errand(std::function<void(Controller&)> work) {
  const std::lock_guard one(errand_mutex_);
  Errand errand{std::move(work), false};
  {
    const std::lock_guard lock(mutex_);
    errand_ = &errand;
  }
  host_.workers().wake(worker_);
  const auto done = [&] {
    const std::lock_guard lock(mutex_);
    return errand.done;
  };
  if (host_.workers().wait(done, host_.clock().now_ns() + errand_patience_ns)) return true;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(errand_, nullptr) != nullptr) return false;
  }
  // It is at it: bounded by the timeouts of admin commands and of a reset.
  return host_.workers().wait(done, 0);
}

Result<GuestDoorbells> Drive::create_guest(Controller::GuestQueue queue,
                                           std::function<void()> lost) {
  Result<GuestDoorbells> made = Error{.origin = ErrorOrigin::nvme,
                                      .attempted = "make a queue of nvme:" + bdf(),
                                      .cause = Cause::async_queue_failed,
                                      .detail = "the drive grants no further queue"};
  const bool asked = run_errand([&](Controller& controller) {
    if (const auto failed = failure(); failed.has_value()) {
      made = *failed;
      return;
    }
    for (std::uint16_t id = 2; id < 2 + controller.guests_max(); ++id) {
      if (guests_.count(id) != 0) continue;
      queue.id = id;
      const Status status = controller.create_guest(queue);
      if (!status.ok()) {
        made = status.error();
        return;
      }
      guests_[id] = std::move(lost);
      made = GuestDoorbells{id, function_->bar_mapping(0), controller.submission_doorbell(id),
                            controller.completion_doorbell(id)};
      return;
    }
  });
  if (!asked) made = unasked("make a queue of nvme:" + bdf());
  return made;
}

GuestEnd Drive::delete_guest(std::uint16_t id) {
  GuestEnd end;
  const bool asked = run_errand([&](Controller& controller) {
    const auto found = guests_.find(id);
    if (found == guests_.end()) return;
    const bool lives = found->second != nullptr;
    guests_.erase(found);
    if (!lives) {
      end.status =
          Error{.origin = ErrorOrigin::nvme,
                .attempted = "end a queue of nvme:" + bdf(),
                .cause = Cause::async_queue_failed,
                .detail = "the controller was restarted meanwhile, and the queue ended with it"};
      return;
    }
    end.status = controller.delete_guest(id);
    // What it still has it may carry out at any time: only a reset makes sure that it does not.
    if (!end.status.ok()) start_over(end.status.error());
  });
  if (!asked) return {unasked("end a queue of nvme:" + bdf()), false};
  return end;
}

void Drive::lose_guests() {
  for (auto& [id, lost] : guests_) {
    if (lost != nullptr) std::exchange(lost, nullptr)();
  }
}

Status Drive::can_map_gpu(std::uint32_t gpu) {
  const std::lock_guard lock(mapping_mutex_);
  return function_->can_map_gpu(gpu);
}

Result<Iova> Drive::map_gpu(const GpuMemory& memory) {
  const std::lock_guard lock(mapping_mutex_);
  return function_->map_gpu(memory);
}

Result<Iova> Drive::map_host(const HostMemory& memory) {
  const std::lock_guard lock(mapping_mutex_);
  return function_->map_host(memory.address, memory.length_bytes);
}

void Drive::unmap(Iova iova) {
  const std::lock_guard lock(mapping_mutex_);
  function_->unmap(iova);
}

void Drive::stop(Job& job, Cause cause, const char* detail) {
  if (job.stopped) return;
  job.stopped = true;
  if (job.issued_blocks == job.blocks) return;  // all of it is on its way: it may still end well
  job.error = Error{
      .origin = ErrorOrigin::session, .attempted = "move blocks", .cause = cause, .detail = detail};
}

void Drive::take_orders(std::uint64_t now_ns) {
  std::vector<core::OperationId> cancelled;
  bool closing = false;
  {
    const std::lock_guard lock(mutex_);
    for (std::shared_ptr<Job>& job : arrived_) active_.push_back(std::move(job));
    arrived_.clear();
    cancelled.swap(cancelled_);
    closing = closing_;
  }
  for (const std::shared_ptr<Job>& job : active_) {
    const bool asked =
        std::find(cancelled.begin(), cancelled.end(), job->operation.id) != cancelled.end();
    if (asked || closing) stop(*job, Cause::session_cancelled, "it was asked to stop");
    if (job->operation.deadline_ns != 0 && now_ns >= job->operation.deadline_ns) {
      stop(*job, Cause::session_deadline_passed, "its deadline has passed");
    }
  }
}

void Drive::settle(std::uint16_t id, const Completion& completion) {
  InFlight& flight = in_flight_[id];
  Job& job = *flight.job;
  --job.outstanding;
  if (completion.code() == system::nvme::code::success) {
    job.moved_blocks += flight.blocks;
  } else if (flight.aborted) {
    if (!job.error.has_value() || job.error->cause != Cause::nvme_timeout) {
      job.error = Error{.origin = ErrorOrigin::nvme,
                        .code = completion.code(),
                        .attempted = "move blocks of nvme:" + bdf(),
                        .cause = Cause::nvme_timeout,
                        .detail =
                            "the drive did not complete a command in time, and aborted it "
                            "when asked: " +
                            status_text(completion)};
    }
    job.stopped = true;
  } else if (!job.error.has_value()) {
    const bool reading = job.opcode == system::nvme::Opcode::read;
    job.error = command_error((reading ? "read blocks of nvme:" : "write blocks of nvme:") + bdf(),
                              completion);
    job.stopped = true;
  }
  flight = {};
}

bool Drive::reap() {
  bool any = false;
  for (;;) {
    const QueuePair::Polled polled = controller_->io().poll();
    if (polled.kind == QueuePair::Polled::Kind::nothing) return any;
    any = true;
    if (polled.kind == QueuePair::Polled::Kind::nonsense) {
      start_over(Error{.origin = ErrorOrigin::nvme,
                       .attempted = "complete a command of nvme:" + bdf(),
                       .cause = Cause::nvme_controller_fatal,
                       .detail = "it completed command " + std::to_string(polled.completion.id) +
                                 ", which is not in flight"});
      return true;
    }
    settle(polled.completion.id, polled.completion);
  }
}

/// Ends what is under way with an error, and sets the controller up anew. Nothing of the old
/// commands reaches memory afterwards.
void Drive::start_over(const Error& why) {
  const Status again = controller_->restart();
  lose_guests();
  for (InFlight& flight : in_flight_) {
    if (flight.job == nullptr) continue;
    --flight.job->outstanding;
    flight.job->stopped = true;
    if (!flight.job->error.has_value()) flight.job->error = why;
    flight = {};
  }
  if (again.ok()) return;
  for (const std::shared_ptr<Job>& job : active_) {
    job->stopped = true;
    if (!job->error.has_value()) job->error = why;
  }
  const std::lock_guard lock(mutex_);
  failure_ = why;
  failure_->detail += "; it could not be set up anew: " + again.error().detail;
}

void Drive::watch(std::uint64_t now_ns) {
  if (quiet_steps_ % quiet_before_health == quiet_before_health - 1) {
    if (Status healthy = controller_->health(); !healthy.ok()) {
      start_over(healthy.error());
      return;
    }
  }
  for (std::uint16_t id = 0; id < in_flight_.size(); ++id) {
    InFlight& flight = in_flight_[id];
    if (flight.job == nullptr || now_ns < flight.deadline_ns) continue;
    if (!flight.aborted && controller_->abort(id).ok()) {
      flight.aborted = true;
      flight.deadline_ns = host_.clock().now_ns() + controller_->options().abort_timeout_ns;
      continue;
    }
    start_over(Error{.origin = ErrorOrigin::nvme,
                     .attempted = "move blocks of nvme:" + bdf(),
                     .cause = Cause::nvme_timeout,
                     .detail = "the drive did not complete a command in time, nor when asked to "
                               "abort it; it was reset"});
    return;
  }
}

bool Drive::fill(std::uint64_t now_ns) {
  bool any = false;
  const std::uint64_t most = identity_.transfer_bytes_max / identity_.block_bytes;
  for (const std::shared_ptr<Job>& job : active_) {
    while (!job->stopped && job->issued_blocks < job->blocks && controller_->io().has_room()) {
      const std::uint64_t count = std::min(most, job->blocks - job->issued_blocks);
      const Iova memory{job->memory.value + job->issued_blocks * identity_.block_bytes};
      const Result<std::uint16_t> id =
          controller_->submit(job->opcode, job->first_block + job->issued_blocks, count, memory);
      if (!id.ok()) {
        job->error = id.error();
        job->stopped = true;
        break;
      }
      in_flight_[*id] = {job, count, now_ns + controller_->options().command_timeout_ns, false};
      job->issued_blocks += count;
      ++job->outstanding;
      any = true;
    }
  }
  if (any) controller_->io().ring();
  return any;
}

void Drive::complete(Job& job) {
  if (job.unmap_at_end) unmap(job.memory);
  core::Completion completion;
  completion.id = job.operation.id;
  completion.bytes[Carriage::direct] = job.moved_blocks * identity_.block_bytes;
  if (job.moved_blocks < job.blocks) {
    completion.error = std::move(job.error);
    completion.cause = completion.error->cause;
  }
  const std::lock_guard lock(mutex_);
  completions_.push_back(std::move(completion));
}

void Drive::retire() {
  const auto ended = [](const std::shared_ptr<Job>& job) {
    return job->outstanding == 0 && (job->stopped || job->issued_blocks == job->blocks);
  };
  bool any = false;
  for (auto at = active_.begin(); at != active_.end();) {
    if (!ended(*at)) {
      ++at;
      continue;
    }
    complete(**at);
    at = active_.erase(at);
    any = true;
  }
  if (!any) return;
  {
    const std::lock_guard lock(mutex_);
    idle_ = active_.empty() && arrived_.empty();
  }
  host_.workers().notify();
}

system::Step Drive::step() {
  const std::uint64_t now_ns = host_.clock().now_ns();
  Errand* errand = nullptr;
  {
    const std::lock_guard lock(mutex_);
    errand = std::exchange(errand_, nullptr);
  }
  if (errand != nullptr) {
    errand->work(*controller_);
    const std::lock_guard lock(mutex_);
    errand->done = true;
    host_.workers().notify();
  }
  take_orders(now_ns);
  bool news = false;
  if (const auto failed = failure(); failed.has_value()) {
    for (const std::shared_ptr<Job>& job : active_) {
      job->stopped = true;
      if (!job->error.has_value()) job->error = failed;
    }
  } else {
    news = reap();
    if (controller_->io().in_flight() > 0) watch(now_ns);
    if (!guests_.empty() && now_ns - looked_at_health_ns_ >= health_ns) {
      looked_at_health_ns_ = now_ns;
      if (Status healthy = controller_->health(); !healthy.ok()) start_over(healthy.error());
    }
    if (!failure().has_value()) news = fill(now_ns) || news;
  }
  retire();
  if (active_.empty()) {
    const std::lock_guard lock(mutex_);
    idle_ = arrived_.empty();
    quiet_steps_ = 0;
    if (!idle_) return system::Step::busy();
    return guests_.empty() ? system::Step::idle() : system::Step::idle_until(now_ns + health_ns);
  }
  quiet_steps_ = news ? 0 : quiet_steps_ + 1;
  if (quiet_steps_ < quiet_before_rest) return system::Step::busy();
  return system::Step::idle_until(host_.clock().now_ns() + rest_ns);
}

}  // namespace nobounce::provider::nvme
