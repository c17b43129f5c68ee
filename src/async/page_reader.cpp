// Says what the kernel is to read, and adds up what its blocks say.
#include "async/page_reader.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "async/own_kernel.hpp"

namespace nobounce::async {

struct PageReader::State {
  OwnKernel kernel;
  std::uint32_t blocks_max = 0;
  std::uint64_t latencies_max = 0;
  std::uint64_t next_sequence = 1;
};

Result<PageReader> PageReader::load(Session& session, std::uint32_t gpu, std::uint32_t blocks_max,
                                    std::uint64_t latencies_max) {
  blocks_max = std::max(blocks_max, 1U);
  const std::uint64_t bytes = blocks_max * sizeof(core::ReadPagesResult) + latencies_max * 4;
  core::ReadPagesJob idle;
  idle.pages = 1;  // divided by, also where nothing is read
  Result<OwnKernel> kernel =
      OwnKernel::load(session, gpu, "read_pages", core::read_pages_kernel, bytes, idle);
  if (!kernel.ok()) return std::move(kernel).error();
  return PageReader(std::make_unique<State>(State{std::move(*kernel), blocks_max, latencies_max}));
}

PageReader::PageReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
PageReader::PageReader(PageReader&&) noexcept = default;
PageReader& PageReader::operator=(PageReader&&) noexcept = default;
PageReader::~PageReader() = default;

Result<PageReadsResult> PageReader::run(const KernelQueue& queue, const PageReads& wanted) {
  const device::QueueSet& queues = queue.queues();
  const std::uint64_t reads = std::uint64_t{wanted.blocks} * wanted.reads;
  const bool fits = wanted.blocks > 0 && wanted.blocks <= queues.tokens &&
                    wanted.blocks <= state_->blocks_max &&
                    wanted.file_bytes >= queues.buffer_bytes &&
                    (!wanted.latencies || reads <= state_->latencies_max);
  if (!fits) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "run a kernel that reads pages",
                 .detail = "more blocks than tokens, or more than it was loaded for"};
  }
  const std::uint64_t results_bytes = state_->blocks_max * sizeof(core::ReadPagesResult);
  core::ReadPagesJob job;
  job.queues = queues;
  job.target = wanted.target.value;
  job.results = state_->kernel.results_on_gpu();
  job.latencies = wanted.latencies ? job.results + results_bytes : 0;
  job.page_bytes = queues.buffer_bytes;
  job.pages = wanted.file_bytes / job.page_bytes;
  job.seed = wanted.seed;
  job.sequence = state_->next_sequence;
  job.wait_ns = wanted.wait_ns;
  job.reads = wanted.reads;
  job.bad_every = wanted.bad_every;
  job.in_order = wanted.in_order ? 1 : 0;
  state_->next_sequence += wanted.reads;
  PageReadsResult result;
  const Status ran = state_->kernel.run<core::ReadPagesResult>(
      job, {wanted.blocks, wanted.threads, wanted.timeout_ns},
      [&sum = result.sum](const core::ReadPagesResult& one) {
        sum.good += one.good;
        sum.wrong += one.wrong;
        sum.refused += one.refused;
        sum.failed += one.failed;
        if (one.last_code != 0) sum.last_code = one.last_code;
        if (one.last_result != 0) sum.last_result = one.last_result;
      });
  if (!ran.ok()) return ran.error();
  result.elapsed_ns = state_->kernel.elapsed_ns();
  if (wanted.latencies) {
    result.latencies_ns.resize(reads);
    std::memcpy(result.latencies_ns.data(), state_->kernel.results() + results_bytes, reads * 4);
  }
  return result;
}

}  // namespace nobounce::async
