// nobounce_read_pages: blocks that read pages of a file by themselves, compare every word and keep
// the bytes in GPU memory. Thread 0 of a block asks and waits; all threads fetch.
#include "core/kernel_jobs.hpp"

using namespace nobounce;

extern "C" __global__ void nobounce_read_pages(core::ReadPagesJob job) {
  __shared__ std::uint32_t ended_well;
  __shared__ std::uint32_t differing;
  __shared__ std::uint64_t first_word;
  const std::uint32_t block = blockIdx.x;
  device::NativePlatform platform;
  device::Producer<device::NativePlatform> producer(
      platform, job.queues.queue<device::NativePlatform>(job.queues.queue_of(block)));
  const auto* buffer = reinterpret_cast<const ulonglong2*>(job.queues.buffer_of(block));
  core::ReadPagesResult results;
  for (std::uint32_t read = 0; read < job.reads; ++read) {
    std::uint64_t begun_ns = 0;
    if (threadIdx.x == 0) {
      begun_ns = platform.now_ns();
      const std::uint64_t deadline_ns = job.wait_ns == 0 ? 0 : begun_ns + job.wait_ns;
      const device::Request request = core::request_of_read(job, block, read);
      std::uint16_t code = 0;
      device::Result result = producer.submit(request, deadline_ns);
      if (result == device::Result::ok) {
        result = producer.wait(request.token, request.sequence, deadline_ns, code);
        // The buffer is the request's until it has ended, however late that is.
        std::uint16_t late = 0;
        if (result == device::Result::deadline)
          (void)producer.wait(request.token, request.sequence, 0, late);
      }
      core::note_end(job, read, result, code, results);
      ended_well = result == device::Result::ok ? 1 : 0;
      first_word = request.offset_bytes / 8;
      differing = 0;
    }
    __syncthreads();
    const std::uint64_t number = static_cast<std::uint64_t>(block) * job.reads + read;
    if (ended_well != 0) {
      const std::uint64_t first = first_word;
      auto* target = reinterpret_cast<ulonglong2*>(job.target + number * job.page_bytes);
      std::uint32_t wrong = 0;
      for (std::uint32_t i = threadIdx.x; i < job.page_bytes / 16; i += blockDim.x) {
        // Not from a cache that does not hear of what the host writes.
        const ulonglong2 pair = __ldcv(buffer + i);
        if (pair.x != core::pattern_word(job.seed, first + 2 * i)) ++wrong;
        if (pair.y != core::pattern_word(job.seed, first + 2 * i + 1)) ++wrong;
        if (job.target != 0) target[i] = pair;
      }
      if (wrong != 0) atomicAdd(&differing, wrong);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      if (ended_well != 0) ++(differing == 0 ? results.good : results.wrong);
      if (job.latencies != 0) {
        reinterpret_cast<std::uint32_t*>(job.latencies)[number] =
            static_cast<std::uint32_t>(platform.now_ns() - begun_ns);
      }
    }
  }
  if (threadIdx.x == 0) reinterpret_cast<core::ReadPagesResult*>(job.results)[block] = results;
}
