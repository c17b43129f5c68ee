// Litmus tests of the queue's ordering rules: does this GPU keep what its instructions promise?
#include "device/litmus_jobs.hpp"

using namespace nobounce::device;

namespace {

__device__ std::uint64_t* word_at(std::uint64_t address, std::uint32_t index = 0) {
  return reinterpret_cast<std::uint64_t*>(address) + index;
}

/// Waits for a round, or for the word that ends the test; false then.
__device__ bool await_round(const NativePlatform& platform, std::uint64_t word,
                            std::uint64_t round) {
  while (true) {
    const std::uint64_t seen = platform.load<Order::acquire, Scope::system>(word_at(word));
    if (seen == round) return true;
    if (seen == PassingJob::give_up) return false;
  }
}

}  // namespace

/// GPU to CPU: whoever sees the flag sees the payload.
extern "C" __global__ void litmus_to_host(PassingJob job) {
  NativePlatform platform;
  for (std::uint64_t round = 1; round <= job.rounds; ++round) {
    if (job.mode == PassingJob::by_all_threads) {
      for (std::uint32_t i = threadIdx.x; i < PassingJob::words; i += blockDim.x)
        *reinterpret_cast<volatile std::uint64_t*>(word_at(job.payload, i)) = round;
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      if (job.mode != PassingJob::by_all_threads) {
        for (std::uint32_t i = 0; i < PassingJob::words; ++i)
          platform.store<Order::relaxed, Scope::system>(word_at(job.payload, i), round);
      }
      if (job.mode == PassingJob::relaxed) {
        platform.store<Order::relaxed, Scope::system>(word_at(job.flag), round);
      } else {
        platform.store<Order::release, Scope::system>(word_at(job.flag), round);
      }
      if (!await_round(platform, job.answer, round)) return;
    }
    __syncthreads();
  }
}

/// CPU to GPU: the same the other way round; all threads of the block read the payload.
extern "C" __global__ void litmus_from_host(PassingJob job) {
  NativePlatform platform;
  __shared__ std::uint32_t stale;
  if (threadIdx.x == 0) stale = 0;
  for (std::uint64_t round = 1; round <= job.rounds; ++round) {
    if (threadIdx.x == 0) {
      if (!await_round(platform, job.flag, round)) return;
    }
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < PassingJob::words; i += blockDim.x) {
      if (__ldcv(reinterpret_cast<unsigned long long*>(word_at(job.payload, i))) != round)
        atomicAdd(&stale, 1U);
    }
    __syncthreads();
    if (threadIdx.x == 0) platform.store<Order::release, Scope::system>(word_at(job.answer), round);
  }
  __syncthreads();
  if (threadIdx.x == 0) *word_at(job.stale) = stale;
}

/// Many more lanes than slots.
extern "C" __global__ void litmus_crowd(CrowdJob job) {
  NativePlatform platform;
  const std::uint32_t token = blockIdx.x * blockDim.x + threadIdx.x;
  Producer<NativePlatform> producer(platform,
                                    job.queues.queue<NativePlatform>(job.queues.queue_of(token)));
  std::uint64_t accepted = 0;
  for (std::uint32_t i = 1; i <= job.requests; ++i) {
    const std::uint64_t deadline_ns = job.wait_ns == 0 ? 0 : platform.now_ns() + job.wait_ns;
    const Request request = crowd_request(token, i);
    const Result result = job.together != 0 ? producer.submit_together(request, deadline_ns)
                                            : producer.submit(request, deadline_ns);
    if (result == Result::ok) ++accepted;
  }
  *word_at(job.outcomes, token) = accepted;
}

extern "C" __global__ void litmus_costs(CostJob job) {
  NativePlatform platform;
  std::uint64_t sink = 0;
  for (std::uint32_t cost = 0; cost < CostJob::count; ++cost) {
    const long long begun = clock64();
    for (std::uint32_t i = 0; i < job.rounds; ++i) {
      switch (cost) {
        case CostJob::timer:
          sink += platform.now_ns();
          break;
        case CostJob::gpu_atomic:
          sink += platform.fetch_add<Order::relaxed, Scope::gpu>(word_at(job.gpu_word), sink | 1);
          break;
        case CostJob::gpu_load:
          sink += platform.load<Order::acquire, Scope::gpu>(word_at(job.gpu_word, sink & 1));
          break;
        case CostJob::host_load:
          sink += platform.load<Order::acquire, Scope::system>(word_at(job.host_word, sink & 1));
          break;
        case CostJob::host_store:
          platform.store<Order::relaxed, Scope::system>(word_at(job.host_word), sink + i);
          break;
        default:
          platform.store<Order::release, Scope::system>(word_at(job.host_word), sink + i);
          break;
      }
    }
    *word_at(job.cycles, cost) = static_cast<std::uint64_t>(clock64() - begun) / job.rounds;
  }
  *word_at(job.gpu_word) = sink;
}
