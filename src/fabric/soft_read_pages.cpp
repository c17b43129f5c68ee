// nobounce_read_pages on a software machine: the same requests, waits and comparisons as on a GPU,
// a step at a time. A block is one lane.
#include <cstdint>
#include <span>
#include <vector>

#include "core/kernel_jobs.hpp"
#include "fabric/soft_blocks.hpp"
#include "fabric/soft_kernels.hpp"
#include "fabric/soft_queue_platform.hpp"

namespace nobounce::fabric {

namespace {

using SoftProducer = device::Producer<SoftQueuePlatform>;

/// Every step is bounded: nothing here waits.
class PageBlock {
 public:
  PageBlock(const core::ReadPagesJob& job, std::uint32_t index) : job_(&job), index_(index) {}

  [[nodiscard]] bool done() const { return read_ == job_->reads; }

  void step(Lane& lane) {
    if (done()) return;
    const SoftQueuePlatform platform(lane);
    SoftProducer producer(platform,
                          job_->queues.queue<SoftQueuePlatform>(job_->queues.queue_of(index_)));
    const device::Request request = core::request_of_read(*job_, index_, read_);
    if (!claimed_) {
      ticket_ = producer.tickets().claim();
      claimed_ = true;
    }
    if (!asked_) {
      if (!producer.tickets().is_free(ticket_)) {
        if (producer.tickets().state() == device::State::failed)
          end(lane, device::Result::failed, 0);
        return;
      }
      producer.fill(ticket_, request);
      asked_ = true;
    }
    std::uint16_t code = 0;
    device::Result result = producer.poll(request.token, request.sequence, code);
    if (result == device::Result::pending) {
      if (producer.tickets().state() != device::State::failed) return;
      result = device::Result::failed;
    }
    end(lane, result, code);
  }

 private:
  void end(Lane& lane, device::Result result, std::uint16_t code) {
    core::note_end(*job_, read_, result, code, results_);
    if (result == device::Result::ok) take(lane);
    claimed_ = false;
    asked_ = false;
    if (++read_ < job_->reads) return;
    lane.store_bytes(DevicePointer{job_->results + index_ * sizeof results_},
                     std::as_bytes(std::span(&results_, 1)));
  }

  void take(Lane& lane) {
    std::vector<std::uint64_t> words(job_->page_bytes / sizeof(std::uint64_t));
    lane.load_bytes(DevicePointer{job_->queues.buffer_of(index_)},
                    std::as_writable_bytes(std::span(words)));
    const std::uint64_t first = core::offset_of_read(*job_, index_, read_) / sizeof(std::uint64_t);
    bool same = true;
    for (std::size_t i = 0; i < words.size(); ++i) {
      same = same && words[i] == core::pattern_word(job_->seed, first + i);
    }
    ++(same ? results_.good : results_.wrong);
    if (job_->target == 0) return;
    const std::uint64_t number = std::uint64_t{index_} * job_->reads + read_;
    lane.store_bytes(DevicePointer{job_->target + number * job_->page_bytes},
                     std::as_bytes(std::span(words)));
  }

  const core::ReadPagesJob* job_;
  std::uint32_t index_;
  std::uint32_t read_ = 0;
  bool claimed_ = false;
  bool asked_ = false;
  std::uint64_t ticket_ = 0;
  core::ReadPagesResult results_;
};

}  // namespace

Kernel make_read_pages(const KernelShape& shape, void* const* parameters) {
  return kernel_of_blocks<PageBlock, core::ReadPagesJob>(shape, parameters);
}

}  // namespace nobounce::fabric
