// nobounce_read_drive: blocks that read a drive by themselves, command by command: thread 0 of a block
// writes commands, rings the drive's doorbell and consumes completions; all threads add up what came.
#include "core/kernel_jobs.hpp"

using namespace nobounce;

extern "C" __global__ void nobounce_read_drive(core::ReadDriveJob job) {
  __shared__ std::uint32_t ended_well;
  __shared__ std::uint64_t offset;
  __shared__ unsigned long long sum;
  const std::uint32_t block = blockIdx.x;
  device::NativePlatform platform;
  device::NvmeProducer<device::NativePlatform> producer(
      platform, job.queue.queue<device::NativePlatform>());
  core::ReadDriveResult results;
  if (threadIdx.x == 0) sum = 0;
  for (std::uint32_t read = 0; read < job.reads; ++read) {
    if (threadIdx.x == 0) {
      const std::uint64_t deadline_ns = job.wait_ns == 0 ? 0 : platform.now_ns() + job.wait_ns;
      const device::Request request = core::request_of_drive_read(job, block, read);
      std::uint16_t code = 0;
      device::Result result = producer.submit(request, deadline_ns);
      if (result == device::Result::ok) {
        result = producer.wait(request.token, request.sequence, deadline_ns, code);
        // The memory is the command's until it has ended, however late that is.
        std::uint16_t late = 0;
        if (result == device::Result::deadline)
          (void)producer.wait(request.token, request.sequence, 0, late);
      }
      core::note_end(result, code, results);
      ended_well = result == device::Result::ok ? 1 : 0;
      offset = request.place;
    }
    __syncthreads();
    if (ended_well != 0) {
      const auto* data = reinterpret_cast<const ulonglong2*>(job.data + offset);
      unsigned long long own = 0;
      for (std::uint32_t i = threadIdx.x; i < job.read_bytes / 16; i += blockDim.x) {
        // Not from a cache that does not hear of what the drive writes.
        const ulonglong2 pair = __ldcv(data + i);
        own += pair.x + pair.y;
      }
      atomicAdd(&sum, own);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    results.sum = sum;
    reinterpret_cast<core::ReadDriveResult*>(job.results)[block] = results;
  }
}
