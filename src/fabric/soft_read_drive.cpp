// nobounce_read_drive on a software machine: the same commands, doorbells and sums as on a GPU, a
// step at a time. A block is one lane.
#include <cstdint>
#include <span>
#include <vector>

#include "core/kernel_jobs.hpp"
#include "fabric/soft_blocks.hpp"
#include "fabric/soft_kernels.hpp"
#include "fabric/soft_queue_platform.hpp"

namespace nobounce::fabric {

namespace {

using DriveProducer = device::NvmeProducer<SoftQueuePlatform>;

/// Every step is bounded: nothing here waits.
class DriveBlock {
 public:
  DriveBlock(const core::ReadDriveJob& job, std::uint32_t index) : job_(&job), index_(index) {}

  [[nodiscard]] bool done() const { return told_; }

  void step(Lane& lane) {
    if (told_) return;
    if (read_ == job_->reads) {
      lane.store_bytes(DevicePointer{job_->results + index_ * sizeof results_},
                       std::as_bytes(std::span(&results_, 1)));
      told_ = true;
      return;
    }
    DriveProducer producer(SoftQueuePlatform(lane), job_->queue.queue<SoftQueuePlatform>());
    const device::Request request = core::request_of_drive_read(*job_, index_, read_);
    std::uint16_t code = 0;
    const device::Result result = advance(producer, request, code);
    if (result == device::Result::pending) return;
    if (result == device::Result::ok) add_up(lane, request);
    core::note_end(result, code, results_);
    stage_ = Stage::unclaimed;
    ++read_;
  }

 private:
  enum class Stage : std::uint8_t { unclaimed, claimed, filled, published };

  device::Result advance(DriveProducer& producer, const device::Request& request,
                         std::uint16_t& code) {
    if (stage_ == Stage::unclaimed) {
      if (!producer.is_sound(request)) return device::Result::error;
      ticket_ = producer.claim();
      stage_ = Stage::claimed;
    }
    if (producer.tickets().state() == device::State::failed) return device::Result::failed;
    producer.reap();
    if (stage_ == Stage::claimed) {
      if (!producer.is_free(ticket_)) return device::Result::pending;
      stopping_ = producer.tickets().state() == device::State::stopping;
      producer.fill(ticket_, stopping_ ? device::Request{} : request);
      stage_ = Stage::filled;
    }
    if (stage_ == Stage::filled) {
      if (!producer.publish(ticket_)) return device::Result::pending;
      if (stopping_) return device::Result::stopping;
      stage_ = Stage::published;
    }
    return producer.poll(request.token, request.sequence, code);
  }

  void add_up(Lane& lane, const device::Request& request) {
    std::vector<std::uint64_t> words(job_->read_bytes / sizeof(std::uint64_t));
    lane.load_bytes(DevicePointer{job_->data + request.place},
                    std::as_writable_bytes(std::span(words)));
    for (const std::uint64_t word : words) results_.sum += word;
  }

  const core::ReadDriveJob* job_;
  std::uint32_t index_;
  std::uint32_t read_ = 0;
  Stage stage_ = Stage::unclaimed;
  bool stopping_ = false;
  bool told_ = false;
  std::uint64_t ticket_ = 0;
  core::ReadDriveResult results_;
};

}  // namespace

Kernel make_read_drive(const KernelShape& shape, void* const* parameters) {
  return kernel_of_blocks<DriveBlock, core::ReadDriveJob>(shape, parameters);
}

}  // namespace nobounce::fabric
