// What the litmus kernels are told. Compiled for CUDA too.
#pragma once

#include <cstdint>

#include <nobounce/device/queue_set.hpp>

namespace nobounce::device {

/// Payload and flag in pinned host memory, a cache line apart.
struct PassingJob {
  static constexpr std::uint32_t words = 64;
  static constexpr std::uint64_t give_up = ~std::uint64_t{0};  ///< ends the kernel, as any turn
  enum Mode : std::uint32_t {
    released = 0,       ///< one thread stores the payload and releases the flag
    relaxed = 1,        ///< it releases nothing: what that shows is reported, not asserted
    by_all_threads = 2  ///< all threads of the block store the payload, one releases the flag
  };
  std::uint64_t payload = 0;  ///< `words` words
  std::uint64_t flag = 0;
  std::uint64_t answer = 0;  ///< the other side's turn
  std::uint64_t stale = 0;   ///< words that the kernel found out of date
  std::uint64_t rounds = 0;
  std::uint32_t mode = released;
};

/// Lanes that send numbered requests through queues much smaller than they are.
struct CrowdJob {
  QueueSet queues;
  std::uint64_t outcomes = 0;  ///< of each thread: requests that were accepted
  std::uint32_t requests = 0;  ///< by each thread
  std::uint32_t together = 0;  ///< 1: the lanes of a warp claim at once
  std::uint64_t wait_ns = 0;
};

/// What a request of the crowd carries, so that a mixture of two is seen.
NOBOUNCE_DEVICE constexpr Request crowd_request(std::uint32_t token, std::uint64_t sequence) {
  Request request;
  request.operation = Operation::read;
  request.token = token;
  request.sequence = sequence;
  request.offset_bytes = static_cast<std::uint64_t>(token) << 32 | sequence;
  request.place = (~request.offset_bytes) >> 1;
  request.length_bytes = token * 2654435761U ^ static_cast<std::uint32_t>(sequence);
  return request;
}

/// Clock cycles of single accesses, and of one flag's way there and back in nanoseconds.
struct CostJob {
  enum Cost : std::uint32_t { timer, gpu_atomic, gpu_load, host_load, host_store, release, count };
  std::uint64_t cycles = 0;  ///< `count` words
  std::uint64_t gpu_word = 0;
  std::uint64_t host_word = 0;
  std::uint32_t rounds = 0;
};

}  // namespace nobounce::device
