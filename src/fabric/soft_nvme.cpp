// The soft NVMe controller: registers, queues and doorbells.
#include "fabric/soft_nvme.hpp"

#include <algorithm>
#include <span>

namespace nobounce::fabric {

namespace nvme = system::nvme;
namespace reg = system::nvme::reg;

namespace {

/// The 4 or 8 bytes at `offset` of a register of 8 that begins at `begin`.
std::uint64_t part_of_register(std::uint64_t value, std::uint64_t begin, std::uint64_t offset) {
  return value >> (8 * (offset - begin));
}

void store_part(std::uint64_t& target, std::uint64_t begin, std::uint64_t offset,
                std::uint64_t value, std::size_t bytes) {
  if (bytes == 8) {
    target = value;
    return;
  }
  const unsigned shift = static_cast<unsigned>(8 * (offset - begin));
  const std::uint64_t mask = std::uint64_t{0xffffffff} << shift;
  target = (target & ~mask) | ((value << shift) & mask);
}

}  // namespace

SoftNvme::SoftNvme(Bus& bus, SoftWorkers& workers, const SoftFaults& faults, std::uint64_t seed,
                   const SoftNvmeShape& shape)
    : bus_(bus), workers_(workers), faults_(faults), shape_(shape), random_(seed) {
  bus_.attach_registers(shape_.drive, *this);
  engine_ = workers_.start_engine(*this, "nvme-controller");
}

SoftNvme::~SoftNvme() {
  workers_.stop(engine_.load());
  bus_.detach_registers(shape_.drive);
}

std::uint64_t SoftNvme::capabilities() const {
  const std::uint64_t timeout = 4;       // two seconds
  const std::uint64_t command_sets = 1;  // NVM
  const std::uint64_t contiguous = 1;    // queues must be
  return (shape_.queue_entries_max - 1) | contiguous << 16 | timeout << 24 | command_sets << 37;
}

std::uint64_t SoftNvme::load(std::uint64_t offset, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  std::uint64_t value = 0;
  if (offset < reg::capabilities + 8) {
    value = part_of_register(capabilities(), reg::capabilities, offset);
  } else if (offset == reg::version) {
    value = 0x00010400;
  } else if (offset == reg::configuration) {
    value = configuration_;
  } else if (offset == reg::status) {
    value = status_;
  } else if (offset == reg::admin_queue_attributes) {
    value = admin_attributes_;
  } else if (offset >= reg::admin_submission_queue && offset < reg::admin_submission_queue + 8) {
    value = part_of_register(admin_submission_, reg::admin_submission_queue, offset);
  } else if (offset >= reg::admin_completion_queue && offset < reg::admin_completion_queue + 8) {
    value = part_of_register(admin_completion_, reg::admin_completion_queue, offset);
  }
  return bytes == 4 ? value & 0xffffffff : value;
}

void SoftNvme::store(std::uint64_t offset, std::uint64_t value, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (offset == reg::configuration) {
      configure(static_cast<std::uint32_t>(value));
    } else if (offset == reg::admin_queue_attributes) {
      admin_attributes_ = static_cast<std::uint32_t>(value);
    } else if (offset >= reg::admin_submission_queue && offset < reg::admin_submission_queue + 8) {
      store_part(admin_submission_, reg::admin_submission_queue, offset, value, bytes);
    } else if (offset >= reg::admin_completion_queue && offset < reg::admin_completion_queue + 8) {
      store_part(admin_completion_, reg::admin_completion_queue, offset, value, bytes);
    } else if (offset >= reg::doorbells && offset % 4 == 0 && bytes == 4) {
      ring((offset - reg::doorbells) / 4, static_cast<std::uint32_t>(value));
    }
  }
  workers_.wake(engine_.load());
}

void SoftNvme::clear_queues() {
  submissions_ = {};
  completions_ = {};
  fetched_.clear();
}

void SoftNvme::configure(std::uint32_t value) {
  const bool was_on = (configuration_ & nvme::cc::enable) != 0;
  const bool on = (value & nvme::cc::enable) != 0;
  configuration_ = value;
  if ((value & (3u << 14)) != 0) {
    status_ = (status_ & ~nvme::csts::shutdown_mask) | nvme::csts::shutdown_complete;
  }
  if (was_on && !on) {
    clear_queues();
    status_ = 0;
  }
  if (!was_on && on) {
    clear_queues();
    status_ = faults_.nvme_never_ready ? 0 : nvme::csts::ready;
    submissions_[0] = {true, BusAddress{admin_submission_}, (admin_attributes_ & 0xfff) + 1, 0, 0,
                       0};
    completions_[0] = {
        true, BusAddress{admin_completion_}, ((admin_attributes_ >> 16) & 0xfff) + 1, 0, 0, true};
  }
}

void SoftNvme::ring(std::uint64_t index, std::uint32_t value) {
  const std::uint64_t queue = index / 2;
  if (queue >= queues_max) return;
  const bool completion = index % 2 == 1;
  const std::uint32_t entries =
      completion ? completions_[queue].entries : submissions_[queue].entries;
  // A value outside the queue is an asynchronous event on a real drive, and undefined after that.
  if (value >= entries) {
    status_ |= nvme::csts::fatal;
    return;
  }
  (completion ? completions_[queue].head : submissions_[queue].tail) = value;
}

void SoftNvme::set_bus_mastering(bool on) {
  {
    const std::lock_guard lock(mutex_);
    mastering_ = on;
  }
  workers_.wake(engine_.load());
}

void SoftNvme::reset() {
  const std::lock_guard lock(mutex_);
  clear_queues();
  configuration_ = 0;
  status_ = 0;
  admin_attributes_ = 0;
  admin_submission_ = 0;
  admin_completion_ = 0;
  mastering_ = false;
}

void SoftNvme::fetch() {
  for (std::uint16_t id = 0; id < queues_max; ++id) {
    Submission& queue = submissions_[id];
    while (queue.exists && queue.head != queue.tail) {
      Fetched fetched;
      fetched.queue = id;
      const BusAddress at = queue.base.plus(std::uint64_t{queue.head} * sizeof(Command));
      const Carried carried = bus_.device_load(
          shape_.drive, at, std::as_writable_bytes(std::span(&fetched.command, 1)));
      if (!carried.ok()) {
        status_ |= nvme::csts::fatal;  // a queue that it cannot read
        return;
      }
      queue.head = (queue.head + 1) % queue.entries;
      fetched_.push_back(fetched);
      if (id != 0 && random_.chance(faults_.nvme_fatal)) {
        status_ |= nvme::csts::fatal;
        return;
      }
    }
  }
}

bool SoftNvme::can_post(std::uint16_t submission_queue) const {
  const Completion& queue = completions_[submissions_[submission_queue].completion];
  return queue.exists && (queue.tail + 1) % queue.entries != queue.head;
}

std::optional<std::size_t> SoftNvme::choose() {
  std::vector<std::size_t> able;
  for (std::size_t i = 0; i < fetched_.size(); ++i) {
    if (can_post(fetched_[i].queue)) able.push_back(i);
  }
  if (able.empty()) return std::nullopt;
  const bool any = random_.chance(faults_.nvme_reorder);
  return able[any ? random_.below(able.size()) : 0];
}

system::Step SoftNvme::step() {
  const std::lock_guard lock(mutex_);
  const bool working = (status_ & nvme::csts::ready) != 0 && (status_ & nvme::csts::fatal) == 0;
  if (!working || !mastering_) return system::Step::idle();
  for (const Fetched& late : late_) (void)execute(late);
  late_.clear();
  fetch();
  if ((status_ & nvme::csts::fatal) != 0) return system::Step::idle();
  if (random_.chance(faults_.nvme_delay)) return system::Step::busy();
  const std::optional<std::size_t> chosen = choose();
  if (!chosen.has_value()) return system::Step::idle();
  const Fetched fetched = fetched_[*chosen];
  fetched_.erase(fetched_.begin() + static_cast<std::ptrdiff_t>(*chosen));
  if (bus_.planted(Mutant::nvme_early) && fetched.queue != 0) {
    post(fetched, {});
    late_.push_back(fetched);
    return system::Step::busy();
  }
  const Ended ended = execute(fetched);
  // Where the queue went away meanwhile, there is nowhere to answer.
  if (!submissions_[fetched.queue].exists) return system::Step::busy();
  if (fetched.queue == 0 || !random_.chance(faults_.nvme_lost_completion)) post(fetched, ended);
  return system::Step::busy();
}

void SoftNvme::post(const Fetched& fetched, Ended ended) {
  const Submission& from = submissions_[fetched.queue];
  Completion& queue = completions_[from.completion];
  if (bus_.planted(Mutant::nvme_errors_unsaid)) ended.code = nvme::code::success;
  nvme::Completion entry;
  entry.result = ended.result;
  entry.submission_head =
      static_cast<std::uint16_t>(bus_.planted(Mutant::nvme_head_stuck) ? 0 : from.head);
  entry.submission_queue = fetched.queue;
  entry.id = fetched.command.id;
  if (fetched.queue != 0 && random_.chance(faults_.nvme_wrong_id)) entry.id ^= 0x4000;
  const bool phase = queue.phase || bus_.planted(Mutant::nvme_phase_kept);
  entry.status = static_cast<std::uint16_t>((phase ? 1 : 0) | ended.code << 1 |
                                            (ended.do_not_retry ? 0x8000 : 0));
  const auto bytes = std::as_bytes(std::span(&entry, 1));
  const BusAddress at = queue.base.plus(std::uint64_t{queue.tail} * sizeof entry);
  // The half with the phase last: whoever polls sees all of an entry or nothing of it.
  (void)bus_.device_store(shape_.drive, bytes.first(8), at);
  (void)bus_.device_store(shape_.drive, bytes.subspan(8), at.plus(8));
  queue.tail = (queue.tail + 1) % queue.entries;
  if (queue.tail == 0) queue.phase = !queue.phase;
}

}  // namespace nobounce::fabric
